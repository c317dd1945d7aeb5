package auto_test

import (
	"compress/gzip"
	"encoding/csv"
	"flag"
	"hash/fnv"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/auto"
)

var (
	keyFile   = flag.String("keyfile", "", "a CSV stream with keys")
	keyTarget = flag.String("keytarget", "y", "the label of -keyfile")
	keyRows   = flag.Int("keyrows", 1<<30, "the most rows of -keyfile")
	keyOff    = flag.Bool("keyoff", false, "without keys")
	keyInts   = flag.String("keyints", "", "numbers that are keys")
)

// keyedStream is a stream of a CSV file: texts are keys, and those of at most 64 values are indicators too.
type keyedStream struct {
	o auto.Options
	x [][]float64
	y []float64
}

func readKeyed(t *testing.T, name, target, ints string, rows int, keys bool) keyedStream {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Skip("no stream: ", err)
	}
	defer func() { _ = file.Close() }()
	var in io.Reader = file
	if filepath.Ext(name) == ".gz" {
		in, err = gzip.NewReader(file)
		require.NoError(t, err)
	}
	all, err := csv.NewReader(in).ReadAll()
	require.NoError(t, err)
	header, all := all[0], all[1:]
	all = all[:min(rows, len(all))]
	s := keyedStream{o: auto.Options{Outputs: 1, Lags: 2, Frequencies: 50, Microseconds: 500}, x: make([][]float64, len(all)), y: make([]float64, len(all))}
	for c, name := range header {
		if name == target {
			for i, r := range all {
				s.y[i], _ = strconv.ParseFloat(r[c], 64)
			}
			continue
		}
		addKeyed(&s, all, c, strings.Contains(","+ints+",", ","+name+","), keys)
	}
	s.o.Dimension = len(s.x[0])
	return s
}

func addKeyed(s *keyedStream, all [][]string, c int, key, keys bool) {
	d := len(s.x[0])
	values, numeric, times := map[string]int{}, true, true
	for _, r := range all {
		if _, ok := values[r[c]]; !ok {
			values[r[c]] = len(values)
		}
		if _, err := strconv.ParseFloat(r[c], 64); err != nil && r[c] != "" && r[c] != "NA" {
			numeric = false
		}
		if _, ok := moment(r[c]); !ok {
			times = false
		}
	}
	switch {
	case times:
		for i, r := range all {
			at, _ := moment(r[c])
			day := float64(at.Unix()) / 86400
			turns := []float64{2 * math.Pi * day / 7}
			if len(all[0][c]) > len(time.DateOnly) {
				turns = append(turns, 2*math.Pi*day)
			}
			for k, turn := range turns {
				s.x[i] = append(s.x[i], math.Sin(turn), math.Cos(turn))
				if i == 0 {
					s.o.Cycles = append(s.o.Cycles, d+2*k)
				}
			}
		}
	case numeric && !key:
		for i, r := range all {
			v, _ := strconv.ParseFloat(r[c], 64)
			s.x[i] = append(s.x[i], v)
		}
	default:
		if keys {
			s.o.Keys = append(s.o.Keys, auto.Key{Feature: d})
			for i, r := range all {
				h := fnv.New64a()
				h.Write([]byte(r[c]))
				s.x[i] = append(s.x[i], float64(h.Sum64()>>12|1))
			}
			d++
		}
		if len(values) <= 64 {
			for i, r := range all {
				one := make([]float64, len(values))
				one[values[r[c]]] = 1
				s.x[i] = append(s.x[i], one...)
			}
			s.o.Joint = append(s.o.Joint, auto.Span{From: d, To: d + len(values)})
		}
	}
}

func moment(text string) (time.Time, bool) {
	for _, layout := range []string{time.RFC3339, time.DateTime, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}

func TestKeyStream(t *testing.T) {
	if *keyFile == "" {
		t.Skip("no -keyfile")
	}
	s := readKeyed(t, *keyFile, *keyTarget, *keyInts, *keyRows, !*keyOff)
	if s.o.Dimension == 0 {
		t.Skip("nothing")
	}
	l := auto.New(s.o)
	var o model.Outcome
	loss, early := 0.0, 0.0
	begin := time.Now()
	for i, x := range s.x {
		require.NoError(t, l.Observe(&o, x, s.y[i:i+1], 1))
		miss := o.Predictions[0] - s.y[i]
		loss += miss * miss
		if i < 300 {
			early += miss * miss
		}
	}
	t.Logf("%s: rows %d d %d keys %d rmse %.5g first 300 %.5g %.0f us", filepath.Base(*keyFile), len(s.x), s.o.Dimension, len(s.o.Keys),
		math.Sqrt(loss/float64(len(s.x))), math.Sqrt(early/300), float64(time.Since(begin).Microseconds())/float64(len(s.x)))
	st := l.Stats()
	t.Logf("certificate %v, regret %.4g, %d bytes", st.CertificateOK, st.Regret, st.StateBytes)
	if testing.Verbose() {
		for _, e := range l.Report(model.ReportOptions{}).Experts {
			t.Logf("%40s %8.4f %.4f", e.Name, math.Sqrt(e.Loss/float64(len(s.x))), e.Weight)
		}
	}
}
