package bounds_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/model"
	"hindsight/internal/model/bounds"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/modeltest"
)

func create(t *testing.T, s model.Spec) model.Learner {
	t.Helper()
	s, _, err := catalog.Complete(s)
	require.NoError(t, err)
	l, err := catalog.New(s)
	require.NoError(t, err)
	return l
}

func counts() *model.Label { return &model.Label{Min: new(float64), Integer: true} }

// specs are learners with bounds: with a certificate, with forgetting, behind a gate.
func specs() map[string]model.Spec {
	forgetting := 0.97
	return map[string]model.Spec{
		"linear":     {Dimension: 2, Scaling: model.Unscaled(), LinearAWV: &model.LinearAWV{}},
		"warm up":    {Dimension: 2, LinearAWV: &model.LinearAWV{}},
		"forgetting": {Dimension: 2, LinearAWV: &model.LinearAWV{Forgetting: &forgetting}},
		"taylor":     {Dimension: 2, Outputs: 2, PKAWVTaylor: &model.PKAWVTaylor{}},
		"gated":      {Dimension: 2, LabelGate: model.GateOn, LinearAWV: &model.LinearAWV{}},
		"auto":       {Dimension: 2, Auto: &model.Auto{}},
	}
}

func TestConform(t *testing.T) {
	for name, s := range specs() {
		if name == "auto" || name == "warm up" {
			continue // Their memory has suites of its own.
		}
		t.Run(name, func(t *testing.T) {
			s.Label = counts()
			modeltest.Conform(t, modeltest.Subject{
				New: func() model.Learner { return create(t, s) }, Dimension: 2, Outputs: s.Outputs, Warm: 140,
				Label:   func(y float64) float64 { return math.Round(math.Abs(y)) },
				Rejects: func(magnitude float64) bool { return magnitude > model.MaxMagnitude },
			})
		})
	}
}

// naive is the learner without bounds whose predictions the test projects.
type naive struct {
	model.Learner
	loss, saved, discounted float64
}

// Bounds serve the projection of what the learner without them serves, and lose no more: loss,
// regret, certificate and the regret of the report are less by Σ ω((ŷ−y)² − (P(ŷ)−y)²), and the
// bound holds as it is. Some labels are large, so that a gate sets them aside.
func TestBoundsAreProjections(t *testing.T) {
	for name, s := range specs() {
		t.Run(name, func(t *testing.T) {
			s.LabelGate = model.GateOff
			n := naive{Learner: create(t, s)}
			s.Label = counts()
			l, forgetting := create(t, s), 1.0
			if s.LinearAWV != nil && s.LinearAWV.Forgetting != nil {
				forgetting = *s.LinearAWV.Forgetting
			}
			rng := rand.New(rand.NewPCG(3, 4))
			for round := range 600 {
				x := []float64{rng.NormFloat64(), rng.NormFloat64()}
				y := make([]float64, max(s.Outputs, 1))
				for j := range y {
					y[j] = math.Round(math.Exp(x[0] + rng.NormFloat64()/3))
				}
				n.round(t, l, x, y, 0.5+rng.Float64(), forgetting)
				got, want := l.Stats(), n.Stats()
				near(t, round, "loss", got.Loss, n.loss, want.Loss)
				near(t, round, "regret", got.Regret, want.Regret-n.discounted, want.Loss)
				if got.Certified != want.Certified || got.RegretBound != want.RegretBound || !got.CertificateOK || got.HindsightLoss != want.HindsightLoss {
					t.Fatalf("round %d: %+v, want %+v", round, got, want)
				}
				if got.Certified {
					near(t, round, "certificate", got.Certificate, want.Certificate-n.discounted, want.Loss)
				}
				if got.Certified && !(got.Regret <= got.Certificate && got.Certificate <= got.RegretBound) {
					t.Fatalf("round %d: regret %g, certificate %g, bound %g", round, got.Regret, got.Certificate, got.RegretBound)
				}
			}
			if name != "auto" && !(n.saved > 0) { // auto stays within the labels that it learned.
				t.Error("no prediction was below 0: the test tests nothing")
			}
			near(t, 600, "reported regret", l.Report(model.ReportOptions{}).Regret, n.Report(model.ReportOptions{}).Regret-n.discounted, n.loss)
		})
	}
}

func (n *naive) round(t *testing.T, l model.Learner, x, y []float64, weight, forgetting float64) {
	t.Helper()
	var got, want model.Outcome
	var p model.Prediction
	require.NoError(t, errors.Join(l.Predict(&p, x), l.Observe(&got, x, y, weight), n.Observe(&want, x, y, weight)))
	loss, saved := 0.0, 0.0
	for j, v := range want.Predictions {
		shown := math.Max(v, 0)
		require.True(t, got.Predictions[j] == shown, "observes %g, want %g of %g", got.Predictions[j], shown, v)
		near(t, 0, "prediction", p.Values[j], shown, 0)
		loss += weight * (shown - y[j]) * (shown - y[j])
		saved += weight * ((v-y[j])*(v-y[j]) - (shown-y[j])*(shown-y[j]))
	}
	near(t, 0, "loss of the round", got.Loss, loss, 1)
	n.loss += loss
	n.saved += saved
	n.discounted = forgetting*n.discounted + saved
}

func near(t *testing.T, round int, what string, got, want, size float64) {
	t.Helper()
	require.True(t, math.Abs(got-want) <= 1e-9*(1+math.Abs(size)+math.Abs(want)), "round %d: %s %g, want %g", round, what, got, want)
}

// A gate before bounds keeps its comparison on rows that it set aside.
func TestGateBeforeBounds(t *testing.T) {
	s := model.Spec{Dimension: 1, Auto: &model.Auto{}, Label: counts()}
	l := create(t, s)
	rng := rand.New(rand.NewPCG(5, 6))
	var o model.Outcome
	for round := range 1000 {
		x := rng.NormFloat64()
		y := math.Round(math.Exp(x))
		if round == 700 {
			y = 1e9
		}
		require.NoError(t, l.Observe(&o, []float64{x}, []float64{y}, 1))
		require.True(t, o.Predictions[0] >= 0 && (round != 700 || o.SetAside), "round %d: %+v", round, o)
	}
	g := l.Stats().Gate
	assert.True(t, g.Compared && g.SetAside != 0, "%+v", g)
}

func TestRejectedBytes(t *testing.T) {
	s := specs()["linear"]
	s.Label = counts()
	l := create(t, s)
	good := modeltest.State(t, l.Visit)
	require.GreaterOrEqual(t, len(good), int(bounds.OwnBytes/3), "a state of %d bytes", len(good))
	for n := range good {
		assert.Error(t, codec.Read(good[:n], create(t, s).Visit), "%v %v", n, len(good))
	}
}
