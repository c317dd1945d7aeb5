package cli

import (
	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/internal/command"
)

func (e *env) modelStats() verb {
	request := new(hindsightv1.GetModelStatsRequest)
	return verb{
		use:   "stats ID",
		short: "Show how a model is doing: losses or errors beside baselines, regret, intervals, drift, inputs",
		long: `Show how a model is doing.

` + verdictHelp + `

` + inputsHelp,
		complete: []completer{models},
		flags: func(f *flagSet) {
			f.BoolVar(&request.IncludeEffectiveDimension, "effective-dimension", false, "also compute the effective dimension, which may take seconds")
			f.BoolVar(&request.IncludeHindsightPath, "path", false,
				"also show the loss in hindsight of the first m features, of learners that have it; as JSON every m, up to 16385 numbers")
		},
		run: func(c *call) error { return show(e, writeStats)(c.model().Stats(c.ctx(), request)) },
	}
}

// writeStats writes statistics for people.
func writeStats(w *command.Page, s *hindsightv1.ModelStats) {
	w.Row("model", s.GetModel())
	w.Row("learner", s.GetLearner())
	w.Row("observations", s.GetObservations())
	if all := s.GetClasses().GetPerformance().GetPrequential(); all != nil {
		w.Row("error rate, prequential", rate(all.GetErrorRate()))
	} else {
		command.Known(w, "mean loss, prequential", s.MeanLoss)
	}
	w.Row("loss sum, prequential", s.GetLossSum())
	if s.GetServedObservations() > 0 {
		w.Row("served observations", s.GetServedObservations())
		w.Row("loss sum, served", s.GetServedLossSum())
	}
	command.Known(w, "loss in hindsight", s.HindsightLoss)
	writeRegret(w, s)
	if len(s.GetExperts()) == 0 { // Regret against experts has no penalty.
		command.Known(w, "regret without the penalty", s.RegretUnpenalized)
	}
	w.Row("certified", s.GetCertified())
	command.Known(w, "log determinant", s.LogDeterminant)
	command.Known(w, "largest label", s.LabelBound)
	w.Row("features", s.GetFeatures())
	command.Known(w, "effective dimension", s.EffectiveDimension)
	w.Text("explained by the parametric part", command.Optional(s.ParametricShare, percent))
	command.Known(w, "dictionary", s.Dictionary)
	w.Row("pending labels", s.GetPendingLabels())
	w.Row("state bytes", s.GetStateBytes())
	w.Row("state digest", s.GetStateDigest())
	w.Row("durability", s.GetDurability())
	w.Row("snapshot at", s.GetSnapshotSequence())
	writePerformance(w, s)
	writeClasses(w, s.GetClasses())
	writeIntervals(w, s)
	writeDrift(w, s.GetDrift())
	writeLabelGate(w, s.GetLabelGate())
	writeInputs(w, s.GetInputs())
	writeFeatureWeights(w, s)
	writeHindsightPath(w, s.GetHindsightPath())
	writeExperts(w, s)
}

// writeHindsightPath writes the losses in hindsight of the first m features for m = 0, for
// the powers of two, and for all features.
func writeHindsightPath(w *command.Page, path []float64) {
	if len(path) == 0 {
		return
	}
	w.Printf("\nfirst features\tloss in hindsight\n")
	last := len(path) - 1
	for m := 0; m < last; m = max(1, 2*m) {
		w.Cells(m, path[m])
	}
	w.Cells(last, path[last])
}
