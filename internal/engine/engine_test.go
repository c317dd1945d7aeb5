package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"hindsight/internal/engine"
	"hindsight/internal/model"
)

func TestCreateIsIdempotentBySpec(t *testing.T) { onBackends(t, testCreateIsIdempotentBySpec) }

func testCreateIsIdempotentBySpec(t *testing.T, newDisk func() disk) {
	t.Helper()
	h := start(t, newDisk(), newClock())
	first, err := h.CreateModel(context.Background(), "a", taylor(2, 3))
	if err != nil {
		t.Fatal(err)
	}
	if first.Spec.PKAWVTaylor.Lambda == nil || *first.Spec.PKAWVTaylor.Lambda != 0.1 {
		t.Errorf("defaults are not filled in: %+v", first.Spec.PKAWVTaylor)
	}
	again, err := h.CreateModel(context.Background(), "a", taylor(2, 3))
	if err != nil || !reflect.DeepEqual(again, first) {
		t.Errorf("the same again: %+v, %v", again, err)
	}
	if _, err := h.CreateModel(context.Background(), "a", taylor(2, 4)); !errors.Is(err, engine.ErrModelExists) {
		t.Errorf("another spec: %v", err)
	}
	for _, id := range []string{"", "A", "-a", "a/b", "a b", strings.Repeat("a", 64)} {
		if _, err := h.CreateModel(context.Background(), id, linear(1)); !errors.Is(err, engine.ErrInvalidID) {
			t.Errorf("id %q: %v", id, err)
		}
	}
}

func TestPredictThenObserve(t *testing.T) { onBackends(t, testPredictThenObserve) }

func testPredictThenObserve(t *testing.T, newDisk func() disk) {
	t.Helper()
	h := start(t, newDisk(), newClock())
	h.create(t, "m", linear(2))
	h.observe(t, "m", engine.Observation{Features: []float64{1, 0}, Labels: []float64{2}})
	p := h.predict(t, "m", 1, 0.5)
	if p.ID == "" || p.Sequence != 1 || p.Values[0] == 0 {
		t.Fatalf("prediction %+v", p)
	}
	if got := h.stats(t, "m").Pending; got != 1 {
		t.Errorf("%d labels pending, want 1", got)
	}
	a := h.observe(t, "m", engine.Observation{PredictionID: p.ID, Labels: []float64{0}})[0]
	if a.Sequence != 2 || a.Duplicate || !a.Served || a.ServedPredictions[0] != p.Values[0] {
		t.Errorf("answer %+v", a)
	}
	if math.Abs(a.Predictions[0]-p.Values[0]) > 1e-14 || math.Abs(a.Loss-p.Values[0]*p.Values[0]) > 1e-14 || a.ServedLoss != p.Values[0]*p.Values[0] {
		t.Errorf("answer %+v of prediction %+v", a, p)
	}
	s := h.stats(t, "m")
	if s.Observations != 2 || s.Pending != 0 || s.Predicted != 1 || !s.CertificateOK || s.Regret != a.Regret {
		t.Errorf("stats %+v", s)
	}
}

func TestObservingTwiceLearnsOnce(t *testing.T) { onBackends(t, testObservingTwiceLearnsOnce) }

func testObservingTwiceLearnsOnce(t *testing.T, newDisk func() disk) {
	t.Helper()
	h := start(t, newDisk(), newClock())
	h.create(t, "m", linear(1))
	p := h.predict(t, "m", 2)
	byPrediction := engine.Observation{PredictionID: p.ID, Labels: []float64{3}}
	byFeatures := engine.Observation{Features: []float64{4}, ObservationID: "o-1", Labels: []float64{5}}
	for _, o := range []engine.Observation{byPrediction, byFeatures} {
		first := h.observe(t, "m", o)[0]
		second := h.observe(t, "m", o)[0]
		if first.Duplicate || !second.Duplicate {
			t.Errorf("duplicate %v, then %v", first.Duplicate, second.Duplicate)
		}
		if second.Duplicate = false; fmt.Sprint(second) != fmt.Sprint(first) { // The recent figures of the first are NaN.
			t.Errorf("the retry is answered %+v, first %+v", second, first)
		}
	}
	// A prediction's label may also come with its features.
	o := engine.Observation{Features: []float64{2}, ObservationID: p.ID, Labels: []float64{3}}
	if a := h.observe(t, "m", o)[0]; !a.Duplicate {
		t.Errorf("by features: %+v", a)
	}
	if got := h.stats(t, "m").Observations; got != 2 {
		t.Errorf("%d observations, want 2", got)
	}
}

