package engine_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
)

// slowCopy is a learner whose copy calls copying before it ends.
type slowCopy struct {
	model.Learner
	copying func()
}

func (s slowCopy) AppendBinary(dst []byte) ([]byte, error) {
	s.copying()
	return s.Learner.AppendBinary(dst)
}

// TestPredictBesideACopy: a prediction waits neither for the copy of the state that a report takes, nor for the
// observation that waits for the copy.
func TestPredictBesideACopy(t *testing.T) {
	var reports atomic.Bool
	begun, answered := make(chan struct{}), make(chan struct{})
	learners := func(s model.Spec) (model.Learner, error) {
		l, err := catalog.New(s)
		return slowCopy{l, func() {
			if reports.CompareAndSwap(true, false) {
				close(begun)
				select {
				case <-answered:
				case <-time.After(10 * time.Second):
					t.Error("a prediction waits for the copy of a report")
				}
			}
		}}, err
	}
	h := start(t, withLearners{files{newFS()}, learners}, newClock())
	h.create(t, "m", linear(1))
	h.observe(t, "m", one("0", 1)...)
	reports.Store(true)
	var others sync.WaitGroup
	others.Go(func() { h.stats(t, "m") })
	<-begun
	others.Go(func() { h.observe(t, "m", one("1", 1)...) })
	time.Sleep(50 * time.Millisecond) // The observation waits.
	h.predict(t, "m", 1)
	close(answered)
	others.Wait()
}
