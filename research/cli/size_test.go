package cli_test

import (
	"encoding/json"
	"strings"
	"testing"

	"hindsight/cmd/internal/child"
)

func TestSizeMistakes(t *testing.T) {
	const spec = `{"dimension": 2}`
	for wanted, args := range map[string][]string{
		"--spec is missing":       {"--rate", "1"},
		"--rate is missing":       {"--spec", spec},
		"is longer than --ttl":    {"--spec", spec, "--rate", "1", "--ttl", "1h", "--label-delay", "2h"},
		"-1 rounds a second":      {"--spec", spec, "--rate", "-1"},
		"--survive -1":            {"--spec", spec, "--rate", "1", "--survive", "-1"},
		`unknown field "learner"`: {"--spec", `{"learner": {}}`, "--rate", "1"},
		"--spec: open":            {"--spec", "@/nonexistent", "--rate", "1"},
	} {
		if r := run(t, append([]string{"size"}, args...)...); r.code != 2 || !strings.Contains(r.errors, wanted) {
			t.Errorf("%v: %+v, want %q", args, r, wanted)
		}
	}
}

// A server reports the cost of the spec, and the answer has the cluster that a loss wants.
func TestSize(t *testing.T) {
	s, err := child.Start(t.Context(), server(t), "--data-dir", t.TempDir(), "--grpc-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	args := []string{"size", "--address", s.GRPC, "--spec", `{"dimension": 2, "linear_awv": {}}`, "--rate", "2", "--survive", "1"}
	r := run(t, append(args, "--json")...)
	var d struct {
		Learner string
		Memory  struct{ StatesBytes float64 }
		Cluster struct{ Servers int }
	}
	if err := json.Unmarshal([]byte(r.out), &d); err != nil || d.Learner != "linear_awv" || d.Memory.StatesBytes <= 0 || d.Cluster.Servers != 3 {
		t.Errorf("%+v, %v", r, err)
	}
	if r := run(t, args...); r.code != 0 || !strings.Contains(r.out, "1 model of linear_awv") || !strings.Contains(r.out, "\ncluster ") {
		t.Errorf("%+v", r)
	}
}
