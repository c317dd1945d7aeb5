package engine_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"hindsight/internal/engine"
	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/modeltest"
)

// competitors are the learners with every loss and every option that changes a guarantee.
func competitors() map[string]model.Spec {
	yes, two := true, 2
	gaussian := &model.Kernel{Kind: "gaussian", Sigma: ptr(1.0)}
	few, kept, lambda := 10, 20, 0.3
	ridges := model.Ridges{Lambdas: []float64{0.1, 1, 10}}
	first := func(loss string) model.FirstOrder {
		return model.FirstOrder{Frequencies: &few, TrackRegret: ptr(loss == ""), Loss: loss}
	}
	steps := func(loss string) model.NewtonSteps {
		n := model.NewtonSteps{Kernel: gaussian, Loss: loss}
		if loss == model.LossSquared {
			n.Range = []float64{-14, 14}
		}
		return n
	}
	specs := map[string]model.Spec{
		"linear_awv":      {LinearAWV: &model.LinearAWV{}},
		"label_bounds":    {LinearAWV: &model.LinearAWV{}, Label: &model.Label{Min: ptr(-1e30)}},
		"label_gate":      {LinearAWV: &model.LinearAWV{}, LabelGate: model.GateOn},
		"outputs":         {LinearAWV: &model.LinearAWV{}, Outputs: 2},
		"lambdas":         {LinearAWV: &model.LinearAWV{Ridges: ridges}},
		"pkawv_taylor":    {PKAWVTaylor: &model.PKAWVTaylor{Sigma: gaussian.Sigma, Degree: &two, Lambda: &lambda}},
		"mix_degrees":     {PKAWVTaylor: &model.PKAWVTaylor{Sigma: gaussian.Sigma, Degree: &two, MixDegrees: &yes}},
		"pkawv_nystrom":   {PKAWVNystrom: &model.PKAWVNystrom{Kernel: gaussian, MaxDictionary: &kept}},
		"history_full":    {PKAWVNystrom: &model.PKAWVNystrom{Kernel: gaussian, MaxDictionary: &kept, History: model.HistoryFull}},
		"history_window":  {PKAWVNystrom: &model.PKAWVNystrom{Kernel: gaussian, MaxDictionary: &kept, History: model.HistoryWindow, HistoryWindow: &kept}},
		"mix_sizes":       {PKAWVNystrom: &model.PKAWVNystrom{Kernel: gaussian, MaxDictionary: &kept, MixSizes: &yes}},
		"fourier_awv":     {FourierAWV: &model.FourierAWV{Kernel: gaussian, Frequencies: &few}},
		"fourier_ridges":  {FourierAWV: &model.FourierAWV{Kernel: gaussian, Frequencies: &few, Ridges: ridges}},
		"semiparametric":  {SemiparametricAWV: &model.SemiparametricAWV{Kernel: gaussian, Frequencies: &few, Parametric: []int{0}}},
		"stages":          {SemiparametricAWV: &model.SemiparametricAWV{Kernel: gaussian, Frequencies: &few, Parametric: []int{0}, Stages: &two}},
		"shared_stages":   {SemiparametricAWV: &model.SemiparametricAWV{Kernel: gaussian, Frequencies: &few, Parametric: []int{0}, Stages: &two, SharedParameters: &yes}},
		"kernel_awv":      {KernelAWV: &model.KernelAWV{Kernel: gaussian}},
		"fourier_tracked": {FourierKONS: &model.FourierKONS{NewtonSteps: model.NewtonSteps{Kernel: gaussian}, Frequencies: &few, TrackRegret: &yes}},
		"rlsc":            {RLSC: &model.RLSC{}},
		"rlsc_ridges":     {RLSC: &model.RLSC{Ridges: ridges}},
		"auto":            {Auto: &model.Auto{}},
		"auto_classes":    {Auto: &model.Auto{}, Classes: &model.Classes{MaxClasses: ptr(5)}},
	}
	for _, loss := range []string{"", model.LossLogistic, model.LossHinge} {
		specs["fogd_"+loss] = model.Spec{FOGD: &model.FOGD{Kernel: gaussian, FirstOrder: first(loss)}}
		specs["raker_"+loss] = model.Spec{Raker: &model.Raker{FirstOrder: first(loss)}}
		ada := &model.AdaRaker{Raker: model.Raker{FirstOrder: first(loss)}}
		if loss == "" {
			ada.TrackSwitches = &yes
		}
		specs["ada_raker_"+loss] = model.Spec{AdaRaker: ada}
	}
	for _, loss := range []string{model.LossSquared, model.LossLogistic, model.LossHinge, model.LossSquaredHinge} {
		specs["fourier_kons_"+loss] = model.Spec{FourierKONS: &model.FourierKONS{NewtonSteps: steps(loss), Frequencies: &few}}
		specs["pros_n_kons_"+loss] = model.Spec{ProsNKONS: &model.ProsNKONS{NewtonSteps: steps(loss), MaxDictionary: &kept}}
		specs["kons_"+loss] = model.Spec{KONS: &model.KONS{NewtonSteps: steps(loss)}}
	}
	return specs
}

