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

// writeExperts writes the experts that a model mixes, their weights added up by
// the parts of their names, such as fourier_1/forgetting_0.99/value.
func writeExperts(w *command.Page, s *hindsightv1.ModelStats) {
	experts := s.GetExperts()
	if len(experts) == 0 {
		return
	}
	awake := slices.DeleteFunc(slices.Clone(experts), func(e *hindsightv1.Expert) bool { return !e.GetAwake() })
	w.Printf("\nexperts awake\t%d of %d\n", len(awake), len(experts))
	if len(awake) == 0 {
		return
	}
	best := slices.MinFunc(awake, func(a, b *hindsightv1.Expert) int { return cmp.Compare(a.GetLossSum(), b.GetLossSum()) })
	w.Row("least loss sum", fmt.Sprintf("%s, of %s", command.Number(best.GetLossSum()), best.GetName()))
	writeWeights(w, "weights by features", awake, 0)
	writeWeights(w, "weights by forgetting or step", awake, 1)
}

// writeWeights writes the weights of the experts, added up by one part of their
// names, the largest first. Names without that part are left out.
func writeWeights(w *command.Page, title string, experts []*hindsightv1.Expert, part int) {
	sums := make(map[string]float64)
	for _, e := range experts {
		if parts := strings.Split(e.GetName(), "/"); part < len(parts) {
			sums[parts[part]] += e.GetWeight()
		}
	}
	if len(sums) == 0 {
		return
	}
	names := slices.SortedFunc(maps.Keys(sums), func(a, b string) int {
		return cmp.Or(cmp.Compare(sums[b], sums[a]), cmp.Compare(a, b))
	})
	w.Row(title, "")
	for _, name := range names {
		w.Row("  "+name, fmt.Sprintf("%.3f", sums[name]))
	}
}
