package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// gateOf is a label gate that set so many of a thousand labels aside.
func gateOf(aside uint64) func(*hindsightv1.ModelStats) {
	return func(s *hindsightv1.ModelStats) {
		s.LabelGate = &hindsightv1.LabelGateStats{SetAside: aside, Share: float64(aside) / 1000}
		if aside > 0 {
			s.LabelGate.LastSetAside, s.LabelGate.SetAsideLoss, s.LabelGate.RegretBeside = 903, 1e12, proto.Float64(2.5)
			s.LabelGate.Starts, s.LabelGate.LastStart = 1, 907
		}
	}
}

func TestStatsOfTheLabelGate(t *testing.T) {
	const words = "more than one label in a hundred cannot be right"
	for aside, want := range map[uint64][]string{
		0:  {"labels set aside 0, 0 %\nnew starts 0\n"},
		10: {"labels set aside 10, 1 %\nthe last one at 903\nloss on those not learned 1e+12\nregret on those not learned 2.5, beside the regret above\nnew starts 1\nthe last one at 907\n"},
		17: {"labels set aside 17, 1.7 %: " + words + ": look where the labels come from\n"},
	} {
		served(t).stats = gateOf(aside)
		out := run(t, "model", "stats", "m").out
		for _, line := range want {
			if !strings.Contains(squeeze(out), line) {
				t.Errorf("%d set aside: no %q in\n%s", aside, line, out)
			}
		}
		if strings.Contains(out, words) != (aside > 10) {
			t.Errorf("%d set aside: words %q or none in\n%s", aside, words, out)
		}
	}
}

// The fake sets labels from 1e6 on aside.
func TestLabelsSetAside(t *testing.T) {
	served(t)
	const line = "label set aside  it cannot be right: the model did not learn it\n"
	if r := run(t, "observe", "--model", "m", "--features", "1,2", "--label", "1"); strings.Contains(r.out, "set aside") {
		t.Errorf("of a good label: %+v", r)
	}
	if r := run(t, "observe", "--model", "m", "--features", "1,2", "--label", "1e6"); !strings.Contains(squeeze(r.out), squeeze(line)) {
		t.Errorf("no %q: %+v", line, r)
	}
	if d := document(t, 0, "observe", "--model", "m", "--features", "1,2", "--label", "1e6"); d["setAside"] != true {
		t.Errorf("%v", d)
	}
	path := filepath.Join(t.TempDir(), "dirty.csv")
	for rows, want := range map[string]string{"1,2,3\n1,2,1e6\n1,2,4\n1,2,-1e7\n": "\nlabels set aside 2, 50 %: more than one label in a hundred", "1,2,3\n": ""} {
		if err := os.WriteFile(path, []byte("x1,x2,y\n"+rows), 0o600); err != nil {
			t.Fatal(err)
		}
		r := run(t, "replay", "--csv", path, "--model", "m")
		if r.code != 0 || want == "" && strings.Contains(r.out, "set aside") || !strings.Contains(squeeze(r.out), want) {
			t.Errorf("replay of %q: no %q in %+v", rows, want, r)
		}
	}
}
