package metrics_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"hindsight/internal/engine/account/classes"
	"hindsight/internal/metrics"
)

// figureSums are the sums of figures.
func figureSums(f *ClassFigures) []*float64 {
	return []*float64{&f.Errors, &f.LogLoss, &f.Brier, &f.MajorityErrors, &f.LastErrors}
}

// classSumsNumbers is how many classSums yields.
const classSumsNumbers = 10

// classSums are the numbers of a classifier that only grow, unknown of other models.
func classSums(c *Classifier) []float64 {
	if c == nil {
		return slices.Repeat([]float64{math.NaN()}, classSumsNumbers)
	}
	var all []float64
	for _, f := range []*ClassFigures{&c.Prequential, &c.Served} {
		for _, v := range figureSums(f) {
			all = append(all, *v)
		}
	}
	return all
}

// togetherClasses is what the classifiers among models without series of their own
// show, of sums that have grown.
func togetherClasses(grown []float64, models []Model) *Classifier {
	nan := math.NaN()
	c := &Classifier{Recent: RecentClasses{Observations: 1000, ErrorRate: nan, Skill: nan}}
	for _, f := range []*ClassFigures{&c.Prequential, &c.Served} {
		f.Skill = nan
		for _, v := range figureSums(f) {
			*v, grown = grown[0], grown[1:]
		}
	}
	for _, m := range models {
		if m.Classifier == nil {
			continue
		}
		c.Prequential.Skill = leastKnown(c.Prequential.Skill, m.Classifier.Prequential.Skill)
		c.Served.Skill = leastKnown(c.Served.Skill, m.Classifier.Served.Skill)
		if r := m.Classifier.Recent; r.Observations >= 1000 {
			c.Recent.Skill = leastKnown(c.Recent.Skill, r.Skill)
			c.Recent.ErrorRate = mostKnown(c.Recent.ErrorRate, r.ErrorRate)
		}
	}
	return c
}

// mostKnown is the larger number of those that are known.
func mostKnown(a, b float64) float64 { return -leastKnown(-a, -b) }

func largestShift(m Model) float64 {
	v := math.NaN()
	for _, in := range m.Inputs {
		v = mostKnown(v, in.Shift)
	}
	return v
}

// classLines are the lines of a classifier as a whole.
func classLines(m Model) []string {
	var lines []string
	show := func(name, own string, v float64) {
		if known(v) {
			lines = append(lines, "hindsight_classifier_"+name+"{"+own+labels(id{m.Name, m.Learner})+"} "+number(v))
		}
	}
	if m.Classifier == nil {
		return nil
	}
	for kind, f := range map[string]ClassFigures{"prequential": m.Classifier.Prequential, "served": m.Classifier.Served} {
		kind = `kind="` + kind + `",`
		show("errors_total", kind, f.Errors)
		show("log_loss_total", kind, f.LogLoss)
		show("brier_total", kind, f.Brier)
		show("baseline_errors_total", `baseline="majority",`+kind, f.MajorityErrors)
		show("baseline_errors_total", `baseline="last",`+kind, f.LastErrors)
		show("skill", kind, f.Skill)
	}
	if r := m.Classifier.Recent; r.Observations >= 1000 {
		show("recent_error_rate", "", r.ErrorRate)
		show("recent_skill", "", r.Skill)
	}
	return lines
}

// partLines are the lines of the inputs, of the classes and of the bins of a model,
// none of the others.
func partLines(m Model) []string {
	if m.Name == metrics.Other {
		return nil
	}
	var lines []string
	show := func(name, label, value string, v float64) {
		if known(v) {
			value = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`).Replace(strings.ToValidUTF8(value, "?"))
			lines = append(lines, fmt.Sprintf(`hindsight_%s{%s="%s",%s} %s`, name, label, value, labels(id{m.Name, m.Learner}), number(v)))
		}
	}
	for _, in := range first32(m.Inputs, func(in Input) string { return in.Name }) {
		show("input_seen_total", "input", in.Name, float64(in.Seen))
		show("input_missing_total", "input", in.Name, float64(in.Missing))
		show("input_outside_total", "input", in.Name, float64(in.Outside))
		if !math.IsNaN(in.Mean + in.Deviation) {
			show("input_mean", "input", in.Name, in.Mean)
			show("input_deviation", "input", in.Name, in.Deviation)
		}
		show("input_shift", "input", in.Name, in.Shift)
	}
	if m.Classifier == nil {
		return lines
	}
	for _, c := range first32(m.Classifier.Classes, func(c Class) string { return c.Name }) {
		show("class_observations_total", "class", c.Name, float64(c.Observed))
		show("class_errors_total", "class", c.Name, float64(c.Errors))
		show("class_predictions_total", "class", c.Name, float64(c.Predicted))
	}
	for i, b := range m.Classifier.Reliability {
		bin := []string{"0", "0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9"}[i]
		show("reliability_probabilities_total", "bin", bin, float64(b.Members))
		show("reliability_found_total", "bin", bin, float64(b.Found))
		show("reliability_expected_total", "bin", bin, b.Expected)
	}
	return lines
}

// first32 are the first 32 of all, the first of each name.
func first32[T any](all []T, name func(T) string) []T {
	var kept []T
	seen := map[string]bool{}
	for _, one := range all {
		text := strings.ToValidUTF8(name(one), "?")
		if !seen[text] && len(kept) < 32 {
			kept = append(kept, one)
		}
		seen[text] = true
	}
	return kept
}

// performParts changes what a model says of its inputs and classes.
func performParts(rng *rand.Rand, m Model) Model {
	m.Inputs = nil
	names := func(n int) []string {
		odd := []string{"load", `quo"te`, "back\\slash", "new\nline", "ünï©ode", "\xff\xfe", "", "other", "?"}
		all := make([]string, n)
		for i := range all {
			if all[i] = fmt.Sprint("name ", rng.IntN(60)); rng.IntN(3) == 0 {
				all[i] = odd[rng.IntN(len(odd))]
			}
		}
		return all
	}
	for _, name := range names(rng.IntN(3) * rng.IntN(40)) {
		m.Inputs = append(m.Inputs, Input{
			Name: name, Seen: rng.Uint64N(100), Missing: rng.Uint64N(100), Outside: rng.Uint64N(100),
			Mean: maybe(rng), Deviation: maybe(rng), Shift: maybe(rng),
		})
	}
	if !isClassifier(m) {
		return m
	}
	c := new(Classifier)
	if m.Classifier != nil {
		*c = *m.Classifier
	}
	for _, f := range []*ClassFigures{&c.Prequential, &c.Served} {
		for _, v := range figureSums(f) {
			*v += float64(rng.IntN(1000)) / 4
		}
		f.Skill = skill(f.Errors, f.MajorityErrors, f.LastErrors)
	}
	c.Recent = RecentClasses{Observations: []uint64{512, 1024, 2048}[rng.IntN(3)], ErrorRate: float64(rng.IntN(8)) / 8, Skill: recentSkill(rng)}
	if c.Recent.ErrorRate == 0 {
		c.Recent.Skill = math.NaN()
	}
	for i := range c.Reliability {
		c.Reliability[i] = classes.Bin{Members: rng.Uint64N(100), Found: rng.Uint64N(100), Expected: maybe(rng)}
	}
	c.Classes = nil
	for _, name := range names(rng.IntN(50)) {
		c.Classes = append(c.Classes, Class{Name: name, Observed: rng.Uint64N(100), Errors: rng.Uint64N(100), Predicted: rng.Uint64N(100)})
	}
	m.Classifier = c
	return m
}
