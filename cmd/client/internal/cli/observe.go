package cli

import (
	"strings"

	"github.com/spf13/cobra"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/internal/command"
)

// newObserve builds "observe".
func newObserve(e *env) *cobra.Command {
	var (
		o             observation
		label, weight float64
		labels        string
	)
	cmd := &cobra.Command{
		Use:   "observe --model ID (--prediction-id P | --features X1,X2,... [--observation-id O]) (--label Y | --labels Y1,Y2,...)",
		Short: "Send a label",
		Long: `Send the label of an input. The model learns it exactly once: a repeated
prediction id or observation id gets the first answer again. Features without
an observation id have no identity and are learned every time.

The recent mean loss and the recent skill are of the last 1000 rounds or so. Skill
is 1 - loss / the smaller loss of two predictors that ignore the inputs: the
running mean of the labels, and the last label. Above 0.01 the model is better
than trivial, below -0.01 worse, else as good.`,
		Example: `  hindsight observe --model energy --prediction-id order-7 --label -2.5
  hindsight observe --model energy --features 0.1,-0.4,2 --observation-id hour-12 --label 0`,
		Annotations: map[string]string{takesFeatures: "yes"},
		Args:        cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("label") == (labels != "") {
				return command.Usagef("give --label (0 is a label too), or --labels for several outputs")
			}
			request, err := o.request(args)
			if err != nil {
				return err
			}
			request.Target = &hindsightv1.ObserveRequest_Label{Label: label}
			if labels != "" {
				values, err := numbers("label", strings.Split(labels, ","))
				if err != nil {
					return err
				}
				request.Target = &hindsightv1.ObserveRequest_Labels{Labels: &hindsightv1.Labels{Values: values}}
			}
			if cmd.Flags().Changed("weight") {
				request.Weight = &weight
			}
			return e.withClient(func(c *client) error {
				ctx, cancel := c.Bounded(cmd.Context())
				defer cancel()
				answer, err := c.Predictions.Observe(ctx, request)
				if err != nil {
					return err
				}
				outcome := answer.GetOutcome()
				return e.emit(outcome, func(w *command.Page) { writeOutcome(w, outcome) })
			})
		},
	}
	e.modelFlag(cmd, &o.model)
	flags := cmd.Flags()
	flags.StringVar(&o.prediction, "prediction-id", "", "id of the prediction that the label belongs to")
	flags.StringVar(&o.features, "features", "", "the input, numbers with commas between them")
	flags.StringVar(&o.id, "observation-id", "", "id of an observation that is given by its features")
	flags.Float64Var(&label, "label", 0, "the label")
	flags.StringVar(&labels, "labels", "", "the labels of a model with several outputs, numbers with commas between them")
	flags.Float64Var(&weight, "weight", 1, "weight of the observation")
	return cmd
}

// observation is what the flags say about an observation.
type observation struct {
	model, prediction, features, id string
}

// request checks that the flags give the input exactly once.
func (o observation) request(args []string) (*hindsightv1.ObserveRequest, error) {
	if o.model == "" {
		return nil, command.Usagef("--model is missing")
	}
	x, err := features(o.features, args)
	if err != nil {
		return nil, err
	}
	switch {
	case o.prediction == "" && len(x) == 0:
		return nil, command.Usagef("give --prediction-id or --features")
	case o.prediction != "" && len(x) > 0:
		return nil, command.Usagef("--prediction-id and features exclude each other")
	case o.prediction != "" && o.id != "":
		return nil, command.Usagef("--observation-id needs --features; a prediction has an id already")
	}
	return &hindsightv1.ObserveRequest{
		Model: o.model, PredictionId: o.prediction, Features: x, ObservationId: o.id,
	}, nil
}

// writeOutcome writes an outcome for people.
func writeOutcome(w *command.Page, o *hindsightv1.Outcome) {
	w.Printf("sequence\t%d\n", o.GetSequence())
	if len(o.GetPredictions()) > 0 {
		w.Printf("predictions\t%v\n", o.GetPredictions())
	} else {
		w.Row("prediction", exact(o.GetPrediction()))
	}
	w.Float("loss", o.GetLoss())
	if o.ServedLoss != nil {
		if len(o.GetServedPredictions()) > 0 {
			w.Printf("served predictions\t%v\n", o.GetServedPredictions())
		} else {
			w.Row("served prediction", exact(o.GetServedPrediction()))
		}
		w.Float("served loss", o.GetServedLoss())
	}
	if o.Regret != nil {
		w.Float("regret", o.GetRegret())
	}
	if o.RecentLoss != nil {
		w.Float("recent mean loss", o.GetRecentLoss())
	}
	if o.RecentSkill != nil {
		w.Row("recent skill", digits3(o.GetRecentSkill())+", "+verdict(o.GetRecentSkill()))
	}
	if o.GetDuplicate() {
		w.Printf("duplicate\tlearned before; this is the first answer\n")
	}
}
