package cli

import (
	"strings"

	"github.com/spf13/cobra"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
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
		Short: "Say what happened",
		Long: `Say what happened. The model learns it exactly once: the same prediction or
observation id again answers the first answer. Features without an observation
id have no identity and are learned every time.`,
		Example: `  hindsight observe --model energy --prediction-id order-7 --label -2.5
  hindsight observe --model energy --features 0.1,-0.4,2 --observation-id hour-12 --label 0`,
		Annotations: map[string]string{takesFeatures: "yes"},
		Args:        cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("label") == (labels != "") {
				return usagef("give --label (0 is a label too), or --labels for several outputs")
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
				ctx, cancel := c.bounded(cmd.Context())
				defer cancel()
				answer, err := c.predictions.Observe(ctx, request)
				if err != nil {
					return err
				}
				outcome := answer.GetOutcome()
				return e.emit(outcome, func(w *page) { writeOutcome(w, outcome) })
			})
		},
	}
	e.modelFlag(cmd, &o.model)
	flags := cmd.Flags()
	flags.StringVar(&o.prediction, "prediction-id", "", "the prediction that the label belongs to")
	flags.StringVar(&o.features, "features", "", "the input, numbers with commas between them")
	flags.StringVar(&o.id, "observation-id", "", "identity of an observation given by its features")
	flags.Float64Var(&label, "label", 0, "what happened")
	flags.StringVar(&labels, "labels", "", "what happened, for a model of several outputs: numbers with commas between them")
	flags.Float64Var(&weight, "weight", 1, "importance of the observation")
	return cmd
}

// observation is what the flags say of an observation.
type observation struct {
	model, prediction, features, id string
}

// request checks that the flags name one source of the input.
func (o observation) request(args []string) (*hindsightv1.ObserveRequest, error) {
	if o.model == "" {
		return nil, usagef("--model is missing")
	}
	x, err := features(o.features, args)
	if err != nil {
		return nil, err
	}
	switch {
	case o.prediction == "" && len(x) == 0:
		return nil, usagef("give --prediction-id or --features")
	case o.prediction != "" && len(x) > 0:
		return nil, usagef("--prediction-id and features exclude each other")
	case o.prediction != "" && o.id != "":
		return nil, usagef("--observation-id goes with --features; a prediction has an id already")
	}
	return &hindsightv1.ObserveRequest{
		Model: o.model, PredictionId: o.prediction, Features: x, ObservationId: o.id,
	}, nil
}

// writeOutcome writes an outcome for people.
func writeOutcome(w *page, o *hindsightv1.Outcome) {
	w.printf("sequence\t%d\n", o.GetSequence())
	if len(o.GetPredictions()) > 0 {
		w.printf("predictions\t%v\n", o.GetPredictions())
	} else {
		w.row("prediction", exact(o.GetPrediction()))
	}
	w.float("loss", o.GetLoss())
	if o.ServedLoss != nil {
		if len(o.GetServedPredictions()) > 0 {
			w.printf("served predictions\t%v\n", o.GetServedPredictions())
		} else {
			w.row("served prediction", exact(o.GetServedPrediction()))
		}
		w.float("served loss", o.GetServedLoss())
	}
	if o.Regret != nil {
		w.float("regret", o.GetRegret())
	}
	if o.GetDuplicate() {
		w.printf("duplicate\tlearned before; this is the first answer\n")
	}
}
