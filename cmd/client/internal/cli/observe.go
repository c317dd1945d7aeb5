package cli

import (
	"strings"

	"github.com/spf13/cobra"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
	"hindsight/cmd/internal/command"
)

// newObserve builds "observe".
func newObserve(e *env) *cobra.Command {
	var (
		o      observed
		t      target
		weight float64
	)
	cmd := &cobra.Command{
		Use: "observe --model ID (--prediction-id P | (--features X1,X2,... | --inputs JSON|@FILE) [--observation-id O]) " +
			"(--label Y | --labels Y1,Y2,... | --class C)",
		Short: "Send a label",
		Long: `Send the label of an input: a number, several, or the class for a classifier. The
model learns it exactly once: a repeated prediction id or observation id gets the
first answer again. An input without an observation id has no identity and is
learned every time.

The recent mean loss and the recent skill are of the last 1000 rounds or so. Skill
is 1 - loss / the smaller loss of two predictors that ignore the inputs: the
running mean of the labels, and the last label. Above 0.01 the model is better
than trivial, below -0.01 worse, else as good.`,
		Example: `  hindsight observe --model energy --prediction-id order-7 --label -2.5
  hindsight observe --model energy --features 0.1,-0.4,2 --observation-id hour-12 --label 0
  hindsight observe --model trips --inputs '{"temperature": 21.5, "city": "Oslo"}' --class late`,
		Annotations: map[string]string{takesFeatures: "yes"},
		Args:        cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			observation, err := o.observation(e, args)
			if err != nil {
				return err
			}
			t.real = cmd.Flags().Changed("label")
			if observation.Target, err = t.target(); err != nil {
				return err
			}
			if observation.Weight = weight; weight == 0 {
				return command.Usagef("--weight must be positive, not 0")
			}
			return e.withClient(func(c *client.Client) error {
				outcome, err := c.Model(o.model).Observe(cmd.Context(), observation)
				if err != nil {
					return err
				}
				return e.emit(outcome, func(w *command.Page) { writeOutcome(w, outcome) })
			})
		},
	}
	e.modelFlag(cmd, &o.model)
	flags := cmd.Flags()
	flags.StringVar(&o.prediction, "prediction-id", "", "id of the prediction that the label belongs to")
	flags.StringVar(&o.features, "features", "", "the input, numbers with commas between them")
	flags.StringVar(&o.inputs, "inputs", "", inputsUsage)
	flags.StringVar(&o.id, "observation-id", "", "id of an observation that is given by its input")
	flags.Float64Var(&t.label, "label", 0, "the label")
	flags.StringVar(&t.class, "class", "", "the class, for a classifier")
	flags.StringVar(&t.labels, "labels", "", "the labels of a model with several outputs, numbers with commas between them")
	flags.Float64Var(&weight, "weight", 1, "weight of the observation")
	return cmd
}

// target is what the flags say about the label.
type target struct {
	label         float64
	real          bool // --label was given.
	labels, class string
}

// target checks that the flags give one target.
func (t target) target() (client.Target, error) {
	given := 0
	for _, is := range []bool{t.real, t.labels != "", t.class != ""} {
		if is {
			given++
		}
	}
	switch {
	case given != 1:
		return client.Target{}, command.Usagef("give --label (0 is a label too), or --labels for several outputs, or --class for a classifier")
	case t.class != "":
		return client.Class(t.class), nil
	case t.labels != "":
		values, err := numbers("label", strings.Split(t.labels, ","))
		return client.Labels(values...), err
	default:
		return client.Label(t.label), nil
	}
}

// observed is what the flags say about an observation.
type observed struct {
	model, prediction, features, inputs, id string
}

// observation checks that the flags give the input exactly once.
func (o observed) observation(e *env, args []string) (client.Observation, error) {
	var none client.Observation
	if o.model == "" {
		return none, command.Usagef("--model is missing")
	}
	input, given, err := e.input(o.features, o.inputs, args)
	if err != nil {
		return none, err
	}
	switch {
	case o.prediction == "" && !given:
		return none, command.Usagef("give --prediction-id, --features or --inputs")
	case o.prediction != "" && given:
		return none, command.Usagef("--prediction-id and an input exclude each other")
	case o.prediction != "" && o.id != "":
		return none, command.Usagef("--observation-id needs --features or --inputs; a prediction has an id already")
	}
	return client.Observation{Prediction: o.prediction, Input: input, ID: o.id}, nil
}

// writeOutcome writes an outcome for people.
func writeOutcome(w *command.Page, o *hindsightv1.Outcome) {
	w.Printf("sequence\t%d\n", o.GetSequence())
	writePredicted(w, ", "+prequential, o.GetClass(), o.Prediction, o.GetPredictions())
	w.Float("loss, prequential", o.GetLoss())
	if o.ServedLoss != nil {
		writePredicted(w, ", "+served, o.GetServedClass(), o.ServedPrediction, o.GetServedPredictions())
		w.Float("loss, served", o.GetServedLoss())
	}
	if o.Regret != nil {
		w.Float("regret, prequential", o.GetRegret())
	}
	if o.RecentLoss != nil {
		w.Float("recent mean loss, served", o.GetRecentLoss())
	}
	if o.RecentSkill != nil {
		w.Row("recent skill, served", digits3(o.GetRecentSkill())+", "+verdict(o.GetRecentSkill()))
	}
	if o.GetSetAside() {
		w.Row("label set aside", "it cannot be right: the model did not learn it")
	}
	if o.GetDuplicate() {
		w.Printf("duplicate\tlearned before; this is the first answer\n")
	}
}

// writePredicted writes what was predicted: a class, a value, or several. A classifier
// without a class yet has predicted none of them.
func writePredicted(w *command.Page, which, class string, value *float64, values []float64) {
	switch {
	case class != "":
		w.Row("class"+which, class)
	case value != nil:
		w.Row("prediction"+which, exact(*value))
	case len(values) > 0:
		w.Printf("predictions%s\t%v\n", which, values)
	default:
		w.Row("prediction"+which, "none")
	}
}
