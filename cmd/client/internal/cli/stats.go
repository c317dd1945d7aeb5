package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
	"hindsight/cmd/internal/command"
)

func (e *env) modelStats() verb {
	request := new(hindsightv1.GetModelStatsRequest)
	var watch, all bool
	var interval time.Duration
	var events int
	return verb{
		use:   "stats ID",
		short: "Show how a model is doing: skill, errors, the share of labels inside of the intervals",
		long: `Show how a model is doing. --all adds losses beside baselines, regret, drift, inputs and weights.
With --watch write a line whenever the model has learned, with --json
as a line of JSON. Loss and skill of a line are of the predictions that were served for the last 1000
observations. The regret is prequential.

` + verdictHelp + `

` + inputsHelp,
		example: `  hindsight model stats energy
  hindsight model stats energy --watch --events 60 --json > minute.json`,
		complete: []completer{models},
		flags: func(f *flagSet) {
			f.BoolVar(&all, "all", false, "show everything")
			f.BoolVar(&request.IncludeEffectiveDimension, "effective-dimension", false, "also compute the effective dimension, which may take seconds")
			f.BoolVar(&request.IncludeRegretRkhs, "rkhs", false,
				"also bound the regret against all functions of the kernel's space, which may take seconds")
			f.BoolVar(&request.IncludeRecentRegret, "recent", false,
				"also solve for the regret on the last 16, 32, … observations, up to 16384 of the log, which may take a minute")
			f.BoolVar(&request.IncludeImportances, "importances", false, "also show how much each input matters to the trees of auto")
			f.BoolVar(&request.IncludeHindsightPath, "path", false,
				"also show the loss in hindsight of the first m features, of learners that have it; as JSON every m, up to 16385 numbers")
			f.BoolVar(&watch, "watch", false, "write a line whenever the model has learned")
			f.DurationVar(&interval, "interval", time.Second, "with --watch: shortest time between two lines")
			f.IntVar(&events, "events", 0, "with --watch: end after so many lines; 0: never")
		},
		before: func(c *call) error {
			switch {
			case !watch && (c.given("interval") || c.given("events")):
				return command.Usagef("--interval and --events need --watch")
			case interval < time.Second:
				return command.Usagef("--interval %v is less than 1s", interval)
			case events < 0:
				return command.Usagef("--events %d is negative", events)
			}
			return nil
		},
		run: func(c *call) error {
			if watch {
				return e.watch(c.ctx(), c.model(), interval, events)
			}
			write := writeFigures
			if all || !proto.Equal(request, new(hindsightv1.GetModelStatsRequest)) {
				write = writeStats
			}
			return show(e, write)(c.model().Stats(c.ctx(), request))
		},
	}
}

// watch writes a line for each statistics event until there were enough of them.
func (e *env) watch(ctx context.Context, m *client.Model, interval time.Duration, events int) error {
	// Outcomes are not shown, so the server sends as few as possible.
	request := &hindsightv1.WatchModelRequest{StatsInterval: durationpb.New(interval), MaxOutcomesPerSecond: 1}
	seen := 0
	for event, err := range m.Watch(ctx, request) {
		if err != nil {
			return err
		}
		stats := event.GetStats()
		if stats == nil {
			continue
		}
		err = e.watchLine(stats, seen == 0)
		if seen++; err != nil || seen == events {
			return err
		}
	}
	return errors.Join(ctx.Err(), errEnded)
}

var errEnded = errors.New("the server ended the events")

func (e *env) watchLine(s *hindsightv1.ModelStats, first bool) error {
	raw, err := encode(s)
	if err != nil {
		return err
	}
	return e.EmitLine(raw, func(w *command.Page) {
		line := func(values ...any) { w.Printf("%-14v%-14v%-14v%v\n", values...) }
		if first {
			line("OBSERVATIONS", "SERVED LOSS", "SERVED SKILL", "REGRET")
		}
		loss, skill := lossAndSkill(s.GetRecent().GetServed(), s.GetClasses().GetRecent().GetServed())
		line(s.GetObservations(), command.Optional(loss, command.Number), command.Optional(skill, command.Number), command.Number(s.GetRegret()))
	})
}

func writeFigures(w *command.Page, s *hindsightv1.ModelStats) {
	w.Row("model", s.GetModel())
	w.Row("learner", s.GetLearner())
	w.Row("observations", command.Number(float64(s.GetObservations())))
	writeQuality(w, s)
	w.Printf("\n--all shows losses, regret, drift, inputs and weights\n")
}

