package metrics_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"hindsight/internal/engine/account/classes"
	"hindsight/internal/metrics"
)

// digits is a classifier with named inputs.
func digits() Model {
	nan := math.NaN()
	m := Model{
		Name: "digits", Learner: "rlsc",
		PrequentialLoss: 2, PrequentialBaselines: Baselines{Mean: nan, Last: nan}, ServedBaselines: Baselines{Mean: nan, Last: nan},
		PrequentialSkill: nan, ServedSkill: nan, Recent: Recent{Observations: 1000, MeanLoss: 0.25, Skill: nan},
		Inputs: []Input{
			{Name: "pen", Seen: 90, Missing: 10, Outside: 3, Mean: nan, Deviation: nan, Shift: 0.5},
			{Name: "load \"kW\"\\\n", Seen: 80, Missing: 20, Outside: 4, Mean: 2.5, Deviation: 0.5, Shift: nan},
		},
		Classifier: &Classifier{
			Prequential: ClassFigures{Errors: 10, LogLoss: 20.5, Brier: 5.25, MajorityErrors: 40, LastErrors: 70, Skill: 0.75},
			Served:      ClassFigures{Errors: 12, LogLoss: 22.5, Brier: 6.25, MajorityErrors: 24, LastErrors: 71, Skill: 0.5},
			Recent:      RecentClasses{Observations: 1000, ErrorRate: 0.125, Skill: 0.75},
			Classes:     []Class{{Name: "one", Observed: 60, Errors: 4, Predicted: 58}, {Name: "seven", Observed: 40, Errors: 8, Predicted: 42}},
		},
	}
	m.Classifier.Reliability[0] = classes.Bin{Members: 9, Found: 0, Expected: 0.5}
	m.Classifier.Reliability[9] = classes.Bin{Members: 8, Found: 7, Expected: 7.5}
	return m
}

// What is not known of an input has no series: the mean of categories, the shift
// before the first window.
func TestInputSeries(t *testing.T) {
	m, src := watch(t, 0)
	src.set(energy(), digits())
	compare(t, m, `
# HELP hindsight_input_deviation Standard deviation of the input's values.
# TYPE hindsight_input_deviation gauge
hindsight_input_deviation{input="load \"kW\"\\\n",learner="rlsc",model="digits"} 0.5
# HELP hindsight_input_mean Mean of the input's values.
# TYPE hindsight_input_mean gauge
hindsight_input_mean{input="load \"kW\"\\\n",learner="rlsc",model="digits"} 2.5
# HELP hindsight_input_missing_total Observed records without a value of the input.
# TYPE hindsight_input_missing_total counter
hindsight_input_missing_total{input="load \"kW\"\\\n",learner="rlsc",model="digits"} 20
hindsight_input_missing_total{input="pen",learner="rlsc",model="digits"} 10
# HELP hindsight_input_outside_total Values outside of the learned range, or of an unknown category, on arrival.
# TYPE hindsight_input_outside_total counter
hindsight_input_outside_total{input="load \"kW\"\\\n",learner="rlsc",model="digits"} 4
hindsight_input_outside_total{input="pen",learner="rlsc",model="digits"} 3
# HELP hindsight_input_seen_total Observed records with a value of the input.
# TYPE hindsight_input_seen_total counter
hindsight_input_seen_total{input="load \"kW\"\\\n",learner="rlsc",model="digits"} 80
hindsight_input_seen_total{input="pen",learner="rlsc",model="digits"} 90
# HELP hindsight_input_shift Population stability index of the last 512 records against all before: above 0.1 the input has moved, above 0.25 by much.
# TYPE hindsight_input_shift gauge
hindsight_input_shift{input="pen",learner="rlsc",model="digits"} 0.5
# HELP hindsight_largest_input_shift The largest hindsight_input_shift of all inputs.
# TYPE hindsight_largest_input_shift gauge
hindsight_largest_input_shift{learner="rlsc",model="digits"} 0.5
`, "hindsight_input_deviation", "hindsight_input_mean", "hindsight_input_missing_total", "hindsight_input_outside_total",
		"hindsight_input_seen_total", "hindsight_input_shift", "hindsight_largest_input_shift")
	if text, general := both(t, m, true); text != general {
		t.Errorf("the text is\n%s\nand expfmt prints\n%s", text, general)
	}
}

