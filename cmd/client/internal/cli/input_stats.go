package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/internal/command"
)

// inputsHelp explains the tables of the inputs and of the weights.
const inputsHelp = `Of a named input "outside" is the share of values that lay outside of what had been
learned when they came: outside of the range of a number, and categories that were
not known. "shift" is the population stability index of the last 512 records against
all before: above 0.1 the input has moved, above 0.25 much. The effect of a feature is
its weight times its deviation.`

const (
	// Above these population stability indices an input has moved, and much.
	movedShift, largeShift = 0.1, 0.25
	// How many weights a table shows, and how many characters of a name.
	mostWeights, longestCell = 20, 40
)

// moved says in words what a population stability index means.
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

// writeInputs writes what has been seen of the named inputs.
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

// writeFeatureWeights writes the weights with the largest effects.
func writeFeatureWeights(w *command.Page, s *hindsightv1.ModelStats) {
	weights := s.GetWeights()
	if len(weights) == 0 {
		return
	}
	several := slices.ContainsFunc(weights, func(f *hindsightv1.FeatureWeight) bool { return f.GetOutput() > 0 })
	w.Printf("\nfeature\tweight\teffect\n")
	for _, f := range weights[:min(len(weights), mostWeights)] {
		name := "constant"
		if f.GetFeature() != "" {
			name = cell(f.GetFeature())
		}
		if several {
			name += ", " + outputName(s, int(f.GetOutput()))
		}
		w.Cells(name, f.GetWeight(), f.Effect)
	}
	writeRest(w, len(weights)-mostWeights)
}

// outputName names an output: by its class, or by its number for a model without classes.
func outputName(s *hindsightv1.ModelStats, output int) string {
	if classes := s.GetClasses().GetClasses(); output < len(classes) {
		return cell(classes[output].GetClass())
	}
	return fmt.Sprintf("output %d", output+1)
}
