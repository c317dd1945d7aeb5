package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/internal/command"
)

// sameSkill is how far from 0 a skill may be that counts as that of the better
// baseline.
const sameSkill = 0.01

// verdictHelp explains the table of the performance.
const verdictHelp = `Losses are the model's own. Beside them are those of two trivial predictors that
ignore the inputs: the running mean of the labels, and the last label. Skill is
1 - loss / the smaller of their losses. Above 0.01 the model is better than
trivial, below -0.01 worse, else as good. Each figure says of which predictions it
is. Prequential are those made from all earlier observations, just before the label
was learned. Served are those that the client got, which had not learned from labels
that came later; where the client got none, the prequential one stands for it.

A classifier is judged by its errors in place of its losses: beside the class that
was most frequent so far, and the last class.`

// The verdicts.
const (
	better = "better than trivial"
	asGood = "as good as trivial"
	worse  = "worse than trivial"
)

// verdict says in words what a skill means. Trivial are the two baselines.
func verdict(skill float64) string {
	switch {
	case skill > sameSkill:
		return better
	case skill < -sameSkill:
		return worse
	default:
		return asGood
	}
}

// digits3 writes a number with three digits.
func digits3(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }

// percent writes a share in percent.
func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 1, 64) + " %" }

// level writes the level of an interval.
func level(coverage float64) string {
	return strconv.FormatFloat(100*coverage, 'g', 6, 64) + " %"
}

// writePerformance writes how the model did beside the baselines: over all
// rounds, over the last ones, and with the past discounted.
func writePerformance(w *command.Page, s *hindsightv1.ModelStats) {
	if s.GetClasses() != nil {
		writeClassPerformance(w, s)
		return
	}
	if s.GetPerformance().GetPrequential() == nil {
		return
	}
	w.Printf("\nmean loss\t\tmodel\trunning mean\tlast label\tskill\n")
	for _, p := range []struct {
		name   string
		figure *hindsightv1.Performance
	}{
		{"all rounds", s.GetPerformance()},
		{lastRounds(s.GetRecent().GetObservations()), s.GetRecent()},
		{"discounted, about " + strconv.FormatFloat(s.GetDiscounted().GetObservations(), 'f', 0, 64), s.GetDiscounted()},
	} {
		writeFigures(w, p.name, prequential, p.figure.GetPrequential())
		if s.GetServedObservations() > 0 {
			writeFigures(w, "", served, p.figure.GetServed())
		}
	}
}

// The words that say of which predictions a figure is.
const (
	prequential = "prequential"
	served      = "served"
)

// lastRounds names the last rounds.
func lastRounds(n float64) string { return "last " + strconv.FormatFloat(n, 'f', 0, 64) + " rounds" }

// writeFigures writes the line of some rounds.
func writeFigures(w *command.Page, name, kind string, f *hindsightv1.PerformanceFigures) {
	if f == nil {
		return
	}
	w.Printf("%s\n", strings.Join([]string{
		name, kind, command.Number(f.GetMeanLoss()),
		command.Number(f.GetRunningMeanLoss()), command.Number(f.GetLastLabelLoss()),
		command.Optional(f.Skill, digits3), command.Optional(f.Skill, verdict),
	}, "\t"))
}

// writeRegret writes the regret, that of the served predictions, and what the
// theory promises of it.
func writeRegret(w *command.Page, s *hindsightv1.ModelStats) {
	if s.Regret != nil {
		w.Row("regret, prequential", command.Number(s.GetRegret())+", against "+yardstick(s))
		if s.ServedRegret != nil {
			w.Float("regret, served", s.GetServedRegret())
		}
	}
	if s.GetCertified() {
		w.Float("guarantee", s.GetRegretBound())
		w.Float("certificate", s.GetCertificate())
	}
	if s.CertificateOk != nil {
		w.Row("certificate ok", yesNo(s.GetCertificateOk()))
	}
}

// yardstick names what the regret of a model is measured against.
func yardstick(s *hindsightv1.ModelStats) string {
	if len(s.GetExperts()) > 0 {
		return "the best expert in hindsight"
	}
	return "the best fixed function in hindsight"
}

// writeIntervals writes how the prediction intervals did.
func writeIntervals(w *command.Page, s *hindsightv1.ModelStats) {
	judged := slices.DeleteFunc(slices.Clone(s.GetIntervals()), func(i *hindsightv1.IntervalStats) bool {
		return i.GetObservations() == 0
	})
	if len(judged) == 0 {
		return
	}
	several := slices.ContainsFunc(judged, func(i *hindsightv1.IntervalStats) bool { return i.GetOutput() > 0 })
	w.Printf("\nintervals\tlabels inside\tlast 1000\tleast of 500\tmean width\tscore\n")
	for _, i := range judged {
		name := level(i.GetCoverage())
		if several {
			name += fmt.Sprintf(", output %d", i.GetOutput()+1)
		}
		w.Printf("%s\n", strings.TrimRight(strings.Join([]string{
			name, command.Optional(i.Realised, percent), command.Optional(i.Recent, percent), command.Optional(i.Least, percent),
			command.Optional(i.MeanWidth, command.Number), command.Optional(i.MeanScore, command.Number),
		}, "\t"), "\t"))
	}
}

// writeDrift writes what is known of changes in the loss.
func writeDrift(w *command.Page, s *hindsightv1.ModelStats) {
	d := s.GetDrift()
	if d == nil {
		return
	}
	w.Printf("\nchanges of the loss\t%d\n", d.GetDetected())
	if d.GetDetected() > 0 {
		w.Row("  of them rises", d.GetRises())
	}
	if d.LastChangeSequence != nil {
		w.Row("  the last one at", d.GetLastChangeSequence())
	}
	if d.LossBefore != nil {
		w.Float("  mean loss before it, served", d.GetLossBefore())
	}
	if d.LossAfter != nil {
		w.Float("  mean loss after it, served", d.GetLossAfter())
	}
}
