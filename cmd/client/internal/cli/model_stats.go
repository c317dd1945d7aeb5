package cli

import (
	"github.com/spf13/cobra"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
	"hindsight/cmd/internal/command"
)

func newModelStats(e *env) *cobra.Command {
	var effective, path bool
	cmd := &cobra.Command{
		Use:   "stats ID",
		Short: "Show how a model is doing: losses or errors beside baselines, regret, intervals, drift, inputs",
		Long: `Show how a model is doing.

` + verdictHelp + `

` + inputsHelp,
		Args:              command.Exactly("ID"),
		ValidArgsFunction: e.completeModel,
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.withClient(func(c *client.Client) error {
				stats, err := c.Model(args[0]).Stats(cmd.Context(), &hindsightv1.GetModelStatsRequest{
					IncludeEffectiveDimension: effective, IncludeHindsightPath: path,
				})
				if err != nil {
					return err
				}
				return e.emit(stats, func(w *command.Page) { writeStats(w, stats) })
			})
		},
	}
	cmd.Flags().BoolVar(&effective, "effective-dimension", false, "also compute the effective dimension, which may take seconds")
	cmd.Flags().BoolVar(&path, "path", false, "also show the loss in hindsight of the first m features, of learners that have it; as JSON every m, up to 16385 numbers")
	return cmd
}

// writeStats writes statistics for people.
func writeStats(w *command.Page, s *hindsightv1.ModelStats) {
	line, float := w.Row, w.Float
	line("model", s.GetModel())
	line("learner", s.GetLearner())
	line("observations", s.GetObservations())
	if told := s.GetClasses().GetPerformance().GetPrequential(); told != nil {
		line("error rate, prequential", rate(told.GetErrorRate()))
	} else if s.MeanLoss != nil {
		float("mean loss, prequential", s.GetMeanLoss())
	}
	float("loss sum, prequential", s.GetLossSum())
	if s.GetServedObservations() > 0 {
		line("served observations", s.GetServedObservations())
		float("loss sum, served", s.GetServedLossSum())
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
	if s.ParametricShare != nil {
		line("explained by the parametric part", percent(s.GetParametricShare()))
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
	writeLabelGate(w, s.GetLabelGate())
	writeInputs(w, s.GetInputs())
	writeFeatureWeights(w, s)
	writeHindsightPath(w, s.GetHindsightPath())
	writeExperts(w, s)
}

// writeHindsightPath writes the losses in hindsight of the first m features for m = 0, of
// the powers of two, and of all features.
func writeHindsightPath(w *command.Page, path []float64) {
	if len(path) == 0 {
		return
	}
	w.Printf("\nfirst features\tloss in hindsight\n")
	last := len(path) - 1
	for m := 0; m < last; m = max(1, 2*m) {
		w.Printf("%d\t%s\n", m, command.Number(path[m]))
	}
	w.Printf("%d\t%s\n", last, command.Number(path[last]))
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
