package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/internal/command"
)

// expert is one of the experts of auto.
type expert struct {
	*hindsightv1.Expert
	// name has the parts of the name: FEATURES, LEARNER and so on, such as
	// fourier_1/forgetting_0.99/value.
	name []string
	// several: the model has several outputs, and the expert belongs to one of them.
	several bool
}

func newExpert(e *hindsightv1.Expert) expert {
	name := strings.Split(e.GetName(), "/")
	several := strings.HasPrefix(name[0], "output_") && len(name) > 1
	if several {
		name = name[1:]
	}
	return expert{e, name, several}
}

// final tells whether an expert is mixed last: the prediction mixes a mixture of
// the other experts, and stacks over them.
func (e expert) final() bool { return e.name[0] == "mixture" || e.name[0] == "stack" }

// writeExperts writes the experts that a model mixes, with their weights added up
// by parts of their names.
func writeExperts(w *command.Page, s *hindsightv1.ModelStats) {
	var mixed, awake, last []expert
	for _, one := range s.GetExperts() {
		e := newExpert(one)
		switch {
		case e.final():
			last = append(last, e)
		case e.GetAwake():
			awake = append(awake, e)
			fallthrough
		default:
			mixed = append(mixed, e)
		}
	}
	if len(mixed) == 0 {
		return
	}
	w.Printf("\nexperts awake\t%d of %d\n", len(awake), len(mixed))
	if len(awake) > 0 && !awake[0].several {
		best := slices.MinFunc(awake, func(a, b expert) int { return cmp.Compare(a.GetLossSum(), b.GetLossSum()) })
		w.Row("least loss sum", command.Number(best.GetLossSum())+", of "+best.GetName())
	}
	writeWeights(w, "weights in the prediction", last, func(e expert) string { return strings.Join(e.name, "/") })
	writeWeights(w, "weights in the mixture, by features", awake, func(e expert) string { return e.name[0] })
	writeWeights(w, "weights in the mixture, by forgetting or step", awake, func(e expert) string { return e.name[min(1, len(e.name)-1)] })
}

// writeWeights writes the weights of the experts, added up by a key, in shares of
// their sum, the largest first.
func writeWeights(w *command.Page, title string, experts []expert, key func(expert) string) {
	sums, whole := make(map[string]float64), 0.0
	for _, e := range experts {
		sums[key(e)] += e.GetWeight()
		whole += e.GetWeight()
	}
	if whole == 0 {
		return
	}
	names := slices.SortedFunc(maps.Keys(sums), func(a, b string) int {
		return cmp.Or(cmp.Compare(sums[b], sums[a]), cmp.Compare(a, b))
	})
	w.Row(title, "")
	for _, name := range names {
		w.Row("  "+name, fmt.Sprintf("%.3f", sums[name]/whole))
	}
}
