package engine_test

import (
	"testing"

	"hindsight/internal/engine"
)

// A prediction under an id of its caller waits for its commit. Predictions under other ids do not wait for it, and a
// prediction under the same id takes its answer.
func TestChosenIDsWaitForTheirOwnAlone(t *testing.T) {
	s := startServers(t, 2)
	owner := s.move(0)
	owner.host.create(t, "m", linear(2))
	s.settle()
	s.mu.Lock()
	before := len(s.mu.log)
	s.mu.Unlock()
	owner.pause(true)
	predict := func(id string) <-chan engine.Prediction {
		answer := make(chan engine.Prediction, 1)
		go func() {
			defer close(answer)
			p, err := owner.host.Predict(t.Context(), "m", vectors([]float64{1, 2}), engine.PredictOptions{Remember: true, IDs: []string{id}})
			if err != nil {
				t.Error(err)
				return
			}
			answer <- p[0]
		}()
		return answer
	}
	a := predict("a")
	s.commands(before + 1)
	again := predict("a")
	b := predict("b")
	s.commands(before + 2)
	owner.pause(false)
	for id, answer := range map[string]<-chan engine.Prediction{"a": a, "b": b} {
		if p := <-answer; p.ID != id {
			t.Errorf("prediction %q has the id %q", id, p.ID)
		}
	}
	if p := <-again; p.ID != "a" {
		t.Errorf("prediction a again has the id %q", p.ID)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := len(s.mu.log) - before; got != 2 {
		t.Errorf("the log has %d commands, want 2", got)
	}
}
