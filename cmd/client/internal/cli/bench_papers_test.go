package cli_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// ObserveBatch learns the rows one by one.
func (f *fake) ObserveBatch(_ context.Context, r *hindsightv1.ObserveBatchRequest) (*hindsightv1.ObserveBatchResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, err := f.model(r.GetModel())
	if err != nil {
		return nil, err
	}
	if len(m.labels) >= 150 && strings.HasSuffix(r.GetModel(), "kernel_awv") {
		return nil, refuse(codes.ResourceExhausted, "OBSERVATION_LIMIT", "no more")
	}
	answer := &hindsightv1.ObserveBatchResponse{}
	for _, o := range r.GetObservations() {
		outcome, err := m.learn(o)
		if err != nil {
			return nil, err
		}
		answer.Outcomes = append(answer.Outcomes, outcome)
	}
	return answer, nil
}

// benchData makes two tiny streams.
func benchData(t *testing.T) string {
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
	for name, content := range map[string]string{"air": air.String(), "elec2": elec.String()} {
		file, err := os.Create(filepath.Join(dir, name+".csv.gz"))
		if err != nil {
			t.Fatal(err)
		}
		z := gzip.NewWriter(file)
		_, err = z.Write([]byte(content))
		if err := errors.Join(err, z.Close(), file.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// entries returns what a run came to, by stream and learner.
func entries(t *testing.T, d map[string]any) map[string]map[string]any {
	t.Helper()
	all := make(map[string]map[string]any)
	for _, v := range d["entries"].([]any) {
		e := v.(map[string]any)
		all[fmt.Sprint(e["stream"], " ", e["learner"])] = e
	}
	return all
}

func TestBenchPapers(t *testing.T) {
	t.Setenv(actAsServer, "yes")
	temp, out := temporary(t), t.TempDir()
	d := document(t, 0, "bench", "papers", "--server", program(t), "--data", benchData(t), "--out", out)
	all := entries(t, d)
	if len(all) != 2*10 || all["air kernel_awv"]["refused"] != "refused after 256 rows: OBSERVATION_LIMIT" || all["air raker"]["rows"] != 300.0 {
		t.Errorf("%v", all)
	}
	skipped := d["skipped"].(map[string]any)
	if len(skipped) != 9 || skipped["bike"] != "its file is not there" || !strings.Contains(skipped["digits"].(string), "classes") {
		t.Errorf("skipped %v", skipped)
	}
	for _, name := range []string{"README.md", "air.csv", "air.svg", "elec2.svg", "curves/elec2.csv"} {
		if content, err := os.ReadFile(filepath.Join(out, name)); err != nil || len(content) == 0 {
			t.Errorf("%s: %d bytes, %v", name, len(content), err)
		}
	}
	if !isEmpty(t, temp) {
		t.Error("the temporary directory is left")
	}
}

func TestBenchPapersAtAddress(t *testing.T) {
	f := newFake()
	r := run(t, "bench", "papers", "--address", f.start(t), "--data", benchData(t), "--out", t.TempDir(),
		"--streams", "elec2", "--learners", "raker,linear_awv", "--rows", "40")
	if r.code != 0 {
		t.Fatalf("%+v", r)
	}
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	if len(lines) != 5 || !strings.HasPrefix(lines[1], "elec2   linear_awv    40") || !strings.Contains(lines[2], "raker") || !strings.HasSuffix(lines[1], "%") {
		t.Errorf("%q", lines)
	}
	if len(f.models) != 0 {
		t.Errorf("%d models are left", len(f.models))
	}
}

func TestBenchPapersUsage(t *testing.T) {
	data := benchData(t)
	for want, args := range map[string][]string{
		`--streams: there is no "fire"; there are air,`: {"--streams", "air,fire"},
		`--learners: there is no "knn"`:                 {"--learners", "knn"},
		"--rows -1 is negative":                         {"--rows", "-1"},
		"no such directory":                             {"--data", "/nonexistent"},
		"no stream that was asked for can be run":       {"--streams", "bike,digits"},
		"give one of them":                              {"--server", "x", "--address", "127.0.0.1:1"},
	} {
		r := run(t, append([]string{"bench", "papers", "--data", data, "--out", t.TempDir()}, args...)...)
		if r.code != 2 || !strings.Contains(r.errors, want) {
			t.Errorf("%v: %+v, want %q", args, r, want)
		}
	}
	if r := run(t, "bench", "papers", "--address", "127.0.0.1:1", "--data", data, "--out", t.TempDir()); r.code != 3 {
		t.Errorf("no server: %+v", r)
	}
	r := run(t, "bench", "papers", "--help")
	if r.code != 0 || !strings.Contains(r.out, "energy_adaraker") || !strings.Contains(r.out, "ada_raker") {
		t.Errorf("%+v", r)
	}
}

// The server itself learns a product of two inputs, whatever the learner.
func TestBenchPapersWithTheServer(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the server")
	}
	server := filepath.Join(t.TempDir(), "server")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", server, "hindsight/cmd/server")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	out := t.TempDir()
	all := entries(t, document(t, 0, "bench", "papers", "--server", server, "--data", benchData(t), "--out", out))
	mean := all["air running mean"]["meanLoss"].(float64)
	for name, e := range all {
		if e["baseline"] == true {
			continue
		}
		if e["rows"] != 300.0 || e["refused"] != nil || e["stateBytes"].(float64) <= 0 || e["roundsPerSecond"].(float64) <= 0 {
			t.Errorf("%s: %v", name, e)
		}
		if loss := e["meanLoss"].(float64); strings.HasPrefix(name, "air") && loss >= mean {
			t.Errorf("%s: loss %v, that of the running mean %v", name, loss, mean)
		}
		if strings.HasSuffix(name, "_awv") && (e["regretBound"] == nil || e["regret"].(float64) > e["regretBound"].(float64)) {
			t.Errorf("%s: regret %v, bound %v", name, e["regret"], e["regretBound"])
		}
	}
	report, err := os.ReadFile(filepath.Join(out, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{out, server, os.TempDir()} {
		if strings.Contains(string(report), secret) {
			t.Errorf("the report names %s", secret)
		}
	}
}
