package engine_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"hindsight/internal/engine"
	"hindsight/internal/engine/storage"
)

// A prediction under an id of its caller waits for its commit. Predictions under other ids do not wait for it, and a
// prediction under the same id takes its answer.
func TestChosenIDsWaitForTheirOwnAlone(t *testing.T) {
	h, f := startFaulty(t, files{newFS()}, newClock())
	h.create(t, "m", linear(2))
	f.putting = make(chan []storage.Prediction, 3)
	predict := func(id string) <-chan engine.Prediction {
		answer := make(chan engine.Prediction, 1)
		go func() {
			defer close(answer)
			p, err := h.Predict(t.Context(), "m", vectors([]float64{1, 2}), engine.PredictOptions{Remember: true, IDs: []string{id}})
			if err != nil {
				t.Error(err)
				return
			}
			answer <- p[0]
		}()
		return answer
	}
	put := func(id string) {
		t.Helper()
		rows := <-f.putting
		assert.True(t, len(rows) == 1 && rows[0].ID == id, "%+v is stored, want prediction %q", rows, id)
	}
	a := predict("a")
	put("a")
	again := predict("a")
	b := predict("b")
	put("b")
	close(f.goOn)
	for id, answer := range map[string]<-chan engine.Prediction{"a": a, "b": b} {
		p := <-answer
		assert.Equal(t, id, p.ID, "prediction has the id")
	}
	p := <-again
	assert.Equal(t, "a", p.ID, "prediction a again has the id")
	assert.Equal(t, 0, len(f.putting), "more predictions are stored")
}
