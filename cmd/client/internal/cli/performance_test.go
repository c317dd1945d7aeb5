package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// tables returns what follows the first empty line: the tables of an answer.
func tables(out string) string {
	_, after, _ := strings.Cut(out, "\n\n")
	return after
}

// wantTables compares tables without the spaces at the ends of lines.
func wantTables(t *testing.T, r result, want string) {
	t.Helper()
	var b strings.Builder
	for line := range strings.Lines(tables(r.out)) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	if r.code != 0 || b.String() != want {
		t.Errorf("exit code %d, tables\n%swant\n%s", r.code, b.String(), want)
	}
}

// known is a statistic that every part of the tables has something to say of.
func known(s *hindsightv1.ModelStats) {
	figures := func(loss, mean, last float64) *hindsightv1.PerformanceFigures {
		return &hindsightv1.PerformanceFigures{
			MeanLoss: loss, RunningMeanLoss: &mean, LastLabelLoss: &last, Skill: proto.Float64(1 - loss/min(mean, last)),
		}
	}
	s.ServedObservations, s.ServedLossSum, s.ServedRegret = 3900, proto.Float64(1000), proto.Float64(7)
	s.Performance = &hindsightv1.Performance{Observations: 4000, Prequential: figures(0.1, 0.4, 0.5), Served: figures(0.25, 0.5, 1)}
	s.Recent = &hindsightv1.Performance{Observations: 1016, Prequential: figures(0.2, 0.2, 0.2), Served: figures(0.75, 0.5, 1)}
	s.Discounted = &hindsightv1.Performance{
		Observations: 981.7, Prequential: &hindsightv1.PerformanceFigures{MeanLoss: 1, RunningMeanLoss: new(float64), LastLabelLoss: new(float64)}, Served: figures(2, 2.01, 4),
	}
	s.Intervals = []*hindsightv1.IntervalStats{
		{
			Coverage: 0.9, Observations: 4000, Realised: proto.Float64(0.9045), Recent: proto.Float64(0.91),
			Least: proto.Float64(0.876), MeanWidth: proto.Float64(1.25), MeanScore: proto.Float64(1.75),
		},
		{Coverage: 0.999, Observations: 12, Realised: proto.Float64(1), MeanWidth: proto.Float64(3), MeanScore: proto.Float64(3)},
		{Coverage: 0.5},
	}
	s.Drift = &hindsightv1.Drift{
		Rises:    1,
		Detected: 2, LastChangeSequence: proto.Uint64(3112), LossBefore: proto.Float64(0.125), LossAfter: proto.Float64(0.5),
	}
	s.Families = []*hindsightv1.FamilyPart{
		{Family: "linear", Weights: []float64{0.75}}, {Family: "baselines", Weights: []float64{0.25}},
	}
	s.Importances = []*hindsightv1.InputImportance{
		{Input: "temperature", Gain: 0.75, Permutation: 1.25}, {Input: "past_labels", Gain: 0.25, Permutation: -0.00125},
	}
	s.Effects = []*hindsightv1.KeyEffect{
		{Input: "user", Category: proto.String("u7"), Effect: -2.5, Observations: 40},
		{Input: "user", Missing: true, Effect: 1.25, Observations: 3}, {Input: "shop", Effect: 0.5, Observations: 1},
	}
	s.Experts = []*hindsightv1.Expert{
		{Name: "affine/forgetting_1/value", LossSum: 20, Weight: 0.25, Awake: true},
		{Name: "affine/forgetting_0.99/value", LossSum: 12.5, Weight: 0.125, Awake: true},
		{Name: "fourier_1/forgetting_0.99/increment", LossSum: 15, Weight: 0.5, Awake: true},
		{Name: "fourier_1/step_0.1", Awake: false},
		{Name: "baseline/last", LossSum: 30, Weight: 0.125, Awake: true},
		{Name: "stack/forgetting_1", LossSum: 11, Weight: 0.25, Awake: true},
		{Name: "stack/forgetting_0.99", LossSum: 10, Weight: 0.75, Awake: true},
	}
}

const knownTables = `mean loss                           model  running mean  last label  skill
all rounds             prequential  0.1    0.4           0.5         0.75     better than trivial
                       served       0.25   0.5           1           0.5      better than trivial
last 1016 rounds       prequential  0.2    0.2           0.2         0        as good as trivial
                       served       0.75   0.5           1           -0.5     worse than trivial
discounted, about 982  prequential  1      0             0
                       served       2      2.01          4           0.00498  as good as trivial

intervals  labels inside  last 1000  least of 500  mean width  score
90 %       90.5 %         91.0 %     87.6 %        1.25        1.75
99.9 %     100.0 %                                 3           3

changes of the loss            2
  of them rises                1
  the last one at              3112
  mean loss before it, served  0.125
  mean loss after it, served   0.5
`

