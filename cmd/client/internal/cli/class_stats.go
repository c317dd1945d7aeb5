package cli

import (
	"cmp"
	"fmt"
	"slices"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/internal/command"
)

// mostClasses is how many classes a table shows.
const mostClasses = 20

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
}

// rate writes a share in percent with three digits.
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
	for _, c := range classes[:min(len(classes), mostClasses)] {
		recall := ""
		if c.GetObserved() > 0 {
			recall = percent(1 - float64(c.GetErrors())/float64(c.GetObserved()))
		}
		w.Cells(cell(c.GetClass()), c.GetObserved(), c.GetErrors(), recall, c.GetPredicted(), fmt.Sprintf("%.1f", c.GetExpected()))
	}
	writeRest(w, len(classes)-mostClasses)
}

// writeRest says how many lines a table leaves out.
func writeRest(w *command.Page, more int) {
	if more > 0 {
		w.Printf("and %d more\n", more)
	}
}
