package catalog_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/modeltest"
)

// A full history has a window, and the cost counts it: a stream whose points are not kept
// takes no more memory than that.
func TestAFullHistoryIsBounded(t *testing.T) {
	rounds := 40_000
	if testing.Short() {
		rounds = 6_000
	}
	for name, given := range map[string]model.PKAWVNystrom{
		"few centres":          {Kernel: &model.Kernel{Kind: "linear"}},
		"few of few centres":   {Kernel: &model.Kernel{Kind: "linear"}, MaxDictionary: ptr(16)},
		"a window that is set": {MaxDictionary: ptr(128), HistoryWindow: ptr(100)},
	} {
		t.Run(name, func(t *testing.T) {
			given.History = model.HistoryFull
			spec, cost, err := catalog.Complete(model.Spec{Dimension: 2, PKAWVNystrom: &given})
			require.NoError(t, err)
			window, centres := *spec.PKAWVNystrom.HistoryWindow, *spec.PKAWVNystrom.MaxDictionary
			assert.True(t, given.HistoryWindow != nil || window == 8*centres, "a window of %d for %d centres", window, centres)
			l := must(catalog.New(spec))(t)
			samples := modeltest.Samples(11, 2, 1000)
			atWindow := uint64(0)
			for n := range rounds {
				s := &samples[n%len(samples)]
				require.NoError(t, l.Observe(&model.Outcome{}, s.X, []float64{s.Y}, s.Weight))
				require.LessOrEqual(t, l.Size(), cost.StateBytes, n+1)
				if n+1 == window {
					atWindow = l.Size()
				}
			}
			if m := l.Stats().Dictionary; m >= centres {
				t.Errorf("the dictionary is full: nothing is tested")
			} else if size := l.Size(); m == 2 && size > atWindow+atWindow/100 { // KORS keeps a point now and then.
				t.Errorf("%d bytes after %d rounds, %d after %d", size, rounds, atWindow, window)
			}
		})
	}
}