// game is a stream that an adversary makes for a model, and exact kernel_awv on the same moves.
type game struct {
	*testing.T
	h     *host
	spec  model.Spec
	rng   *rand.Rand
	exact model.Learner
	moves [][]float64
	// waiting are the predictions whose labels, late rounds later, come next.
	waiting []engine.Observation
	// comparisons counts what check compared.
	comparisons int
}

func newGame(t *testing.T, spec model.Spec, scaling *model.Scaling) *game {
	t.Helper()
	g := &game{T: t, h: start(t, files{newFS()}, newClock()), rng: rand.New(rand.NewPCG(39, 5))}
	if spec.Dimension = 2; spec.Auto == nil {
		spec.Scaling = scaling
	}
	g.h.create(t, "m", spec)
	var err error
	g.spec, _, err = catalog.Complete(spec)
	require.NoError(t, err)
	exact := &model.KernelAWV{Kernel: &model.Kernel{Kind: "gaussian", Sigma: ptr(1.0)}}
	switch {
	case g.spec.PKAWVTaylor != nil:
		exact.Lambda = g.spec.PKAWVTaylor.Lambda
	case g.spec.PKAWVNystrom != nil:
		exact.Lambda = g.spec.PKAWVNystrom.Lambda
	}
	g.exact = newLearner(t, model.Spec{Dimension: 2, Scaling: scaling, KernelAWV: exact})
	return g
}

// adversaries choose the input, the label and the weight of round n.
func adversaries() map[string]func(g *game, n int) (x []float64, y, weight float64) {
	return map[string]func(g *game, n int) ([]float64, float64, float64){
		// The adversary of PKAWV, HAL 2019, §5, of package adversary in research, without its local searches.
		"greedy": func(g *game, _ int) (best []float64, y, _ float64) {
			most, pool := math.Inf(-1), slices.Clone(g.moves[max(0, len(g.moves)-4):])
			for k := range 6 {
				x := []float64{2*g.rng.Float64() - 1, 2*g.rng.Float64() - 1}
				if k%2 == 1 {
					x = []float64{math.Copysign(1, x[0]), math.Copysign(1, x[1])}
				}
				pool = append(pool, x)
			}
			var p model.Prediction
			for _, x := range pool {
				require.NoError(g, g.exact.Predict(&p, x))
				said, share := g.say(x), 1-p.Leverage
				for _, label := range []float64{-1, 1} {
					miss, left := label-said, label-p.Values[0]/share
					if gain := miss*miss - share*left*left; gain > most {
						best, y, most = x, label, gain
					}
				}
			}
			return best, y, 1
		},
		"switching": func(g *game, n int) ([]float64, float64, float64) {
			x := []float64{g.rng.NormFloat64(), g.rng.NormFloat64()}
			if n%7 == 3 {
				x = g.moves[n-1]
			}
			y := math.Sin(2*x[0]) - x[1]
			if n/40%2 == 1 {
				y = -y
			}
			if n%11 == 5 {
				y *= 3
			}
			return x, y, 1
		},
		"weights": func(g *game, n int) ([]float64, float64, float64) {
			x := []float64{g.rng.NormFloat64(), g.rng.NormFloat64()}
			return x, -math.Copysign(3, g.say(x)), math.Exp(g.rng.NormFloat64()) * float64(1+n%2)
		},
		"growing": func(g *game, n int) ([]float64, float64, float64) {
			x := []float64{math.Sin(float64(n * n)), math.Cos(float64(n))}
			return x, -math.Copysign(1e-3*math.Pow(1.2, float64(n)), g.say(x)), 1
		},
		"collinear": func(g *game, n int) ([]float64, float64, float64) {
			v := math.Pow(10, float64(n%9-6)) * float64(1-2*(n%2))
			return []float64{v, 2 * v}, math.Copysign(1, g.rng.NormFloat64()), 1
		},
	}
}

