package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
	"hindsight/cmd/internal/command"
)

// predict builds "predict".
func (e *env) predict() verb {
	var (
		flags      inputFlags
		id, key    string
		noRemember bool
		explain    bool
		ttl        time.Duration
		input      client.Input
	)
	return verb{
		use:   "predict --model ID [--features X1,X2,... | X1 X2 ... | --inputs JSON|@FILE]",
		short: "Ask for a prediction",
		long: `Ask for a prediction. It does not change the model. The server keeps the
input under the prediction id until observe sends the label. With
--no-remember it keeps nothing.

A model with named inputs takes --inputs: a JSON object with a value for each
name, null where it is missing.

The standard error is that of the mean, and no error of the label: intervals say
where the label will lie. Of a classifier the predicted class need not be the
most probable one.`,
		example: `  hindsight predict --model energy 0.1 -0.4 2
  hindsight predict --model energy --features 0.1,-0.4,2 --prediction-id order-7
  hindsight predict --model trips --inputs '{"temperature": 21.5, "city": "Oslo", "rain": null}'`,
		numbers: true,
		flags: func(f *flagSet) {
			flags.add(f)
			f.StringVar(&id, "prediction-id", "", "id of the prediction; one is drawn if it is empty")
			f.StringVar(&key, "key", "", "what chooses the model behind an alias with a share; the prediction id if it is empty")
			f.BoolVar(&noRemember, "no-remember", false, "store nothing: no label will follow")
			f.BoolVar(&explain, "explain", false, "also show what each family of auto's experts says")
			f.DurationVar(&ttl, "label-ttl", 0, "how long the server waits for the label")
		},
		before: func(c *call) (err error) {
			var given bool
			input, given, err = flags.input(e, c.args)
			if err == nil && !given {
				err = command.Usagef("the input is missing: give numbers as arguments or --features, or a record as --inputs")
			}
			return err
		},
		run: func(c *call) error {
			options := []client.PredictOption{client.PredictionID(id), client.ByKey(key)}
			if c.given("label-ttl") {
				options = append(options, client.LabelTTL(ttl))
			}
			if noRemember {
				options = append(options, client.WithoutLabel())
			}
			if explain {
				options = append(options, client.Explained())
			}
			return show(e, writePrediction)(c.client.Model(flags.model).Predict(c.ctx(), input, options...))
		},
	}
}

// writePrediction writes a prediction for people.
func writePrediction(w *command.Page, p *hindsightv1.Prediction) {
	switch {
	case len(p.GetScores()) > 0 || p.GetClass() != "":
		writeScores(w, p)
	case len(p.GetValues()) > 0:
		w.Row("values", p.GetValues())
	default:
		w.Row("value", exact(p.GetValue()))
	}
	if len(p.GetParametricValues()) > 0 {
		w.Row("the parametric part alone", p.GetParametricValues())
	}
	command.Known(w, "the parametric part alone", p.ParametricValue)
	if len(p.GetStandardErrors()) > 0 {
		w.Row("standard errors of the means", p.GetStandardErrors())
	}
	command.Known(w, "standard error of the mean", p.StandardError)
	for _, i := range p.GetIntervals() {
		w.Row(level(i.GetCoverage())+" of labels lie in", interval(i))
	}
	if p.Probability != nil {
		w.Row("probability of the label 1", digits3(p.GetProbability()))
	}
	command.Known(w, "leverage", p.Leverage)
	w.Row("learned from", fmt.Sprintf("%d observations", p.GetStateSequence()))
	w.Text("prediction id", p.GetPredictionId())
	w.Text("model", p.GetModel())
	if len(p.GetExplanation()) > 0 {
		w.Printf("\nfamily\tweight\tcontribution\n")
		for _, f := range p.GetExplanation() {
			w.Cells(f.GetFamily(), perOutput(f.GetWeights(), "%.3f"), perOutput(f.GetContributions(), "%.6g"))
		}
	}
}

// mostScores is how many probabilities people are shown.
const mostScores = 20

// writeScores writes the predicted class, and the probabilities of the classes, the largest
// first.
func writeScores(w *command.Page, p *hindsightv1.Prediction) {
	w.Row("class", p.GetClass())
	classes := slices.SortedFunc(maps.Keys(p.GetScores()), func(a, b string) int {
		return cmp.Or(cmp.Compare(p.GetScores()[b], p.GetScores()[a]), cmp.Compare(a, b))
	})
	for _, class := range classes[:min(len(classes), mostScores)] {
		w.Row("probability of "+class, digits3(p.GetScores()[class]))
	}
	if more := len(classes) - mostScores; more > 0 {
		w.Row("less probable", fmt.Sprintf("%d more classes", more))
	}
}

// interval writes an interval, or an interval for each output.
func interval(i *hindsightv1.Interval) string {
	one := func(lower, upper float64) string {
		return "[" + command.Number(lower) + ", " + command.Number(upper) + "]"
	}
	if len(i.GetLowers()) == 0 || len(i.GetLowers()) != len(i.GetUppers()) {
		return one(i.GetLower(), i.GetUpper())
	}
	all := make([]string, len(i.GetLowers()))
	for j, lower := range i.GetLowers() {
		all[j] = one(lower, i.GetUppers()[j])
	}
	return strings.Join(all, " ")
}
