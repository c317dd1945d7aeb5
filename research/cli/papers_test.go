package cli_test

import (
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hindsight/client"
	"hindsight/cmd/internal/child"
	"hindsight/cmd/research/papers"
)

// streams makes a directory with two tiny streams.
func streams(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	var air, elec strings.Builder
	air.WriteString("x1,x2,y\n")
	elec.WriteString("x1,x2,y\n")
	for i := range 300 {
		x1, x2 := float64(i%17)/17, float64(i%5)/5
		fmt.Fprintf(&air, "%g,%g,%g\n", x1, x2, x1*x2)
		fmt.Fprintf(&elec, "%g,%g,%d\n", x1, x2, 1-2*(i%17/9))
	}
	for name, text := range map[string]string{"air": air.String(), "elec2": elec.String()} {
		file, err := os.Create(filepath.Join(dir, name+".csv.gz"))
		if err != nil {
			t.Fatal(err)
		}
		z := gzip.NewWriter(file)
		_, err = z.Write([]byte(text))
		if err := errors.Join(err, z.Close(), file.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Every learner of the server learns a product of two inputs. Streams without a
// file are left out.
func TestPapers(t *testing.T) {
	program, temp, out := server(t), t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", temp)
	d := document(t, 0, "papers", "--server", program, "--data", streams(t), "--out", out)
	all := entries(t, d)
	mean := all["air running mean"]["meanLoss"].(float64)
	for name, e := range all {
		if e["baseline"] == true {
			continue
		}
		if e["rows"] != 300.0 || e["rejected"] != nil || e["stateBytes"].(float64) <= 0 || e["roundsPerSecond"].(float64) <= 0 {
			t.Errorf("%s: %v", name, e)
		}
		if loss := e["meanLoss"].(float64); strings.HasPrefix(name, "air") && loss >= mean {
			t.Errorf("%s: loss %v, that of the running mean %v", name, loss, mean)
		}
		awv := strings.HasSuffix(name, "_awv") || strings.HasSuffix(name, "_awv.lambdas")
		if awv && (e["regretBound"] == nil || e["regret"].(float64) > e["regretBound"].(float64)) {
			t.Errorf("%s: regret %v, bound %v", name, e["regret"], e["regretBound"])
		}
		// The regret of kons is not known, its bound is. A dictionary that grows has one too.
		learner := strings.Fields(name)[1]
		certified := learner == papers.NameFourierKons || learner == papers.NameKons || learner == papers.NameProsNKons
		if certified && e["regretBound"] == nil {
			t.Errorf("%s has no bound", name)
		}
	}
	skipped := d["skipped"].(map[string]any)
	for name, e := range all {
		levels, _ := e["intervals"].([]any)
		if quantity := strings.HasPrefix(name, "air ") && e["baseline"] != true; quantity != (len(levels) == 2) {
			t.Errorf("%s: intervals %v", name, levels)
		}
		if e["baseline"] != true && e["skill"] == nil {
			t.Errorf("%s: no skill", name)
		}
	}
	late, _ := d["late"].([]any)
	if len(late) != 2*len(papers.Delays()) || late[0].(map[string]any)["skill"] == nil {
		t.Errorf("late labels %v", late)
	}
	if len(all) != 2*(len(papers.Learners())+2) || len(skipped) != 9 || skipped["bike"] != "its file is not there" || !strings.Contains(skipped["digits"].(string), "classes") {
		t.Errorf("%d entries, skipped %v", len(all), skipped)
	}
	for _, name := range []string{"air.csv", "air.svg", "elec2_steps.svg", "curves/elec2.csv", "late/air.csv"} {
		if content(t, out, filepath.FromSlash(name)) == "" {
			t.Errorf("%s is empty", name)
		}
	}
	for _, name := range []string{"baselines/summary.csv", "baselines/air.csv", "baselines/elec2.svg", "baselines/dictionary.svg", "baselines/dictionary_kons.svg", "baselines/curves/elec2.csv"} {
		if content(t, out, filepath.FromSlash(name)) == "" {
			t.Errorf("%s is empty", name)
		}
	}
	report := content(t, out, "README.md")
	if !strings.Contains(report, "- bike: its file is not there.") || !strings.Contains(report, "https://doi.org/10.24432/C5W894") {
		t.Error("the report does not say that bike has no file, or where it comes from")
	}
	for _, secret := range []string{out, program, temp} {
		if strings.Contains(report, secret) {
			t.Errorf("the report names %s", secret)
		}
	}
	if !isEmpty(t, temp) {
		t.Error("the directory of the server is left")
	}
}

func TestPapersAtAddress(t *testing.T) {
	s, err := child.Start(t.Context(), server(t), "--data-dir", t.TempDir(), "--grpc-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	// The flag wins over the environment variable.
	t.Setenv("HINDSIGHT_STREAMS", t.TempDir())
	args := []string{
		"papers", "--address", s.GRPC, "--out", t.TempDir(),
		"--streams", "elec2", "--learners", "raker,linear_awv", "--rows", "40",
	}
	dir := streams(t)
	byFlag := run(t, append(args, "--data", dir)...)
	t.Setenv("HINDSIGHT_STREAMS", dir)
	byEnvironment := run(t, args...)
	for _, r := range []result{byFlag, byEnvironment} {
		lines := strings.Split(strings.TrimSpace(r.out), "\n")
		if r.code != 0 || len(lines) != 5 || !strings.HasPrefix(lines[1], "elec2   linear_awv    40") || !strings.Contains(lines[2], "raker") || !strings.HasSuffix(lines[1], "%") {
			t.Errorf("%+v", r)
		}
	}
	c, err := client.Dial(s.GRPC)
	if err != nil {
		t.Fatal(err)
	}
	left, err := c.ListPage(t.Context(), nil)
	if err := errors.Join(err, c.Close()); err != nil || len(left.GetModels()) != 0 {
		t.Errorf("%d models are left, %v", len(left.GetModels()), err)
	}
}

// Without a stream the command says where to get them. It starts no server and
// writes no report.
func TestPapersWithoutStreams(t *testing.T) {
	t.Setenv("HINDSIGHT_STREAMS", "")
	t.Chdir(t.TempDir())
	empty := t.TempDir()
	for dir, args := range map[string][]string{
		"streams": {"papers"},
		empty:     {"papers", "--data", empty, "--streams", "air,digits"},
	} {
		out := filepath.Join(t.TempDir(), "results")
		args = append(args, "--server", "/nonexistent/server", "--out", out)
		r := run(t, args...)
		for _, want := range []string{"No stream was run", filepath.Join(dir, "air.csv.gz"), "https://doi.org/10.24432/C59K5F", "digits: its labels are ten classes", "HINDSIGHT_STREAMS"} {
			if r.code != 0 || !strings.Contains(r.out, want) {
				t.Errorf("%v: no %q in %+v", args, want, r)
			}
		}
		d := document(t, 0, args...)
		if len(d["entries"].([]any)) != 0 || d["skipped"].(map[string]any)["air"] != "its file is not there" {
			t.Errorf("%v: %v", args, d)
		}
		if !isEmpty(t, out) {
			t.Errorf("%v: a report is written", args)
		}
	}
	if r := run(t, "papers", "--streams", "digits"); r.code != 0 || strings.Contains(r.out, "https://") || strings.Contains(r.out, "--data") {
		t.Errorf("only a stream that is not served: %+v", r)
	}
}

func TestPapersUsage(t *testing.T) {
	data := streams(t)
	for want, args := range map[string][]string{
		`--streams: there is no "fire"; there are air,`: {"--streams", "air,fire"},
		`--learners: there is no "knn"`:                 {"--learners", "knn"},
		"--rows -1 is negative":                         {"--rows", "-1"},
		"there is no directory /nonexistent":            {"--data", "/nonexistent"},
		"give one of them":                              {"--server", "x", "--address", "127.0.0.1:1"},
		"--timeout must be positive":                    {"--timeout", "0s"},
	} {
		r := run(t, append([]string{"papers", "--data", data, "--out", t.TempDir()}, args...)...)
		if r.code != 2 || !strings.HasPrefix(r.errors, "hindsight-research: ") || !strings.Contains(r.errors, want) {
			t.Errorf("%v: %+v, want %q", args, r, want)
		}
	}
	t.Setenv("HINDSIGHT_STREAMS", "/nonexistent")
	if d := document(t, 2, "papers"); !strings.Contains(d["error"].(map[string]any)["message"].(string), "/nonexistent") {
		t.Errorf("%v", d)
	}
	if r := run(t, "papers", "--address", "127.0.0.1:1", "--data", data, "--out", t.TempDir()); r.code != 3 {
		t.Errorf("no server: %+v", r)
	}
	r := run(t, "papers", "--help")
	if r.code != 0 || !strings.Contains(r.out, "energy_adaraker") || !strings.Contains(r.out, "ada_raker") {
		t.Errorf("%+v", r)
	}
}