// say is what the model predicts; of classes 0.
func (g *game) say(x []float64) float64 {
	if p := must(g.h.Predict(g.Context(), "m", vectors(x), engine.PredictOptions{}))(g); len(p[0].Values) > 0 {
		return p[0].Values[0]
	}
	return 0
}

// newton are the steps of a learner by online Newton steps, nil of another learner.
func (g *game) newton() *model.NewtonSteps {
	switch s := &g.spec; {
	case s.FourierKONS != nil:
		return &s.FourierKONS.NewtonSteps
	case s.ProsNKONS != nil:
		return &s.ProsNKONS.NewtonSteps
	case s.KONS != nil:
		return &s.KONS.NewtonSteps
	}
	return nil
}

// play plays a move; the label comes late rounds later.
func (g *game) play(x []float64, y, weight float64, late int) {
	g.moves = append(g.moves, x)
	if g.spec.Classes == nil && !g.spec.SquaredLoss() {
		y = math.Copysign(1, y)
	}
	if s := g.newton(); s != nil && s.Range != nil {
		y = math.Max(s.Range[0], math.Min(s.Range[1], y))
	}
	o := engine.Observation{Features: x, Labels: []float64{y}, Weight: weight}
	if g.spec.Outputs == 2 {
		o.Labels = append(o.Labels, y*x[0])
	}
	if g.spec.Classes != nil {
		o.Class, o.Labels = strconv.Itoa(int(math.Mod(math.Abs(3*y), 5))), nil
	}
	if late > 0 {
		p := must(g.h.Predict(g.Context(), "m", vectors(x), engine.PredictOptions{Remember: true}))(g)
		o.Features, o.PredictionID = nil, p[0].ID
	}
	if g.waiting = append(g.waiting, o); len(g.waiting) > late {
		g.h.observe(g.T, "m", g.waiting[0])
		g.waiting = g.waiting[1:]
	}
	var out model.Outcome
	require.NoError(g, g.exact.Observe(&out, x, []float64{y}, weight))
}

// least fails unless a ≤ b up to the rounding of sums of a size.
func (g *game) least(what string, a, b, size float64) {
	g.Helper()
	if g.comparisons++; !(a <= b+1e-8*size) {
		g.Errorf("%s: %g > %g, loss %g", what, a, b, size)
	}
}

