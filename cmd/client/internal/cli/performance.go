package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/internal/command"
)

// sameSkill is how far from 0 a skill may be that counts as the skill of the better
// baseline.
const sameSkill = 0.01

const verdictHelp = `The losses of the model stand beside the losses of two trivial predictors that
ignore the inputs: the running mean of the labels, and the last label. Skill is
1 - loss / the smaller of their losses. Above 0.01 the model is better than trivial, below
-0.01 worse, else as good. Prequential predictions are made from all earlier observations,
just before the label is learned. Served predictions are those that the client got; where
the client got none, the prequential prediction stands for it.

A classifier is evaluated by its errors, beside the class that was most frequent so far, and
the last class.`

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

func digits3(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }

func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 1, 64) + " %" }

func level(coverage float64) string {
	return strconv.FormatFloat(100*coverage, 'g', 6, 64) + " %"
}

// writePerformance writes the losses of the model beside the baselines: over all rounds, over
// the last rounds, and with the past discounted.
func writePerformance(w *command.Page, s *hindsightv1.ModelStats) {
	if s.GetClasses() != nil {
		writeClassPerformance(w, s)
		return
	}
	if s.GetPerformance().GetPrequential() == nil {
		return
	}
	w.Printf("\nmean loss\t\tmodel\trunning mean\tlast label\tskill\n")
	line := func(name, kind string, f *hindsightv1.PerformanceFigures) {
		if f != nil {
			w.Columns(name, kind, f.GetMeanLoss(), f.GetRunningMeanLoss(), f.GetLastLabelLoss(),
				command.Optional(f.Skill, digits3), command.Optional(f.Skill, verdict))
		}
	}
	rounds := func(name string, p *hindsightv1.Performance) {
		line(name, prequential, p.GetPrequential())
		if s.GetServedObservations() > 0 {
			line("", served, p.GetServed())
		}
	}
	rounds("all rounds", s.GetPerformance())
	rounds(lastRounds(s.GetRecent().GetObservations()), s.GetRecent())
	rounds("discounted, about "+strconv.FormatFloat(s.GetDiscounted().GetObservations(), 'f', 0, 64), s.GetDiscounted())
	writeErrors(w, s)
}

// writeErrors writes the errors in the unit of the label, nothing for other losses than the
// squared one.
func writeErrors(w *command.Page, s *hindsightv1.ModelStats) {
	if s.GetPerformance().GetPrequential().Rmse == nil {
		return
	}
	w.Printf("\nerror, in the unit of the label\t\tRMSE\tMAE\n")
	rounds := func(name string, p *hindsightv1.Performance) {
		w.Columns(name, prequential, p.GetPrequential().Rmse, p.GetPrequential().Mae)
		if s.GetServedObservations() > 0 {
			w.Columns("", served, p.GetServed().Rmse, p.GetServed().Mae)
		}
	}
	rounds("all rounds", s.GetPerformance())
	rounds(lastRounds(s.GetRecent().GetObservations()), s.GetRecent())
}

// The words that say of which predictions a figure is.
const (
	prequential = "prequential"
	served      = "served"
)

func lastRounds(n float64) string { return "last " + strconv.FormatFloat(n, 'f', 0, 64) + " rounds" }

// writeRegret writes the prequential regret, the served regret, and what the
// theory promises of it.
func writeRegret(w *command.Page, s *hindsightv1.ModelStats) {
	if s.Regret != nil {
		w.Row("regret, prequential", command.Number(s.GetRegret())+", against "+yardstick(s))
		command.Known(w, "regret, served", s.ServedRegret)
	}
	if s.GetCertified() {
		w.Row("guarantee, prequential", s.GetRegretBound())
	}
	command.Known(w, "certificate, prequential", s.Certificate)
	command.Known(w, "certificate, served", s.ServedCertificate)
	command.Known(w, "certificate ok", s.CertificateOk)
}

// yardstick names what the regret of a model is measured against.
func yardstick(s *hindsightv1.ModelStats) string {
	if len(s.GetExperts()) > 0 {
		return "the best expert in hindsight"
	}
	return "the best fixed function in hindsight"
}

