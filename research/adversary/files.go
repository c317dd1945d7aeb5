package adversary

import (
	"encoding/csv"
	"io"
	"path/filepath"
	"strconv"

	"hindsight/cmd/research/figure"
)

const (
	playGreedy = "greedy"
	playRandom = "random"
)

// Save writes adversary.csv and adversary.svg into a directory.
func Save(dir string, r *Result) error {
	for _, f := range []struct {
		name  string
		write func(io.Writer, *Result) error
	}{{"adversary.csv", WriteTable}, {"adversary.svg", Draw}} {
		if err := figure.Save(filepath.Join(dir, f.name), func(w io.Writer) error { return f.write(w, r) }); err != nil {
			return err
		}
	}
	return nil
}

// WriteTable writes a row for every round of every course. Only the rows of
// exact Kernel-AWV have a certificate.
func WriteTable(w io.Writer, r *Result) error {
	out := csv.NewWriter(w)
	// The writer keeps its first error; see below.
	_ = out.Write([]string{"t", "learner", "regret", "play", "certificate"})
	for _, p := range []struct {
		name    string
		courses []Course
	}{{playGreedy, r.Greedy}, {playRandom, r.Random}} {
		for _, c := range p.courses {
			for t, round := range c.Rounds {
				certificate := ""
				if c.Name == NameKernel {
					certificate = digits(round.Certificate, 6)
				}
				_ = out.Write([]string{strconv.Itoa(t + 1), c.Name, digits(round.Regret, 6), p.name, certificate})
			}
		}
	}
	out.Flush()
	return out.Error()
}

// digits writes a number with n digits behind the point.
func digits(v float64, n int) string { return strconv.FormatFloat(v, 'f', n, 64) }

// number writes a number with all its digits.
func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
