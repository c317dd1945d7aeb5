package cli

import (
	"strings"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
	"hindsight/cmd/internal/command"
)

func (e *env) observe() verb {
	var (
		flags       inputFlags
		target      targetFlags
		observation = &hindsightv1.ObserveRequest{Weight: new(float64)}
	)
	return verb{
		use: "observe [ID | --model ID] (--prediction-id P | (--features X1,X2,... | --inputs JSON|@FILE) [--observation-id O]) " +
			"(--label Y | --labels Y1,Y2,... | --class C)",
		short: "Send a label",
		long: `Send the label of an input: a number, several, or the class for a classifier. The
model learns it exactly once: a repeated prediction id or observation id gets the
first answer again. An input without an observation id has no identity and is
learned every time.

The recent mean loss and the recent skill are of the last 1000 rounds or so.`,
		example: `  hindsight observe energy --prediction-id order-7 --label -2.5
  hindsight observe energy --features 0.1,-0.4,2 --observation-id hour-12 --label 0
  hindsight observe trips --inputs '{"temperature": 21.5, "city": "Oslo"}' --class late`,
		optional: true,
		flags: func(f *flagSet) {
			flags.add(f)
			f.StringVar(&observation.PredictionId, "prediction-id", "", "id of the prediction that the label belongs to")
			f.StringVar(&observation.ObservationId, "observation-id", "", "id of an observation that is given by its input")
			f.Float64Var(observation.Weight, "weight", 1, "weight of the observation")
			f.Float64Var(&target.label, "label", 0, "the label")
			f.StringVar(&target.class, "class", "", "the class, for a classifier")
			f.StringVar(&target.labels, "labels", "", "the labels of a model with several outputs, as comma-separated numbers")
		},
		before: func(c *call) (err error) {
			if observation.Features, observation.Inputs, err = flags.input(e, c.args); err != nil {
				return err
			}
			given := len(observation.GetFeatures()) > 0 || observation.GetInputs() != nil
			predicted := observation.GetPredictionId() != ""
			switch {
			case !predicted && !given:
				return command.Usagef("give --prediction-id, --features or --inputs")
			case predicted && given:
				return command.Usagef("--prediction-id and an input exclude each other")
			case predicted && observation.GetObservationId() != "":
				return command.Usagef("--observation-id needs --features or --inputs; a prediction has an id already")
			}
			if err := target.set(observation, c.given("label")); err != nil {
				return err
			}
			if observation.GetWeight() == 0 {
				return command.Usagef("--weight must be positive, not 0")
			}
			return nil
		},
		run: func(c *call) error {
			return show(e, writeOutcome)(c.client.Model(flags.model).Observe(c.ctx(), observation))
		},
	}
}

type targetFlags struct {
	label         float64
	labels, class string
}

// set sets the target. It rejects flags that do not give one target; hasLabel reports whether --label is given.
func (t targetFlags) set(r *hindsightv1.ObserveRequest, hasLabel bool) (err error) {
	given := 0
	for _, is := range []bool{hasLabel, t.labels != "", t.class != ""} {
		if is {
			given++
		}
	}
	switch {
	case given != 1:
		return command.Usagef("give --label (0 is a label too), or --labels for several outputs, or --class for a classifier")
	case t.class != "":
		r.Target = client.Class(t.class)
	case t.labels != "":
		var values []float64
		values, err = numbers("label", strings.Split(t.labels, ","))
		r.Target = client.Labels(values...)
	default:
		r.Target = client.Label(t.label)
	}
	return err
}

func writeOutcome(w *command.Page, o *hindsightv1.Outcome) {
	w.Row("sequence", o.GetSequence())
	writePredicted(w, ", "+prequential, o.GetClass(), o.Prediction, o.GetPredictions())
	w.Row("loss, prequential", o.GetLoss())
	if o.ServedLoss != nil {
		writePredicted(w, ", "+served, o.GetServedClass(), o.ServedPrediction, o.GetServedPredictions())
		w.Row("loss, served", o.GetServedLoss())
	}
	command.Known(w, "regret, prequential", o.Regret)
	command.Known(w, "recent mean loss, served", o.RecentLoss)
	if o.RecentSkill != nil {
		w.Row("recent skill, served", digits3(o.GetRecentSkill())+", "+verdict(o.GetRecentSkill()))
	}
	if o.GetSetAside() {
		w.Row("label set aside", "it cannot be right: the model did not learn it")
	}
	if o.GetDuplicate() {
		w.Row("duplicate", "learned before; this is the first answer")
	}
}

// writePredicted writes what was predicted: a class, a value, several values, or nothing by a
// classifier that knows no class yet.
func writePredicted(w *command.Page, which, class string, value *float64, values []float64) {
	switch {
	case class != "":
		w.Row("class"+which, class)
	case value != nil:
		w.Row("prediction"+which, exact(*value))
	case len(values) > 0:
		w.Row("predictions"+which, values)
	default:
		w.Row("prediction"+which, "none")
	}
}
