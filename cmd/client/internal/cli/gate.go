package cli

import (
	"fmt"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/internal/command"
)

// alarmingShare is the share of labels set aside above which the statistics warn.
const alarmingShare = 0.01

// writeLabelGate writes what the label gate of a model did, nothing for a model without a
// gate.
func writeLabelGate(w *command.Page, g *hindsightv1.LabelGateStats) {
	if g == nil {
		return
	}
	w.Printf("\n")
	w.Row("labels set aside", setAside(g.GetSetAside(), g.GetShare()))
	if g.GetSetAside() > 0 {
		w.Row("  the last one at", g.GetLastSetAside())
		w.Row("  loss on those not learned", g.GetSetAsideLoss())
		if g.RegretBeside != nil {
			w.Row("  regret on those not learned", command.Number(g.GetRegretBeside())+", beside the regret above")
		}
	}
	w.Row("new starts", g.GetStarts())
	if g.GetStarts() > 0 {
		w.Row("  the last one at", g.GetLastStart())
	}
}

// setAside writes how many labels were set aside, with a warning above alarmingShare.
func setAside(count uint64, share float64) string {
	text := fmt.Sprintf("%d, %s %%", count, digits3(100*share))
	if share > alarmingShare {
		text += ": more than one label in a hundred cannot be right: look where the labels come from"
	}
	return text
}
