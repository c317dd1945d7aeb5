package cli_test

import (
	"strings"
	"testing"
)

// The answer as a table and as JSON, from what a server says of a spec.
func TestSize(t *testing.T) {
	served(t)
	spec := `{"dimension": 2, "pkawv_taylor": {}}`
	// 2^60 bytes a state, see the fake.
	d := document(t, 0, "size", "--spec", spec, "--rate", "2", "--models", "3", "--label-delay", "1m")
	memory, disk := d["memory"].(map[string]any), d["disk"].(map[string]any)
	if v := memory["statesBytes"].(float64); v < 3*(1<<60) || v > 3.1*(1<<60) {
		t.Errorf("memory of the states %g", v)
	}
	if d["learner"] != "pkawv_taylor" || d["models"] != 3.0 || d["labelDelaySeconds"] != 60.0 || len(d["notes"].([]any)) != 0 {
		t.Errorf("answer %v", d)
	}
	late := document(t, 0, "size", "--spec", spec, "--rate", "2", "--models", "3", "--ttl", "2m")
	if a, b := disk["waitingBytes"].(float64), late["disk"].(map[string]any)["waitingBytes"].(float64); a <= 0 || b != 2*a {
		t.Errorf("%g bytes wait for a minute, %g for two", a, b)
	}
	kept := document(t, 0, "size", "--spec", spec, "--rate", "2", "--models", "3", "--snapshots-kept", "6")
	if a, b := disk["snapshotsBytes"].(float64), kept["disk"].(map[string]any)["snapshotsBytes"].(float64); b != 2*a {
		t.Errorf("3 snapshots take %g bytes, 6 take %g", a, b)
	}
	r := run(t, "size", "--spec", spec, "--rate", "1e5", "--ttl", "1h")
	for _, wanted := range []string{"1 model of pkawv_taylor", "memory", "EiB", "cores", "recovery", "note: 3.6e+08 predictions wait"} {
		if !strings.Contains(r.out, wanted) {
			t.Errorf("%q is not in\n%s", wanted, r.out)
		}
	}
	r = run(t, "size", "--spec", spec, "--rate", "1e-3", "--survive", "2", "--server-cores", "1e6")
	for _, wanted := range []string{"5 servers", "--cluster-groups 1 --cluster-replicas warm", "cores a server", "memory a server"} {
		if !strings.Contains(r.out, wanted) {
			t.Errorf("%q is not in\n%s", wanted, r.out)
		}
	}
	if r := run(t, "size", "--spec", spec, "--rate", "1e9", "--survive", "1"); r.code != 0 || !strings.Contains(r.out, "no cluster suffices") {
		t.Errorf("of an endless load %+v", r)
	}
	if r := run(t, "size", "--spec", spec, "--rate", "1", "-o", "csv"); r.code != 0 || strings.Count(r.out, "\n") != 2 {
		t.Errorf("as CSV %+v", r)
	}
}

func TestSizeMistakes(t *testing.T) {
	served(t)
	spec := `{"dimension": 2}`
	for wanted, args := range map[string][]string{
		"--rate is missing":  {"--spec", spec},
		"--spec is missing":  {"--rate", "1"},
		"a rate of -1":       {"--spec", spec, "--rate", "-1"},
		"--survive -1":       {"--spec", spec, "--rate", "1", "--survive", "-1"},
		"0 models":           {"--spec", spec, "--rate", "1", "--models", "0"},
		"is longer than":     {"--spec", spec, "--rate", "1", "--ttl", "1h", "--label-delay", "2h"},
		"the server refuses": {"--spec", spec, "--rate", "1", "--snapshots-kept", "0"},
		"unknown field":      {"--spec", `{"dimensions": 2}`, "--rate", "1"},
	} {
		if r := run(t, append([]string{"size"}, args...)...); r.code != 2 || !strings.Contains(r.errors, wanted) {
			t.Errorf("%v: %+v, want %q", args, r, wanted)
		}
	}
}
