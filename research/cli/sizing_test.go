package cli_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"hindsight/cmd/internal/child"
	"hindsight/cmd/research/capacity"
)

// A small case is measured whole: under load, and after a crash.
func TestSizing(t *testing.T) {
	program, temp := server(t), t.TempDir()
	t.Setenv("TMPDIR", temp)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	echo, err := child.Start(ctx, os.Args[0], "echo")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := echo.Stop(ctx); err != nil {
			t.Error(err)
		}
	}()
	b := &capacity.Bench{Program: program, Echo: echo.GRPC, EchoMetrics: "http://" + echo.HTTP + "/metrics"}
	c := capacity.Case{Name: "small", Spec: `{"dimension": 3, "linear_awv": {}, "coverage": [0.9]}`, Models: 2, Calls: 200, Bulk: 256}
	r, err := b.Measure(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	// 100 warm the models up. The ids of the newest records are not in the store yet.
	learned := 100 + 200 + 256.0
	if r.Measured != 200 || r.Pending != 200 || r.Logged != learned || r.Replayed != learned || r.IDs < 200 || r.IDs > learned {
		t.Errorf("%+v", r)
	}
	for what, v := range map[string]float64{
		"state": r.StateBytes, "models": r.ModelsBytes, "empty": r.EmptyBytes, "resident": r.ResidentBytes,
		"log": r.LogBytes, "pending": r.PendingBytes, "start": r.StartSeconds, "recovery": r.RecoveryCPU,
	} {
		if v <= 0 {
			t.Errorf("%s: %g", what, v)
		}
	}
	if !isEmpty(t, temp) {
		t.Error("a temporary directory is left")
	}
}

func TestSizingMistakes(t *testing.T) {
	for wanted, args := range map[string][]string{
		"--server is missing": nil,
		"no case has":         {"--server", "s", "--only", "nothing"},
	} {
		if r := run(t, append([]string{"sizing"}, args...)...); r.code != 2 || !strings.Contains(r.errors, wanted) {
			t.Errorf("%v: %+v, want %q", args, r, wanted)
		}
	}
	if r := run(t, "sizing", "--server", "/nonexistent/server", "--only", "raker", "--out", t.TempDir()); r.code != 1 || !strings.Contains(r.errors, "raker") {
		t.Errorf("%+v", r)
	}
}
