package cli

import (
	"context"

	"github.com/spf13/cobra"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/internal/command"
)

func newModelStats(e *env) *cobra.Command {
	var effective bool
	cmd := &cobra.Command{
		Use:   "stats ID",
		Short: "Show how a model is doing: losses or errors beside baselines, regret, intervals, drift, inputs",
		Long: `Show how a model is doing.

` + verdictHelp + `

` + inputsHelp,
		Args:              command.Exactly("ID"),
		ValidArgsFunction: e.completeModel,
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.withClient(func(c *client) error {
				stats, err := c.stats(cmd.Context(), args[0], effective)
				if err != nil {
					return err
				}
				return e.emit(stats, func(w *command.Page) { writeStats(w, stats) })
			})
		},
	}
	cmd.Flags().BoolVar(&effective, "effective-dimension", false, "also compute the effective dimension, which may take seconds")
	return cmd
}

// stats returns the statistics of a model.
func (c *client) stats(ctx context.Context, id string, effective bool) (*hindsightv1.ModelStats, error) {
	ctx, cancel := c.Bounded(ctx)
	defer cancel()
	answer, err := c.Models.GetModelStats(ctx, &hindsightv1.GetModelStatsRequest{Model: id, IncludeEffectiveDimension: effective})
	return answer.GetStats(), err
}

// writeStats writes statistics for people.
func writeStats(w *command.Page, s *hindsightv1.ModelStats) {
	line, float := w.Row, w.Float
	line("model", s.GetModel())
	line("learner", s.GetLearner())
	line("observations", s.GetObservations())
	if told := s.GetClasses().GetPerformance().GetPrequential(); told != nil {
		line("error rate", rate(told.GetErrorRate()))
	} else if s.MeanLoss != nil {
		float("mean loss", s.GetMeanLoss())
	}
	float("loss sum", s.GetLossSum())
	if s.GetServedObservations() > 0 {
		line("served observations", s.GetServedObservations())
		float("served loss sum", s.GetServedLossSum())
	}
	if s.HindsightLoss != nil {
		float("loss in hindsight", s.GetHindsightLoss())
	}
	writeRegret(w, s)
	if s.RegretUnpenalized != nil && len(s.GetExperts()) == 0 { // Regret against experts has no penalty.
		float("regret without the penalty", s.GetRegretUnpenalized())
	}
	line("certified", yesNo(s.GetCertified()))
	if s.LogDeterminant != nil {
		float("log determinant", s.GetLogDeterminant())
	}
	if s.LabelBound != nil {
		float("largest label", s.GetLabelBound())
	}
	line("features", s.GetFeatures())
	if s.EffectiveDimension != nil {
		float("effective dimension", s.GetEffectiveDimension())
	}
	if s.Dictionary != nil {
		line("dictionary", s.GetDictionary())
	}
	line("pending labels", s.GetPendingLabels())
	line("state bytes", s.GetStateBytes())
	line("state digest", s.GetStateDigest())
	line("durability", s.GetDurability())
	line("snapshot at", s.GetSnapshotSequence())
	writePerformance(w, s)
	writeClasses(w, s.GetClasses())
	writeIntervals(w, s)
	writeDrift(w, s)
	writeInputs(w, s.GetInputs())
	writeFeatureWeights(w, s)
	writeExperts(w, s)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