func TestStatsTables(t *testing.T) {
	f := served(t)
	f.stats = known
	wantTables(t, run(t, "model", "stats", "m"), knownTables+`
experts awake              4 of 5
least loss sum             12.5, of affine/forgetting_0.99/value
weights in the prediction
  linear                   0.750
  baselines                0.250

input, to the trees  permutation  gain
temperature          1.25         0.75
past_labels          -0.00125     0.25

key               effect  observations
user=u7           -2.5    40
user=(missing)    1.25    3
shop=(forgotten)  0.5     1
`)
	csv, _ := table(t, 10, false)
	args := []string{"replay", "--csv", csv, "--model", "m", "--run", "r", "--delay", "2"}
	r := run(t, args...)
	wantTables(t, r, knownTables)
	for _, want := range []string{"\nlabels late by 2 rounds\n", "\nregret, prequential 3.61644, against the best expert in hindsight\nregret, served 7\n"} {
		if !strings.Contains(squeeze(r.out), want) {
			t.Errorf("no %q in\n%s", want, r.out)
		}
	}
	d := document(t, 0, args...)
	if d["skill"] != 0.75 || d["verdict"] != "better than trivial" || d["servedSkill"] != 0.5 || d["servedVerdict"] != "better than trivial" {
		t.Errorf("%v", d)
	}
	drift, _ := stat(d, "drift").(map[string]any)
	intervals, _ := stat(d, "intervals").([]any)
	if drift["lastChangeSequence"] != 3112.0 || len(intervals) != 3 || intervals[0].(map[string]any)["least"] != 0.876 || intervals[1].(map[string]any)["least"] != nil {
		t.Errorf("drift %v, intervals %v", drift, intervals)
	}
}

// TestExpertsOfOutputs writes a weight for each output, and those of a learner without families.
func TestExpertsOfOutputs(t *testing.T) {
	f := served(t)
	f.stats = func(s *hindsightv1.ModelStats) {
		s.Experts = nil
		for j := range 2 {
			s.Experts = append(s.Experts,
				&hindsightv1.Expert{Name: fmt.Sprintf("output_%d/affine/step_0.1", j), Weight: 0.75, Awake: true},
				&hindsightv1.Expert{Name: fmt.Sprintf("output_%d/baseline/mean", j), Weight: 0.25, Awake: true},
				&hindsightv1.Expert{Name: fmt.Sprintf("output_%d/stack/forgetting_1", j), Weight: 1, Awake: true},
			)
		}
		s.Families = []*hindsightv1.FamilyPart{{Family: "linear", Weights: []float64{0.75, 1}}, {Family: "baselines", Weights: []float64{0.25, 0}}}
	}
	wantEnd := func(want string) {
		t.Helper()
		if got := squeeze(run(t, "model", "stats", "m").out); !strings.HasSuffix(got, want) {
			t.Errorf("statistics\n%s, want at the end\n%s", got, want)
		}
	}
	wantEnd("experts awake 4 of 4\nweights in the prediction\nlinear 0.750, 1.000\nbaselines 0.250, 0.000\n")
	f.stats = func(s *hindsightv1.ModelStats) {
		s.Experts = []*hindsightv1.Expert{{Name: "lambda_1", Weight: 0.75, Awake: true}, {Name: "lambda_2", Weight: 0.25, LossSum: 1, Awake: true}}
	}
	wantEnd("experts awake 2 of 2\nleast loss sum 0, of lambda_1\nweights in the prediction\nlambda_1 0.750\nlambda_2 0.250\n")
}

// TestStatsOfNothing prints nothing for what is not known.
func TestStatsOfNothing(t *testing.T) {
	f := served(t)
	f.stats = func(s *hindsightv1.ModelStats) {
		s.Regret, s.Certified, s.CertificateOk, s.Drift = nil, false, nil, &hindsightv1.Drift{}
	}
	r := run(t, "model", "stats", "m")
	wantTables(t, r, "changes of the loss  0\n")
	for _, unwanted := range []string{"NaN", "regret", "guarantee", "certificate ", "hindsight", "served", "skill", "interval", "expert"} {
		if strings.Contains(r.out, unwanted) {
			t.Errorf("%q in\n%s", unwanted, r.out)
		}
	}
	for _, key := range []string{"regret", "servedRegret", "hindsightLoss"} {
		if v, there := document(t, 0, "model", "stats", "m")[key]; there {
			t.Errorf("%s is %v", key, v)
		}
	}
	// A model that has learned from nothing but observations has served nothing.
	document(t, 0, "observe", "--model", "m", "--features", "1,2", "--label", "1")
	document(t, 0, "observe", "--model", "m", "--features", "1,2", "--label", "2")
	wantTables(t, run(t, "model", "stats", "m"), `mean loss                         model  running mean  last label  skill
all rounds           prequential  1      1             1           0  as good as trivial
last 2 rounds        prequential  1      1             1           0  as good as trivial
discounted, about 2  prequential  1      1             1           0  as good as trivial

changes of the loss  0
`)
}

