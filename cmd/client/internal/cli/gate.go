package cli

import (
	"fmt"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/internal/command"
)

const (
	// Above this share of labels set aside the statistics say so in words.
	alarmingShare = 0.01
	alarmingWords = "more than one label in a hundred cannot be right: look where the labels come from"
)

// writeLabelGate writes what the label gate of a model did, nothing for a model without
// one.
func writeLabelGate(w *command.Page, g *hindsightv1.LabelGateStats) {
	if g == nil {
		return
	}
	w.Printf("\nlabels set aside\t%s\n", setAside(g.GetSetAside(), g.GetShare()))
	if g.GetSetAside() > 0 {
		w.Row("  the last one at", g.GetLastSetAside())
		w.Float("  loss on those not learned", g.GetSetAsideLoss())
		if g.RegretBeside != nil {
			w.Row("  regret on those not learned", command.Number(g.GetRegretBeside())+", beside the regret above")
		}
	}
	w.Row("new starts", g.GetStarts())
	if g.GetStarts() > 0 {
		w.Row("  the last one at", g.GetLastStart())
	}
}

// setAside is how many labels were set aside, with a word where these are many.
func setAside(count uint64, share float64) string {
	text := fmt.Sprintf("%d, %s %%", count, digits3(100*share))
	if share > alarmingShare {
		text += ": " + alarmingWords
	}
	return text
}