// writeQuality writes the skill, the errors and the share of labels inside of the intervals: of the
// served predictions if there are any, else of the prequential ones.
func writeQuality(w *command.Page, s *hindsightv1.ModelStats) {
	kind, f, c := prequential, s.GetPerformance().GetPrequential(), s.GetClasses().GetPerformance().GetPrequential()
	if s.GetServedObservations() > 0 {
		kind, f, c = served, s.GetPerformance().GetServed(), s.GetClasses().GetPerformance().GetServed()
	}
	loss, skill := lossAndSkill(f, c)
	if skill != nil {
		w.Row("skill, "+kind, digits3(*skill)+", "+verdict(*skill))
	}
	switch {
	case c != nil:
		w.Row("error rate, "+kind, rate(*loss))
		w.Row("log-loss, "+kind, digits3(c.GetLogLoss()))
		if r := s.GetClasses().GetRanking(); r != nil {
			w.Row("AUC of "+cell(r.GetClass()), digits3(r.GetAuc()))
			w.Row("best F1 of "+cell(r.GetClass()), digits3(r.GetF1()))
		}
	case f != nil && f.Rmse != nil: // Of the squared loss.
		w.Row("RMSE, "+kind, f.GetRmse())
		w.Row("MAE, "+kind, f.GetMae())
	default:
		command.Known(w, "mean loss, "+kind, loss)
	}
	for _, i := range s.GetIntervals() {
		if i.Realised != nil && i.GetOutput() == 0 {
			w.Row("inside "+level(i.GetCoverage()), percent(i.GetRealised()))
		}
	}
	if g := s.GetLabelGate(); g.GetShare() > alarmingShare {
		w.Row("labels set aside", setAside(g.GetSetAside(), g.GetShare()))
	}
}

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
	if s.RegretRkhs != nil {
		w.Row("regret against the kernel's space", "at most "+command.Number(s.GetRegretRkhs()))
		w.Row("more features would gain", "at most "+command.Number(s.GetRegretRkhs()-s.GetRegret()))
	}
	for m, regret := range s.GetSwitchingRegret() {
		if m > 0 && m&(m-1) == 0 { // Without a switch it is the regret.
			w.Row("regret, switches up to "+strconv.Itoa(m), regret)
		}
	}
	w.Row("certified, prequential", s.GetCertified())
	command.Known(w, "log determinant", s.LogDeterminant)
	command.Known(w, "largest label", s.LabelBound)
	w.Row("features", s.GetFeatures())
	command.Known(w, "effective dimension", s.EffectiveDimension)
	w.Text("explained by the parametric part", command.Optional(s.ParametricShare, percent))
	command.Known(w, "recoding", s.Recoding)
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
	writeRecentRegret(w, s.GetRecentRegret())
	writeExperts(w, s)
	writeLogLoss(w, s.GetLogLoss())
	writeImportances(w, s.GetImportances())
	writeEffects(w, s)
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

func writeRecentRegret(w *command.Page, recent []*hindsightv1.RecentRegret) {
	if len(recent) == 0 {
		return
	}
	w.Printf("\nlast observations\tloss\tloss in hindsight\tregret\n")
	for _, r := range recent {
		w.Cells(r.GetObservations(), r.GetLossSum(), r.GetHindsightLoss(), r.GetRegret())
	}
}

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

const inputsHelp = `Of a named input "outside" is the share of values outside of the learned range, or of an
unknown category. "shift" is the population stability index of the last 512 records against
all before: above 0.1 the input has moved, above 0.25 much. The effect of a feature is
its weight times its deviation.`

const (
	// Above these population stability indices an input has moved, and much.
	movedShift, largeShift = 0.1, 0.25
	// How many weights a table shows, and how many characters of a name.
	maxWeights, longestCell = 20, 40
)

func moved(shift float64) string {
	switch {
	case shift > largeShift:
		return "moved much"
	case shift > movedShift:
		return "moved"
	default:
		return "steady"
	}
}

// cell is a name in a table. It is quoted if it has characters that are not printed, and cut
// if it is long.
func cell(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return !strconv.IsPrint(r) }) || strings.TrimSpace(name) != name {
		name = strconv.Quote(name)
	}
	if all := []rune(name); len(all) > longestCell {
		return string(all[:longestCell-1]) + "…"
	}
	return name
}

func writeInputs(w *command.Page, inputs []*hindsightv1.InputStats) {
	if len(inputs) == 0 {
		return
	}
	w.Printf("\ninput\tseen\tmissing\toutside\tmean\tdeviation\tshift\n")
	for _, in := range inputs {
		missing := ""
		if records := in.GetSeen() + in.GetMissing(); records > 0 {
			missing = percent(float64(in.GetMissing()) / float64(records))
		}
		w.Cells(cell(in.GetName()), in.GetSeen(), missing, command.Optional(in.OutsideShare, percent),
			in.Mean, in.Deviation, command.Optional(in.Shift, digits3), command.Optional(in.Shift, moved))
	}
}