// TestVerdict names a skill by its distance from 0.
func TestVerdict(t *testing.T) {
	for skill, want := range map[float64]string{
		1: "better", 0.0101: "better", 0.01: "as good", 0: "as good", -0.01: "as good", -0.0101: "worse", -700: "worse",
	} {
		f := served(t)
		f.stats = func(s *hindsightv1.ModelStats) {
			s.Performance = &hindsightv1.Performance{Prequential: &hindsightv1.PerformanceFigures{Skill: &skill}}
		}
		if r := run(t, "model", "stats", "m"); !strings.Contains(r.out, want) {
			t.Errorf("%v: no %q in\n%s", skill, want, r.out)
		}
	}
}

func TestPredictionTables(t *testing.T) {
	f := served(t)
	r := run(t, "predict", "--model", "m", "--features", "1,2", "--prediction-id", "p")
	if want := "value 0\nlearned from 0 observations\nprediction id p\n"; squeeze(r.out) != want {
		t.Errorf("predicted\n%s, want\n%s", r.out, want)
	}
	f.prediction = func(p *hindsightv1.Prediction) {
		p.Value, p.StandardError, p.Leverage, p.Probability = proto.Float64(0.125), proto.Float64(0), proto.Float64(0.5), proto.Float64(0.8125)
		p.ParametricValue = proto.Float64(-0.25)
		p.Intervals = []*hindsightv1.Interval{
			{Coverage: 0.9, Lower: proto.Float64(-0.5), Upper: proto.Float64(0.75)},
			{Coverage: 0.995, Lower: proto.Float64(-1), Upper: proto.Float64(1.25)},
		}
	}
	want := `value 0.125
the parametric part alone -0.25
standard error of the mean 0
90 % of labels lie in [-0.5, 0.75]
99.5 % of labels lie in [-1, 1.25]
probability of the label 1 0.812
leverage 0.5
learned from 0 observations
prediction id p
`
	if r := run(t, "predict", "--model", "m", "--features", "1,2", "--prediction-id", "p"); squeeze(r.out) != want {
		t.Errorf("predicted\n%s, want\n%s", r.out, want)
	}
	f.prediction = func(p *hindsightv1.Prediction) {
		p.Value, p.Values, p.StandardErrors = nil, []float64{1, 2}, []float64{0.5, 0.25}
		p.ParametricValues = []float64{3, 4}
		p.Intervals = []*hindsightv1.Interval{{Coverage: 0.9, Lowers: []float64{0, 1}, Uppers: []float64{2, 3}}}
	}
	want = `values [1 2]
the parametric part alone [3 4]
standard errors of the means [0.5 0.25]
90 % of labels lie in [0, 2] [1, 3]
learned from 0 observations
prediction id p
`
	if r := run(t, "predict", "--model", "m", "--features", "1,2", "--prediction-id", "p"); squeeze(r.out) != want {
		t.Errorf("predicted\n%s, want\n%s", r.out, want)
	}
	r = run(t, "predict", "--model", "m", "--features", "1,2", "--prediction-id", "p", "--explain")
	if want += "\nfamily weight contribution\nlinear 0.750 2.25\nrest 0.000 -0.0625\n"; squeeze(r.out) != want {
		t.Errorf("explained\n%s, want\n%s", r.out, want)
	}
}

// squeeze makes one space of several.
func squeeze(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		b.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
	}
	return b.String()
}

func TestOutcomeTable(t *testing.T) {
	served(t)
	run(t, "observe", "--model", "m", "--features", "1,2", "--label", "1")
	run(t, "observe", "--model", "m", "--features", "1,2", "--label", "1")
	r := run(t, "observe", "--model", "m", "--features", "1,2", "--label", "2")
	want := "sequence 3\nprediction, prequential 1\nloss, prequential 1\nregret, prequential 1.33333\n" +
		"recent mean loss, served 0.666667\nrecent skill, served 0, as good as trivial\n"
	if squeeze(r.out) != want {
		t.Errorf("observed\n%s, want\n%s", r.out, want)
	}
}

// TestReplayCreatesOutputs takes the outputs from the file too.
func TestReplayCreatesOutputs(t *testing.T) {
	f := served(t)
	path := filepath.Join(t.TempDir(), "several.csv")
	if err := os.WriteFile(path, []byte("x1,y1,x2,y2,x3\n1,2,3,4,5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := run(t, "replay", "--csv", path, "--model", "new", "--create", "{}", "--limit", "1")
	spec := f.models["new"].model.GetSpec()
	if spec.GetDimension() != 3 || spec.GetOutputs() != 2 {
		t.Errorf("spec %v, %s", spec, fmt.Sprint(r))
	}
}