func TestSameIDOtherContentIsRejected(t *testing.T) { onBackends(t, testSameIDOtherContentIsRejected) }

func testSameIDOtherContentIsRejected(t *testing.T, newDisk func() disk) {
	t.Helper()
	h := start(t, newDisk(), newClock())
	h.create(t, "m", linear(1))
	p := h.predict(t, "m", 2)
	h.observe(t, "m", engine.Observation{PredictionID: p.ID, Labels: []float64{3}})
	h.observe(t, "m", engine.Observation{Features: []float64{1}, ObservationID: "o", Labels: []float64{3}})
	waiting := h.predict(t, "m", 7)
	before := h.stats(t, "m").Digest
	for name, o := range map[string]engine.Observation{
		"label by prediction": {PredictionID: p.ID, Labels: []float64{4}, Weight: 1},
		"weight":              {PredictionID: p.ID, Labels: []float64{3}, Weight: 2},
		"label by features":   {Features: []float64{1}, ObservationID: "o", Labels: []float64{4}, Weight: 1},
		"features":            {Features: []float64{2}, ObservationID: "o", Labels: []float64{3}, Weight: 1},
		"features of waiting": {Features: []float64{8}, ObservationID: waiting.ID, Labels: []float64{3}, Weight: 1},
	} {
		if _, err := h.Observe(context.Background(), "m", []engine.Observation{o}); !errors.Is(err, engine.ErrConflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if h.stats(t, "m").Digest != before {
		t.Error("a rejected observation changed the state")
	}
}

func TestBatchIsAtomicAndInOrder(t *testing.T) { onBackends(t, testBatchIsAtomicAndInOrder) }

func testBatchIsAtomicAndInOrder(t *testing.T, newDisk func() disk) {
	t.Helper()
	h := start(t, newDisk(), newClock())
	h.create(t, "batch", taylor(1, 4))
	h.create(t, "single", taylor(1, 4))
	rng := rand.New(rand.NewPCG(1, 2))
	var rows []engine.Observation
	for n := range 20 {
		rows = append(rows, engine.Observation{
			Features: []float64{rng.NormFloat64()}, Labels: []float64{rng.NormFloat64()},
			ObservationID: fmt.Sprint("o", n), Weight: 1 + float64(n%2),
		})
	}
	// The same row twice is learned once, at its first place.
	rows = append(rows, rows[3])
	answers := h.observe(t, "batch", rows...)
	for n, r := range rows {
		single := h.observe(t, "single", r)[0]
		if fmt.Sprint(single) != fmt.Sprint(answers[n]) { // The recent figures of the first are NaN.
			t.Errorf("row %d: %+v in the batch, %+v alone", n, answers[n], single)
		}
	}
	if last := answers[20]; !last.Duplicate || last.Sequence != 4 {
		t.Errorf("the repeated row: %+v", last)
	}
	if a, b := h.stats(t, "batch"), h.stats(t, "single"); a.Digest != b.Digest {
		t.Error("the batch learned another state than its rows")
	}
	// One bad row rejects all, and names itself.
	before := h.stats(t, "batch").Digest
	bad := []engine.Observation{
		{Features: []float64{1}, ObservationID: "new", Labels: []float64{1}, Weight: 1},
		{PredictionID: "unknown", Labels: []float64{1}, Weight: 1},
	}
	_, err := h.Observe(context.Background(), "batch", bad)
	var row *engine.RowError
	if !errors.Is(err, engine.ErrPredictionNotFound) || !errors.As(err, &row) || row.Row != 1 {
		t.Errorf("bad row: %v", err)
	}
	if h.stats(t, "batch").Digest != before {
		t.Error("a rejected batch changed the state")
	}
	// The good row's id is still free.
	if a := h.observe(t, "batch", bad[0])[0]; a.Duplicate {
		t.Errorf("the id of a rejected row stands: %+v", a)
	}
}

func TestBadObservationsAreRejected(t *testing.T) { onBackends(t, testBadObservationsAreRejected) }

func testBadObservationsAreRejected(t *testing.T, newDisk func() disk) {
	t.Helper()
	h := start(t, newDisk(), newClock())
	h.create(t, "m", taylor(2, 2))
	p := h.predict(t, "m", 1, 2)
	before := h.stats(t, "m")
	one := []float64{1}
	for name, c := range map[string]struct {
		o    engine.Observation
		want error
	}{
		"dimension":       {engine.Observation{Features: []float64{1}, Weight: 1}, model.ErrDimensionMismatch},
		"no features":     {engine.Observation{Weight: 1}, model.ErrDimensionMismatch},
		"NaN feature":     {engine.Observation{Features: []float64{1, math.NaN()}, Weight: 1}, model.ErrNotFinite},
		"infinite label":  {engine.Observation{Features: []float64{1, 2}, Labels: []float64{math.Inf(1)}, Weight: 1}, model.ErrNotFinite},
		"huge label":      {engine.Observation{PredictionID: p.ID, Labels: []float64{1e101}, Weight: 1}, model.ErrLabelOutOfRange},
		"weight":          {engine.Observation{PredictionID: p.ID, Labels: one, Weight: -1}, model.ErrWeightOutOfRange},
		"both":            {engine.Observation{PredictionID: p.ID, Features: []float64{1, 2}, Weight: 1}, engine.ErrInvalidRequest},
		"two ids":         {engine.Observation{PredictionID: p.ID, ObservationID: "o", Weight: 1}, engine.ErrInvalidRequest},
		"long id":         {engine.Observation{Features: []float64{1, 2}, ObservationID: strings.Repeat("x", 129), Weight: 1}, engine.ErrInvalidID},
		"unknown id":      {engine.Observation{PredictionID: "nobody", Labels: one, Weight: 1}, engine.ErrPredictionNotFound},
		"unknown, NaN":    {engine.Observation{PredictionID: "nobody", Labels: []float64{math.NaN()}, Weight: 1}, model.ErrNotFinite},
		"weight infinite": {engine.Observation{Features: []float64{1, 2}, Labels: one, Weight: math.Inf(1)}, model.ErrWeightOutOfRange},
		"no label":        {engine.Observation{PredictionID: p.ID, Weight: 1}, model.ErrDimensionMismatch},
	} {
		if _, err := h.Observe(context.Background(), "m", []engine.Observation{c.o}); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if after := h.stats(t, "m"); !reflect.DeepEqual(after, before) {
		t.Errorf("rejected observations changed the model: %+v, before %+v", after, before)
	}
	if _, err := h.Predict(context.Background(), "m", vectors([]float64{1, 2}, []float64{1}), engine.PredictOptions{}); !errors.Is(err, model.ErrDimensionMismatch) {
		t.Errorf("predict: %v", err)
	}
	if _, err := h.Predict(context.Background(), "nobody", nil, engine.PredictOptions{}); !errors.Is(err, engine.ErrModelNotFound) {
		t.Errorf("predict: %v", err)
	}
}

func TestChosenPredictionIDs(t *testing.T) { onBackends(t, testChosenPredictionIDs) }

func testChosenPredictionIDs(t *testing.T, newDisk func() disk) {
	t.Helper()
	h := start(t, newDisk(), newClock())
	h.create(t, "m", linear(1))
	predict := func(x float64) (engine.Prediction, error) {
		p, err := h.Predict(context.Background(), "m", vectors([]float64{x}), engine.PredictOptions{Remember: true, IDs: []string{"mine"}})
		if err != nil {
			return engine.Prediction{}, err
		}
		return p[0], nil
	}
	first, err := predict(1)
	if err != nil || first.ID != "mine" {
		t.Fatal(first, err)
	}
	h.observe(t, "m", engine.Observation{Features: []float64{1}, Labels: []float64{9}})
	again, err := predict(1)
	if err != nil || !reflect.DeepEqual(again, first) {
		t.Errorf("a retried Predict answers %+v, %v; first %+v", again, err, first)
	}
	if _, err := predict(2); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("other features: %v", err)
	}
	h.observe(t, "m", engine.Observation{PredictionID: "mine", Labels: []float64{1}})
	if _, err := predict(1); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("after its label: %v", err)
	}
}

func TestLateLabels(t *testing.T) { onBackends(t, testLateLabels) }

func testLateLabels(t *testing.T, newDisk func() disk) {
	t.Helper()
	c := newClock()
	h := start(t, newDisk(), c)
	h.create(t, "m", linear(1))
	early, late := h.predict(t, "m", 1), h.predict(t, "m", 2)
	// Out of order is normal.
	h.observe(t, "m", engine.Observation{PredictionID: late.ID, Labels: []float64{1}})
	c.advance(2 * time.Hour)
	o := engine.Observation{PredictionID: early.ID, Labels: []float64{1}, Weight: 1}
	if _, err := h.Observe(context.Background(), "m", []engine.Observation{o}); !errors.Is(err, engine.ErrPredictionNotFound) {
		t.Errorf("after expiry: %v", err)
	}
	if h.Sweep(); h.stats(t, "m").Pending > 0 {
		t.Error("the expired prediction is still counted")
	}
	a := h.observe(t, "m", engine.Observation{Features: []float64{1}, ObservationID: early.ID, Labels: []float64{1}})[0]
	if a.Duplicate || a.Served || a.Sequence != 2 {
		t.Errorf("with its features: %+v", a)
	}
}

func TestLimits(t *testing.T) { onBackends(t, testLimits) }

func testLimits(t *testing.T, newDisk func() disk) {
	t.Helper()
	h := start(t, newDisk(), newClock(), func(o *engine.Options) { o.PendingLimit = 2 })
	h.create(t, "m", linear(1))
	h.predict(t, "m", 1)
	named := engine.PredictOptions{Remember: true, IDs: []string{"x"}}
	must(h.Predict(context.Background(), "m", vectors([]float64{1}), named))(t)
	_, err := h.Predict(context.Background(), "m", vectors([]float64{1}), engine.PredictOptions{Remember: true})
	if !errors.Is(err, engine.ErrPendingLimit) {
		t.Errorf("a third: %v", err)
	}
	if _, err := h.Predict(context.Background(), "m", vectors([]float64{1}), named); err != nil {
		t.Errorf("a retry of the second, which adds nothing: %v", err)
	}
	if _, err := h.Predict(context.Background(), "m", vectors([]float64{1}), engine.PredictOptions{}); err != nil {
		t.Errorf("not remembered: %v", err)
	}
}

// A learner that takes only so many observations rejects the rest, also those
// that were accepted while there was room, and what is logged is learnable.
func TestObservationLimit(t *testing.T) { onBackends(t, testObservationLimit) }

func testObservationLimit(t *testing.T, newDisk func() disk) {
	t.Helper()
	fs, c := newDisk(), newClock()
	h := start(t, fs, c)
	h.create(t, "m", model.Spec{Dimension: 1, Scaling: model.Unscaled(), KernelAWV: &model.KernelAWV{MaxObservations: ptr(50)}})
	var tickets []*engine.Ticket
	for n := range 40 {
		var rows []engine.Observation
		for k := range 3 {
			rows = append(rows, engine.Observation{Features: []float64{float64(n)}, Labels: []float64{float64(k)}, Weight: 1})
		}
		ticket, err := h.Submit(context.Background(), "m", rows)
		if err == nil {
			tickets = append(tickets, ticket)
		} else if !errors.Is(err, model.ErrObservationLimit) {
			t.Fatal(err)
		}
	}
	learned := 0
	for _, ticket := range tickets {
		answers, err := ticket.Wait(context.Background())
		if err != nil && !errors.Is(err, model.ErrObservationLimit) {
			t.Fatal(err)
		}
		learned += len(answers)
	}
	if want := h.stats(t, "m"); learned != 48 || want.Observations != 48 {
		t.Errorf("%d answered, %d learned, want 48", learned, want.Observations)
	}
	want := h.stats(t, "m").Digest
	h.stop(t)
	if got := start(t, fs, c).stats(t, "m").Digest; got != want {
		t.Error("recovered to another state")
	}
}

func TestListAndDelete(t *testing.T) { onBackends(t, testListAndDelete) }

func testListAndDelete(t *testing.T, newDisk func() disk) {
	t.Helper()
	fs, c := newDisk(), newClock()
	h := start(t, fs, c)
	for _, id := range []string{"b2", "a", "b1", "c"} {
		h.create(t, id, linear(1))
	}
	p := h.predict(t, "b1", 1)
	h.observe(t, "b1", engine.Observation{Features: []float64{1}, ObservationID: "o", Labels: []float64{1}})
	ids := func(prefix, after string, limit int) string {
		var out []string
		models := must(h.ListModels(prefix, after, limit))(t)
		for _, i := range models {
			out = append(out, i.ID)
		}
		return strings.Join(out, " ")
	}
	if got := ids("", "", 10) + "|" + ids("b", "", 1) + "|" + ids("b", "b1", 9); got != "a b1 b2 c|b1|b2" {
		t.Errorf("lists %q", got)
	}
	noError(t, h.DeleteModel(context.Background(), "b1"))
	if err := h.DeleteModel(context.Background(), "b1"); !errors.Is(err, engine.ErrModelNotFound) {
		t.Errorf("twice: %v", err)
	}
	// Its successor knows nothing of it.
	h.create(t, "b1", linear(1))
	if s := h.stats(t, "b1"); s.Observations != 0 || s.Pending != 0 {
		t.Errorf("the new model starts with %+v", s)
	}
	o := engine.Observation{PredictionID: p.ID, Labels: []float64{1}, Weight: 1}
	if _, err := h.Observe(context.Background(), "b1", []engine.Observation{o}); !errors.Is(err, engine.ErrPredictionNotFound) {
		t.Errorf("an id of the old model: %v", err)
	}
	if a := h.observe(t, "b1", engine.Observation{Features: []float64{1}, ObservationID: "o", Labels: []float64{1}})[0]; a.Duplicate {
		t.Error("an observation id of the old model stands")
	}
	h.stop(t)
	again := start(t, fs, c)
	if got := again.stats(t, "b1").Observations; got != 1 {
		t.Errorf("after a restart: %d observations, want 1", got)
	}
}

func TestClosedEngineRejects(t *testing.T) { onBackends(t, testClosedEngineRejects) }

func testClosedEngineRejects(t *testing.T, newDisk func() disk) {
	t.Helper()
	h := start(t, newDisk(), newClock())
	h.create(t, "m", linear(1))
	h.stop(t)
	o := engine.Observation{Features: []float64{1}, Weight: 1}
	if _, err := h.Observe(context.Background(), "m", []engine.Observation{o}); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("observe: %v", err)
	}
	if _, err := h.CreateModel(context.Background(), "n", linear(1)); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("create: %v", err)
	}
}
