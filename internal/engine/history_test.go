package engine_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"hindsight/internal/engine"
	past "hindsight/internal/engine/account/history"
	"hindsight/internal/model"
	"hindsight/internal/model/codec"
)

func (h *host) history(t *testing.T) engine.History {
	t.Helper()
	return must(h.ModelHistory(context.Background(), "m"))(t)
}

// learn lets the model m learn observations in batches, an hour after one another.
// From the half on the labels are others by much.
func learn(t *testing.T, h *host, from, to int) {
	t.Helper()
	const batch = 25
	for ; from < to; from += batch {
		rows := make([]engine.Observation, min(batch, to-from))
		for n := range rows {
			rng := rand.New(rand.NewPCG(uint64(from+n), 9))
			x := []float64{rng.NormFloat64(), rng.NormFloat64()}
			y := x[0] + 0.1*rng.NormFloat64()
			if (from+n)%1500 >= 750 {
				y *= 30
			}
			rows[n] = engine.Observation{Features: x, Labels: []float64{y}, Weight: 1, ObservationID: fmt.Sprint("o-", from+n)}
		}
		h.observe(t, "m", rows...)
		h.clock.advance(time.Hour)
	}
}

// A classifier has its errors and scores, and no baselines of losses.
func TestHistoryOfClasses(t *testing.T) {
	h := start(t, files{newFS()}, newClock())
	h.create(t, "m", model.Spec{Dimension: 2, Classes: &model.Classes{MaxClasses: ptr(3)}, RLSC: &model.RLSC{}})
	rng := rand.New(rand.NewPCG(2, 3))
	for range 700 {
		class := rng.IntN(3)
		h.observe(t, "m", engine.Observation{Features: cluster(rng, class), Class: strconv.Itoa(class), Weight: 1})
	}
	errs, logLoss, loss := 0.0, 0.0, 0.0
	for _, p := range h.history(t).Points {
		errs, logLoss, loss = errs+p.Classes.Served.Errors, logLoss+p.Classes.Prequential.LogLoss, loss+p.Performance.Served.Loss
	}
	s := h.stats(t, "m")
	if whole := s.ClassAccount.Whole; errs != whole.Served.Errors || math.Abs(logLoss-whole.Prequential.LogLoss) > 1e-5*logLoss || math.Abs(loss-s.Whole.Served.Loss) > 1e-5*loss {
		t.Errorf("%g errors, log-loss %g, loss %g; want %+v, %+v", errs, logLoss, loss, whole, s.Whole)
	}
}

// A history that is not that of its model is rejected with its snapshot.
func TestForeignHistoryIsRejected(t *testing.T) {
	h := start(t, files{newFS()}, newClock())
	h.create(t, "m", linear(2))
	learn(t, h, 0, 50)
	data := must(h.ExportModel(t.Context(), "m", engine.ExportOptions{WithoutIDs: true}))(t)
	for what, kept := range map[string][]byte{
		"nothing": {}, "noise": {1, 2, 3}, "of another sequence": past.New(past.Shape{}, 7, nil).Append(nil),
		"of classes": past.New(past.Shape{Classes: true}, 50, nil).Append(nil),
	} {
		snapshot := must(codec.Decode(data))(t)
		snapshot.History = kept
		bad := must(codec.Encode(snapshot))(t)
		_, err := h.ImportModel(t.Context(), "other", bad)
		assert.ErrorIs(t, err, engine.ErrInvalidRequest, what)
	}
}