func writeIntervals(w *command.Page, s *hindsightv1.ModelStats) {
	evaluated := slices.DeleteFunc(slices.Clone(s.GetIntervals()), func(i *hindsightv1.IntervalStats) bool {
		return i.GetObservations() == 0
	})
	if len(evaluated) == 0 {
		return
	}
	several := slices.ContainsFunc(evaluated, func(i *hindsightv1.IntervalStats) bool { return i.GetOutput() > 0 })
	w.Printf("\nintervals\tlabels inside\tlast 1000\tleast of 500\tmean width\tscore\n")
	for _, i := range evaluated {
		name := level(i.GetCoverage())
		if several {
			name += fmt.Sprintf(", output %d", i.GetOutput()+1)
		}
		w.Cells(name, command.Optional(i.Realised, percent), command.Optional(i.Recent, percent), command.Optional(i.Least, percent),
			i.MeanWidth, i.MeanScore)
	}
}

func writeDrift(w *command.Page, d *hindsightv1.Drift) {
	if d == nil {
		return
	}
	w.Printf("\nchanges of the loss\t%d\n", d.GetDetected())
	if d.GetDetected() > 0 {
		w.Row("  of them rises", d.GetRises())
	}
	command.Known(w, "  the last one at", d.LastChangeSequence)
	command.Known(w, "  mean loss before it, served", d.LossBefore)
	command.Known(w, "  mean loss after it, served", d.LossAfter)
}

// maxClasses is how many classes a table shows.
const maxClasses = 20

// writeClassPerformance writes the errors of a classifier beside the baselines, over all
// rounds and over the last rounds.
func writeClassPerformance(w *command.Page, s *hindsightv1.ModelStats) {
	all, last := s.GetClasses().GetPerformance(), s.GetClasses().GetRecent()
	if all.GetPrequential() == nil {
		return
	}
	w.Printf("\nerrors\t\tmodel\tmost frequent class\tlast class\tlog-loss\tBrier score\tskill\n")
	line := func(name, kind string, f *hindsightv1.ClassFigures) {
		if f != nil {
			w.Columns(name, kind, rate(f.GetErrorRate()), rate(f.GetMajorityErrorRate()), rate(f.GetLastClassErrorRate()),
				digits3(f.GetLogLoss()), digits3(f.GetBrierScore()), command.Optional(f.Skill, digits3), command.Optional(f.Skill, verdict))
		}
	}
	rounds := func(name string, p *hindsightv1.ClassPerformance) {
		line(name, prequential, p.GetPrequential())
		if s.GetServedObservations() > 0 {
			line("", served, p.GetServed())
		}
	}
	rounds("all rounds", all)
	rounds(lastRounds(last.GetObservations()), last)
	if r := s.GetClasses().GetRanking(); r != nil {
		w.Printf("\nranking of %s\tAUC\tbest F1\tfrom probability\tprecision\trecall\n", cell(r.GetClass()))
		w.Cells("all rounds", digits3(r.GetAuc()), digits3(r.GetF1()), digits3(r.GetThreshold()), percent(r.GetPrecision()), percent(r.GetRecall()))
	}
}

func rate(share float64) string { return digits3(100*share) + " %" }

// writeClasses writes what became of the predicted probabilities of a classifier, and of the
// classes that were observed most.
func writeClasses(w *command.Page, s *hindsightv1.ClassStats) {
	bins := slices.DeleteFunc(slices.Clone(s.GetReliability()), func(b *hindsightv1.ReliabilityBin) bool { return b.GetMembers() == 0 })
	if len(bins) > 0 {
		w.Printf("\nprobabilities\thow many\tmean\tclass observed\n")
	}
	for _, b := range bins {
		w.Cells(fmt.Sprintf("%.0f to %.0f %%", 100*b.GetLow(), 100*b.GetHigh()), b.GetMembers(),
			command.Optional(b.Predicted, rate), command.Optional(b.Found, rate))
	}
	classes := slices.SortedStableFunc(slices.Values(s.GetClasses()), func(a, b *hindsightv1.ClassCounts) int {
		return cmp.Compare(b.GetObserved(), a.GetObserved())
	})
	if len(classes) > 0 {
		w.Printf("\nclass\tobserved\terrors\trecall\tpredicted\texpected\n")
	}
	for _, c := range classes[:min(len(classes), maxClasses)] {
		recall := ""
		if c.GetObserved() > 0 {
			recall = percent(1 - float64(c.GetErrors())/float64(c.GetObserved()))
		}
		w.Cells(cell(c.GetClass()), c.GetObserved(), c.GetErrors(), recall, c.GetPredicted(), fmt.Sprintf("%.1f", c.GetExpected()))
	}
	writeRest(w, len(classes)-maxClasses)
}

func writeRest(w *command.Page, more int) {
	if more > 0 {
		w.Printf("and %d more\n", more)
	}
}
