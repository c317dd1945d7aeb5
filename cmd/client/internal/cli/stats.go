package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
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
		long: `Show how a model is doing. --all adds losses beside baselines, regret, drift, inputs and weights,
under the names of ModelStats in the API; losses, regrets and certificates that are not called served are prequential.
With --watch write a line whenever the model has learned, with --json
as a line of JSON. Loss and skill of a line are of the predictions that were served for the last 1000
observations. The regret is prequential.

` + verdictHelp + `

` + inputsHelp,
		example: `  hindsight model stats energy
  hindsight model stats energy --watch --events 60 --json > minute.json`,
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
			write := func(w *command.Page, s *hindsightv1.ModelStats) {
				writeFigures(w, s)
				w.Printf("\n--all shows losses, regret, drift, inputs and weights\n")
			}
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

// alarmingShare is the share of labels set aside above which the statistics warn.
const alarmingShare = 0.01

// setAside writes how many labels were set aside, with a warning above alarmingShare.
func setAside(count uint64, share float64) string {
	text := fmt.Sprintf("%d, %s %%", count, digits3(100*share))
	if share > alarmingShare {
		text += ": more than one label in a hundred cannot be right: look where the labels come from"
	}
	return text
}

const inputsHelp = `Of a named input "outside" counts the values outside of the learned range, or of an
unknown category. "shift" is the population stability index of the last 512 records against
all before: above 0.1 the input has moved, above 0.25 much. The effect of a feature is
its weight times its deviation.`

// How many elements of a list people are shown, and how many characters of a name.
const maxElements, longestCell = 20, 40

// writeStats writes how good a model is, and then all statistics that the server knows.
func writeStats(w *command.Page, s *hindsightv1.ModelStats) {
	writeQuality(w, s)
	for _, l := range writeValues(w, "", s.ProtoReflect()) {
		l.write(w)
	}
}

// list is a field with several messages.
type list struct {
	name     string
	elements protoreflect.List
}

// writeValues writes a line for each value of a message and of the messages in its fields. The name of the line is the path of the
// field. It returns the lists, which are tables.
func writeValues(w *command.Page, path string, m protoreflect.Message) (lists []list) {
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		name := path + strings.ReplaceAll(string(f.Name()), "_", " ")
		switch known := m.Has(f); {
		case known && f.IsList() && f.Message() != nil:
			lists = append(lists, list{name, m.Get(f).List()})
		case known && f.Message() != nil:
			lists = append(lists, writeValues(w, name+", ", m.Get(f).Message())...)
		case known, !f.HasPresence() && !f.IsList():
			w.Row(name, valueOf(f, m.Get(f)))
		}
	}
	return lists
}

// valueOf is a value for people. It has the first elements of a list.
func valueOf(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	if !f.IsList() {
		return v.Interface()
	}
	n := v.List().Len()
	var parts []string
	for i := range min(n, maxElements) {
		parts = append(parts, command.Number(v.List().Get(i).Float()))
	}
	if n > maxElements {
		parts = append(parts, fmt.Sprintf("and %d more", n-maxElements))
	}
	return strings.Join(parts, ", ")
}

// write writes a table of the first elements. Its columns are the values that an element has.
func (l list) write(w *command.Page) {
	elements := make([]protoreflect.Message, min(l.elements.Len(), maxElements))
	for i := range elements {
		elements[i] = l.elements.Get(i).Message()
	}
	var header []any
	rows := make([][]any, len(elements))
	for i := range elements[0].Descriptor().Fields().Len() {
		f := elements[0].Descriptor().Fields().Get(i)
		if f.Message() != nil || !slices.ContainsFunc(elements, func(m protoreflect.Message) bool { return m.Has(f) }) {
			continue
		}
		header = append(header, strings.ToUpper(strings.ReplaceAll(string(f.Name()), "_", " ")))
		for k, m := range elements {
			var value any
			if m.Has(f) || !f.HasPresence() {
				value = valueOf(f, m.Get(f))
			}
			if text, ok := value.(string); ok {
				value = cell(text)
			}
			rows[k] = append(rows[k], value)
		}
	}
	w.Printf("\n%s:\n", l.name)
	w.Columns(header...)
	for _, row := range rows {
		w.Columns(row...)
	}
	if more := l.elements.Len() - maxElements; more > 0 {
		w.Printf("and %d more\n", more)
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

func perOutput(numbers []float64, format string) string {
	out := make([]string, len(numbers))
	for j, v := range numbers {
		out[j] = fmt.Sprintf(format, v)
	}
	return strings.Join(out, ", ")
}
