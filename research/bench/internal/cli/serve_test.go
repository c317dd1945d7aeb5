package cli_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"hindsight/client"
	"hindsight/cmd/internal/child"
)

// figures are those of one server in the answer of "serve".
func figures(t *testing.T, d map[string]any, of string) map[string]any {
	t.Helper()
	f, ok := d[of].(map[string]any)
	if !ok {
		t.Fatalf("no figures of %s in %v", of, d)
	}
	return f
}

// A server and the echo beside it take a load of every kind, and answer every call.
func TestServe(t *testing.T) {
	program, temp := server(t), t.TempDir()
	t.Setenv("TMPDIR", temp)
	for name, args := range map[string][]string{
		"closed": {"--spec", `{"dimension": 4, "linear_awv": {}}`, "--models", "3", "--callers", "4", "--connections", "2"},
		"open": {"--rate", "200", "--spec", `{"fourier_awv": {}, "classes": {"max_classes": 4}, "inputs": [{"name": "n", "numeric": {}},
			{"name": "c", "categorical": {}}, {"name": "b", "boolean": {}}, {"name": "t", "time": {}}, {"name": "v", "vector": {"length": 2}}]}`},
		"signs": {"--callers", "2", "--spec", `{"dimension": 2, "outputs": 2, "fogd": {"loss": "LOSS_LOGISTIC"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"serve", "--server", program, "--duration", "500ms", "--warmup", "100ms", "--mix", "predict=2,observe=3"}, args...)
			d := document(t, 0, args...)
			for _, of := range []string{"server", "echo"} {
				f := figures(t, d, of)
				operations := f["operations"].([]any)
				calls := 0.0
				for _, o := range operations {
					o := o.(map[string]any)
					calls += o["calls"].(float64)
					latency := o["latencySeconds"].(map[string]any)
					if p50, most := latency["p50"].(float64), latency["max"].(float64); p50 <= 0 || most < p50 {
						t.Errorf("%s: %v", of, o)
					}
				}
				if len(operations) != 2 || calls == 0 || calls != f["calls"] || len(f["errors"].(map[string]any)) != 0 {
					t.Errorf("%s: %v", of, f)
				}
				if cpu, ok := f["cpuSecondsPerCall"].(float64); !ok || cpu < 0 {
					t.Errorf("%s: CPU %v", of, f["cpuSecondsPerCall"])
				}
				if memory, ok := f["residentBytes"].(float64); !ok || memory < 1<<20 {
					t.Errorf("%s: memory %v", of, f["residentBytes"])
				}
			}
		})
	}
	if !isEmpty(t, temp) {
		t.Error("a temporary directory is left")
	}
}

// The models of a server that runs are deleted after the load, and a server without
// metrics gives no figures of its process.
func TestServeRunning(t *testing.T) {
	err := child.Serve(t.Context(), server(t), func(s *child.Server) error {
		r := run(t, "serve", "--address", s.GRPC, "--metrics", "http://"+s.HTTP+"/none", "--dimension", "2",
			"--duration", "100ms", "--warmup", "0s", "--mix", "observe=1", "--echo=false")
		if r.code != 0 || !strings.Contains(r.errors, "no figures of the process") || strings.Contains(r.out, "echo") ||
			!strings.Contains(r.out, "Observe p99.9") || strings.Contains(r.out, "Predict") {
			t.Errorf("%+v", r)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		c, err := client.Dial(s.GRPC)
		if err != nil {
			return err
		}
		for m, err := range c.List(ctx, nil) {
			t.Errorf("the model %v is left, %v", m, err)
		}
		return c.Close()
	})
	if err != nil {
		t.Error(err)
	}
}

func TestServeMistakes(t *testing.T) {
	for wanted, args := range map[string][]string{
		"give one of them":     {"--server", "s", "--address", "a"},
		`there is no "learn"`:  {"--mix", "learn=1"},
		"the mix has no calls": {"--mix", "predict=0"},
		"must be positive":     {"--models", "0"},
		"a rate of -1":         {"--rate", "-1"},
		"--spec":               {"--spec", `{"dimensions": 3}`},
		"no such file":         {"--spec", "@none.json"},
	} {
		if r := run(t, append([]string{"serve"}, args...)...); r.code != 2 || !strings.Contains(r.errors, wanted) {
			t.Errorf("%v: %+v, want %q", args, r, wanted)
		}
	}
}