// A classifier has errors where other models have baselines of the loss.
func TestClassifierSeries(t *testing.T) {
	m, src := watch(t, 0)
	src.set(energy(), digits())
	exposes(t, m,
		`hindsight_class_errors_total{class="one",learner="rlsc",model="digits"} 4`,
		`hindsight_class_errors_total{class="seven",learner="rlsc",model="digits"} 8`,
		`hindsight_class_observations_total{class="seven",learner="rlsc",model="digits"} 40`,
		`hindsight_class_predictions_total{class="seven",learner="rlsc",model="digits"} 42`,
		`hindsight_classifier_baseline_errors_total{baseline="last",kind="prequential",learner="rlsc",model="digits"} 70`,
		`hindsight_classifier_baseline_errors_total{baseline="last",kind="served",learner="rlsc",model="digits"} 71`,
		`hindsight_classifier_baseline_errors_total{baseline="majority",kind="prequential",learner="rlsc",model="digits"} 40`,
		`hindsight_classifier_baseline_errors_total{baseline="majority",kind="served",learner="rlsc",model="digits"} 24`,
		`hindsight_classifier_brier_total{kind="prequential",learner="rlsc",model="digits"} 5.25`,
		`hindsight_classifier_brier_total{kind="served",learner="rlsc",model="digits"} 6.25`,
		`hindsight_classifier_errors_total{kind="prequential",learner="rlsc",model="digits"} 10`,
		`hindsight_classifier_errors_total{kind="served",learner="rlsc",model="digits"} 12`,
		`hindsight_classifier_log_loss_total{kind="prequential",learner="rlsc",model="digits"} 20.5`,
		`hindsight_classifier_log_loss_total{kind="served",learner="rlsc",model="digits"} 22.5`,
		`hindsight_classifier_recent_error_rate{learner="rlsc",model="digits"} 0.125`,
		`hindsight_classifier_recent_skill{learner="rlsc",model="digits"} 0.75`,
		`hindsight_classifier_skill{kind="prequential",learner="rlsc",model="digits"} 0.75`,
		`hindsight_classifier_skill{kind="served",learner="rlsc",model="digits"} 0.5`,
		`hindsight_reliability_expected_total{bin="0.9",learner="rlsc",model="digits"} 7.5`,
		`hindsight_reliability_found_total{bin="0.9",learner="rlsc",model="digits"} 7`,
		`hindsight_reliability_probabilities_total{bin="0",learner="rlsc",model="digits"} 9`,
		`hindsight_reliability_probabilities_total{bin="0.5",learner="rlsc",model="digits"} 0`,
	)
	for name, want := range map[string][]string{
		"hindsight_classifier_errors_total": {"digits", "digits"}, "hindsight_baseline_loss_total": {"energy", "energy", "energy", "energy"},
		"hindsight_skill": {"energy", "energy"}, "hindsight_recent_skill": {"energy"}, "hindsight_recent_loss": {"digits", "energy"},
	} {
		if got := models(t, m, name); !slices.Equal(got, want) {
			t.Errorf("%s is shown of %q, want %q", name, got, want)
		}
	}
}

// The recent figures of a classifier that has seen little say nothing.
func TestAYoungClassifierHasNoRecentFigures(t *testing.T) {
	m, src := watch(t, 0)
	young := digits()
	young.Classifier.Recent.Observations = 999
	src.set(young)
	for _, name := range []string{"hindsight_classifier_recent_error_rate", "hindsight_classifier_recent_skill"} {
		if n, err := testutil.GatherAndCount(m, name); n != 0 || err != nil {
			t.Errorf("%s has %d series, error %v", name, n, err)
		}
	}
}

// A model cannot make more series than 32 inputs and 32 classes, the first ones,
// which stay the same when further ones come. The largest shift is that of all.
func TestPartsAreBounded(t *testing.T) {
	m, src := watch(t, 1)
	one := digits()
	one.Inputs, one.Classifier.Classes = nil, nil
	for n := range 50 {
		one.Inputs = append(one.Inputs, Input{Name: fmt.Sprint("input ", n), Shift: float64(n)})
		one.Classifier.Classes = append(one.Classifier.Classes, Class{Name: fmt.Sprint("class ", n)})
		other := digits()
		other.Name = "without series of its own"
		src.set(one, other)
		for name, want := range map[string]int{
			"hindsight_input_seen_total": min(n+1, 32), "hindsight_class_errors_total": min(n+1, 32), "hindsight_reliability_found_total": 10,
		} {
			if got, err := testutil.GatherAndCount(m, name); got != want || err != nil {
				t.Fatalf("%d inputs and classes: %d series of %s, want %d; error %v", n+1, got, name, want, err)
			}
		}
		if got := value(t, m, "hindsight_largest_input_shift", "digits"); got != float64(n) {
			t.Fatalf("%d inputs: the largest shift is %v", n+1, got)
		}
	}
	exposes(t, m, `hindsight_input_shift{input="input 31",learner="rlsc",model="digits"} 31`,
		`hindsight_class_errors_total{class="class 31",learner="rlsc",model="digits"} 0`)
}

// Models without series of their own show their errors together, the worst skill and
// the largest shift. Their inputs and classes have nothing in common.
func TestTheOthersShowTheWorstClassifier(t *testing.T) {
	m, src := watch(t, 1)
	good, bad, other := digits(), digits(), energy()
	good.Name, bad.Name, other.Name, other.Learner = "good", "bad", "no classifier", "rlsc"
	bad.Classifier.Recent = RecentClasses{Observations: 1000, ErrorRate: 0.75, Skill: -2}
	bad.Inputs[1].Shift = 0.75
	src.set(digits(), good, other, bad)
	exposes(t, m,
		`hindsight_classifier_errors_total{kind="served",learner="rlsc",model="other"} 24`,
		`hindsight_classifier_recent_error_rate{learner="rlsc",model="other"} 0.75`,
		`hindsight_classifier_recent_skill{learner="rlsc",model="other"} -2`,
		`hindsight_classifier_skill{kind="served",learner="rlsc",model="other"} 0.5`,
		`hindsight_largest_input_shift{learner="rlsc",model="other"} 0.75`,
	)
	for _, name := range []string{"hindsight_input_seen_total", "hindsight_class_errors_total", "hindsight_reliability_found_total"} {
		if got := models(t, m, name); slices.Contains(got, metrics.Other) || len(got) == 0 {
			t.Errorf("%s is shown of %q, want of digits alone", name, got)
		}
	}
	src.set(digits(), other)
	if got := models(t, m, "hindsight_classifier_skill"); slices.Contains(got, metrics.Other) {
		t.Error("a skill is shown of others without a classifier")
	}
}

// What only grows is absent of the others as long as none of them has it.
func TestTheOthersWithoutAClassifier(t *testing.T) {
	m, src := watch(t, 1)
	second := energy()
	second.Name = "second"
	src.set(energy(), second)
	if n, err := testutil.GatherAndCount(m, "hindsight_classifier_errors_total"); n != 0 || err != nil {
		t.Errorf("%d series, error %v", n, err)
	}
}