func writeFeatureWeights(w *command.Page, s *hindsightv1.ModelStats) {
	weights := s.GetWeights()
	if len(weights) == 0 {
		return
	}
	several := slices.ContainsFunc(weights, func(f *hindsightv1.FeatureWeight) bool { return f.GetOutput() > 0 })
	w.Printf("\nfeature\tweight\teffect\n")
	for _, f := range weights[:min(len(weights), maxWeights)] {
		name := "constant"
		if f.GetFeature() != "" {
			name = cell(f.GetFeature())
		}
		if several {
			name += ", " + outputName(s, int(f.GetOutput()))
		}
		w.Cells(name, f.GetWeight(), f.Effect)
	}
	writeRest(w, len(weights)-maxWeights)
}

func outputName(s *hindsightv1.ModelStats, output int) string {
	if classes := s.GetClasses().GetClasses(); output < len(classes) {
		return cell(classes[output].GetClass())
	}
	return fmt.Sprintf("output %d", output+1)
}

// writeExperts writes the experts that a model mixes: the best one, and the weights by families, or, of a
// learner without families, by experts.
func writeExperts(w *command.Page, s *hindsightv1.ModelStats) {
	experts := slices.DeleteFunc(slices.Clone(s.GetExperts()), mixes)
	if len(experts) == 0 {
		return
	}
	awake := slices.DeleteFunc(slices.Clone(experts), func(e *hindsightv1.Expert) bool { return !e.GetAwake() })
	w.Printf("\nexperts awake\t%d of %d\n", len(awake), len(experts))
	if len(awake) > 0 && !strings.HasPrefix(awake[0].GetName(), "output_") {
		best := slices.MinFunc(awake, func(a, b *hindsightv1.Expert) int { return cmp.Compare(a.GetLossSum(), b.GetLossSum()) })
		w.Row("lowest loss sum", command.Number(best.GetLossSum())+", of "+best.GetName())
	}
	w.Row("weights in the prediction", "")
	if len(s.GetFamilies()) == 0 {
		for _, e := range awake {
			w.Row("  "+e.GetName(), fmt.Sprintf("%.3f", e.GetWeight()))
		}
		return
	}
	for _, f := range s.GetFamilies() {
		w.Row("  "+f.GetFamily(), perOutput(f.GetWeights(), "%.3f"))
	}
}

func writeLogLoss(w *command.Page, s *hindsightv1.LogLossStats) {
	if len(s.GetExperts()) == 0 {
		return
	}
	w.Printf("\nregret in log loss\t%s, at most %s\n", command.Number(s.GetRegret()), command.Number(s.GetRegretBound()))
	w.Row("weights in the probabilities", "")
	for _, e := range s.GetExperts() {
		w.Row("  "+e.GetName(), fmt.Sprintf("%.3f", e.GetWeight()))
	}
}

// mixes reports whether an expert is a stack over others.
func mixes(e *hindsightv1.Expert) bool {
	return slices.Contains(strings.Split(e.GetName(), "/"), "stack")
}

func perOutput(numbers []float64, format string) string {
	out := make([]string, len(numbers))
	for j, v := range numbers {
		out[j] = fmt.Sprintf(format, v)
	}
	return strings.Join(out, ", ")
}

func writeImportances(w *command.Page, importances []*hindsightv1.InputImportance) {
	if len(importances) == 0 {
		return
	}
	w.Printf("\ninput, to the trees\tpermutation\tgain\n")
	for _, i := range importances[:min(len(importances), maxWeights)] {
		w.Cells(cell(i.GetInput()), digits3(i.GetPermutation()), digits3(i.GetGain()))
	}
	writeRest(w, len(importances)-maxWeights)
}

func writeEffects(w *command.Page, s *hindsightv1.ModelStats) {
	if len(s.GetEffects()) == 0 {
		return
	}
	several := slices.ContainsFunc(s.GetEffects(), func(e *hindsightv1.KeyEffect) bool { return e.GetOutput() > 0 })
	w.Printf("\nkey\teffect\tobservations\n")
	for _, e := range s.GetEffects() {
		category := "(forgotten)"
		switch {
		case e.GetMissing():
			category = "(missing)"
		case e.Category != nil:
			category = e.GetCategory()
		}
		name := e.GetInput() + "=" + category
		if several {
			name += fmt.Sprintf(", output %d", e.GetOutput())
		}
		w.Cells(cell(name), digits3(e.GetEffect()), command.Number(e.GetObservations()))
	}
}
