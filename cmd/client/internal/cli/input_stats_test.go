package cli_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

func TestStatsTablesOfInputs(t *testing.T) {
	f := served(t)
	f.stats = func(s *hindsightv1.ModelStats) {
		s.Drift = nil
		s.Inputs = []*hindsightv1.InputStats{
			{
				Name: "temperature", Seen: 900, Missing: 100, Outside: 9, OutsideShare: proto.Float64(0.01),
				Low: proto.Float64(-20), High: proto.Float64(31), Mean: proto.Float64(8.5), Deviation: proto.Float64(7.25), Shift: proto.Float64(0.1),
			},
			{Name: "city", Seen: 1000, Outside: 12, OutsideShare: proto.Float64(0.012), Categories: 12, Shift: proto.Float64(0.2)},
			{Name: "load\tkW", Seen: 1000, OutsideShare: proto.Float64(0), Mean: proto.Float64(0), Deviation: proto.Float64(0), Shift: proto.Float64(0.26)},
			{Name: "silent", Missing: 1000, Shift: proto.Float64(0)},
			{Name: "new"},
		}
		s.Weights = []*hindsightv1.FeatureWeight{
			{Feature: "temperature", Weight: -0.5, Effect: proto.Float64(-3.625)},
			{Feature: "city=Oslo", Weight: 2, Effect: proto.Float64(0.25)},
			{Weight: 12.5},
		}
	}
	wantTables(t, run(t, "model", "stats", "m"), `input        seen  missing  outside  mean  deviation  shift
temperature  900   10.0 %   1.0 %    8.5   7.25       0.1   steady
city         1000  0.0 %    1.2 %                     0.2   moved
"load\tkW"   1000  0.0 %    0.0 %    0     0          0.26  moved much
silent       0     100.0 %                            0     steady
new          0

feature      weight  effect
temperature  -0.5    -3.625
city=Oslo    2       0.25
constant     12.5
`)
	d := document(t, 0, "model", "stats", "m")
	inputs, weights := d["inputs"].([]any), d["weights"].([]any)
	if city := inputs[1].(map[string]any); len(inputs) != 5 || city["shift"] != 0.2 || city["mean"] != nil || len(weights) != 3 {
		t.Errorf("inputs %v, weights %v", inputs, weights)
	}
}

// The table of the losses of the first features has powers of two, JSON has all.
func TestTheHindsightPath(t *testing.T) {
	f := served(t)
	f.stats = func(s *hindsightv1.ModelStats) { s.Drift, s.Performance = nil, nil }
	wantTables(t, run(t, "model", "stats", "m", "--path"), `first features  loss in hindsight
0               64
1               32
2               16
4               4
5               2.5
`)
	if d := document(t, 0, "model", "stats", "m", "--path"); fmt.Sprint(d["hindsightPath"]) != "[64 32 16 8 4 2.5]" {
		t.Errorf("as JSON %v", d["hindsightPath"])
	}
	if r := run(t, "model", "stats", "m"); r.code != 0 || strings.Contains(r.out, "first features") {
		t.Errorf("a path that nobody asked for: %+v", r)
	}
	f.stats = func(s *hindsightv1.ModelStats) { s.HindsightPath = nil }
	if r := run(t, "model", "stats", "m", "--path"); r.code != 0 || strings.Contains(r.out, "first features") {
		t.Errorf("a learner without one: %+v", r)
	}
}

func TestTheShareOfTheParametricPart(t *testing.T) {
	f := served(t)
	f.stats = func(s *hindsightv1.ModelStats) { s.ParametricShare = proto.Float64(0.9375) }
	if r := run(t, "model", "stats", "m"); r.code != 0 || !strings.Contains(squeeze(r.out), "\nexplained by the parametric part 93.8 %\n") {
		t.Errorf("%+v", r)
	}
	if d := document(t, 0, "model", "stats", "m"); d["parametricShare"] != 0.9375 {
		t.Errorf("as JSON %v", d["parametricShare"])
	}
}

// The weights of several outputs have the names of the classes, or the numbers of the
// outputs. The table shows the first twenty.
func TestWeightsOfOutputs(t *testing.T) {
	f := served(t)
	f.stats = func(s *hindsightv1.ModelStats) {
		s.Drift, s.Performance = nil, nil
		s.Classes = &hindsightv1.ClassStats{Classes: []*hindsightv1.ClassCounts{{Class: "cat"}, {Class: "dog"}}}
		for n := range 25 {
			s.Weights = append(s.Weights, &hindsightv1.FeatureWeight{Feature: fmt.Sprintf("x[%d]", n), Weight: float64(n), Output: int32(n % 3)})
		}
	}
	out := squeeze(run(t, "model", "stats", "m").out)
	for _, want := range []string{"\nx[0], cat 0\nx[1], dog 1\nx[2], output 3 2\n", "\nx[19], dog 19\nand 5 more\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}