// check compares the figures of a state.
func (g *game) check(s *engine.Stats, late int) {
	g.Helper()
	size := s.Loss + s.Served.Loss + math.Abs(s.HindsightLoss)
	if math.IsNaN(size) {
		size = s.Loss + s.Served.Loss
	}
	if s.Certified {
		g.least("certificate, guarantee", s.Certificate, s.RegretBound, size)
	}
	certificate := s.KnownCertificate
	if math.IsNaN(certificate) {
		certificate = math.Inf(1)
	}
	if !s.CertificateOK {
		g.Error("the state is said to be corrupt")
	}
	if g.newton() == nil && !math.IsNaN(s.Regret) { // Their comparator without a cut has no bound.
		g.least("regret, certificate", s.Regret, certificate, size)
		if certificate < math.Inf(1) {
			g.least("served regret, served certificate", s.ServedRegret, s.ServedCertificate, size)
		}
	}
	if r := s.RegretRKHS; r != nil && !math.IsNaN(*r) {
		g.least("regret, in the space of the kernel", s.Regret, *r, size)
		if g.spec.KernelAWV != nil {
			g.least("regret in the space of the kernel, certificate", *r, certificate, size)
		}
		if best := g.exact.Stats().HindsightLoss; late == 0 && !math.IsNaN(best) {
			g.least("regret of kernel_awv's best function", s.Loss-best, *r, size)
		}
	}
	for m, r := range s.SwitchingRegret {
		g.least("regret of fewer switches", s.SwitchingRegret[max(0, m-1)], r, size)
		if m == 0 && math.Abs(r-s.Regret) > 1e-8*size {
			g.Errorf("regret %g, without switches %g", s.Regret, r)
		}
	}
	for m, l := range s.HindsightPath {
		g.least("loss in hindsight of more features", l, s.HindsightPath[max(0, m-1)], size)
	}
	if l := s.LogLoss; l != nil {
		g.least("regret of the log loss, bound", l.Regret, l.Bound, l.Loss)
	}
	warmed := g.spec.SemiparametricAWV != nil && g.spec.SemiparametricAWV.Stages != nil && g.spec.Scaling.None == nil
	for k, w := range s.RecentRegret {
		g.least("gap", w.Gap, 1e-8*w.Loss, 0)
		if k < len(s.RecentRegret)-1 || s.Gate.SetAside > 0 || g.spec.Auto != nil || warmed {
			continue
		}
		if uint64(w.Rounds) != s.Observations || math.Abs(w.Loss-s.Loss) > 1e-9*s.Loss {
			g.Errorf("window %+v, %d rounds, loss %g", w, s.Observations, s.Loss)
		}
		cut := s.Certified && g.newton() != nil
		// Rows of a warm-up have the features of its end: more than the learner had.
		moved := (g.spec.PKAWVNystrom != nil || g.spec.ProsNKONS != nil) && g.spec.Scaling.None == nil
		if !moved {
			g.least("recent regret of all rounds, certificate", w.Regret(), certificate, size)
		}
		if !math.IsNaN(s.Regret) && !cut && !moved && math.Abs(w.Regret()-s.Regret) > 1e-8*size {
			g.Errorf("recent regret %g of all rounds, regret %g", w.Regret(), s.Regret)
		}
	}
}

// Every regret stays below its certificate, and the certificate below its guarantee, all along hostile streams,
// whatever the learner, its loss and its scaling, with and without late labels.
func TestGuaranteesHoldOnHostileStreams(t *testing.T) {
	rounds, every := 90, 11
	if isLong() {
		rounds, every = 300, 7
	}
	scalings := map[string]*model.Scaling{"none": model.Unscaled(), "running": {Running: &model.RunningScaling{}}}
	comparisons := 0
	for name, spec := range competitors() {
		for scaled, scaling := range scalings {
			for hostile, move := range adversaries() {
				for _, late := range []int{0, 9} {
					if scaled != "none" && (spec.Auto != nil || name == "shared_stages" || late > 0 || !isLong() && hostile != "switching") {
						continue
					}
					if modeltest.RaceDetector && (hostile != "switching" || late == 0) { // The goroutines are the same for every stream.
						continue
					}
					t.Run(fmt.Sprint(name, "/", scaled, "/", hostile, "/late ", late), func(t *testing.T) {
						g := newGame(t, spec, scaling)
						for n := range rounds {
							x, y, weight := move(g, n)
							g.play(x, y, weight, late)
							if n%every == every/4 || n == rounds-1 {
								o := engine.StatsOptions{RegretRKHS: true, HindsightPath: true, Recent: n%60 == 20 || n == rounds-1}
								s := must(g.h.ModelStats(t.Context(), "m", o))(t)
								g.check(&s, late)
							}
						}
						comparisons += g.comparisons
					})
				}
			}
		}
	}
	t.Logf("%d comparisons", comparisons)
}
