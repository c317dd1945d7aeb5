package cli

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
	"hindsight/cmd/internal/command"
)

// newPredict builds "predict".
func newPredict(e *env) *cobra.Command {
	var (
		model, list, inputs, id string
		noRemember              bool
		ttl                     time.Duration
	)
	cmd := &cobra.Command{
		Use:   "predict --model ID [--features X1,X2,... | X1 X2 ... | --inputs JSON|@FILE]",
		Short: "Ask for a prediction",
		Long: `Ask for a prediction. It does not change the model. The server keeps the
input under the prediction id until observe sends the label. With
--no-remember it keeps nothing.

A model with named inputs takes --inputs: a JSON object with a value for each
name, null where it is missing.

The standard error is that of the mean, and no error of the label: intervals say
where the label will lie. Of a classifier the predicted class need not be the
most probable one.`,
		Example: `  hindsight predict --model energy 0.1 -0.4 2
  hindsight predict --model energy --features 0.1,-0.4,2 --prediction-id order-7
  hindsight predict --model trips --inputs '{"temperature": 21.5, "city": "Oslo", "rain": null}'`,
		Annotations: map[string]string{takesFeatures: "yes"},
		Args:        cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			input, err := e.predictInput(model, list, inputs, args)
			if err != nil {
				return err
			}
			options := []client.PredictOption{client.PredictionID(id)}
			if cmd.Flags().Changed("label-ttl") {
				options = append(options, client.LabelTTL(ttl))
			}
			if noRemember {
				options = append(options, client.WithoutLabel())
			}
			return e.withClient(func(c *client.Client) error {
				p, err := c.Model(model).Predict(cmd.Context(), input, options...)
				if err != nil {
					return err
				}
				return e.emit(p, func(w *command.Page) { writePrediction(w, p) })
			})
		},
	}
	e.modelFlag(cmd, &model)
	flags := cmd.Flags()
	flags.StringVar(&list, "features", "", "the input, numbers with commas between them")
	flags.StringVar(&inputs, "inputs", "", inputsUsage)
	flags.StringVar(&id, "prediction-id", "", "id of the prediction; one is drawn if it is empty")
	flags.BoolVar(&noRemember, "no-remember", false, "store nothing: no label will follow")
	flags.DurationVar(&ttl, "label-ttl", 0, "how long the server waits for the label")
	return cmd
}

// predictInput checks that the flags give an input.
func (e *env) predictInput(model, list, inputs string, args []string) (client.Input, error) {
	if model == "" {
		return client.Input{}, command.Usagef("--model is missing")
	}
	input, given, err := e.input(list, inputs, args)
	if err == nil && !given {
		err = command.Usagef("the input is missing: give numbers as arguments or --features, or a record as --inputs")
	}
	return input, err
}

// writePrediction writes a prediction for people.
func writePrediction(w *command.Page, p *hindsightv1.Prediction) {
	switch {
	case len(p.GetScores()) > 0 || p.GetClass() != "":
		writeScores(w, p)
	case len(p.GetValues()) > 0:
		w.Printf("values\t%v\n", p.GetValues())
	default:
		w.Row("value", exact(p.GetValue()))
	}
	if len(p.GetParametricValues()) > 0 {
		w.Printf("the parametric part alone\t%v\n", p.GetParametricValues())
	} else if p.ParametricValue != nil {
		w.Float("the parametric part alone", p.GetParametricValue())
	}
	if len(p.GetStandardErrors()) > 0 {
		w.Printf("standard errors of the means\t%v\n", p.GetStandardErrors())
	} else if p.StandardError != nil {
		w.Float("standard error of the mean", p.GetStandardError())
	}
	for _, i := range p.GetIntervals() {
		w.Row(level(i.GetCoverage())+" of labels lie in", interval(i))
	}
	if p.Probability != nil {
		w.Row("probability of the label 1", digits3(p.GetProbability()))
	}
	if p.Leverage != nil {
		w.Float("leverage", p.GetLeverage())
	}
	w.Printf("learned from\t%d observations\n", p.GetStateSequence())
	if p.GetPredictionId() != "" {
		w.Row("prediction id", p.GetPredictionId())
	}
}

// mostScores is how many probabilities people are shown.
const mostScores = 20

// writeScores writes the class that is predicted, and the probabilities of all classes,
// the largest first.
func writeScores(w *command.Page, p *hindsightv1.Prediction) {
	w.Row("class", p.GetClass())
	classes := slices.SortedFunc(maps.Keys(p.GetScores()), func(a, b string) int {
		return cmp.Or(cmp.Compare(p.GetScores()[b], p.GetScores()[a]), cmp.Compare(a, b))
	})
	for _, class := range classes[:min(len(classes), mostScores)] {
		w.Row("probability of "+class, digits3(p.GetScores()[class]))
	}
	if more := len(classes) - mostScores; more > 0 {
		w.Printf("less probable\t%d more classes\n", more)
	}
}

// interval writes an interval, or one for each output.
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
