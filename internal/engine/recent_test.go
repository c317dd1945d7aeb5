package engine_test

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"gonum.org/v1/gonum/mat"

	"hindsight/internal/engine"
	"hindsight/internal/model"
)

// hostile is a stream with a switch, labels of growing size, repeated inputs and weights.
func hostile(seed uint64, n int, weights bool) []engine.Observation {
	rng := rand.New(rand.NewPCG(seed, 5))
	all := make([]engine.Observation, n)
	for i := range all {
		x := []float64{rng.NormFloat64(), rng.NormFloat64()}
		if i%7 == 3 {
			x = all[i-1].Features
		}
		y := math.Sin(2*x[0]) - x[1]
		if i > n/2 {
			y = -y
		}
		if i%11 == 5 {
			y *= 3
		}
		all[i] = engine.Observation{Features: x, Labels: []float64{y}, Weight: 1}
		if weights {
			all[i].Weight = math.Exp(rng.NormFloat64()) / 4
		}
	}
	return all
}

func recent(t *testing.T, h *host) engine.Stats {
	t.Helper()
	return must(h.ModelStats(t.Context(), "m", engine.StatsOptions{Recent: true}))(t)
}

// The regret on the last rounds is the regret against ridge regression on their rows alone, by normal equations.
func TestRecentRegretIsThatOfTheRows(t *testing.T) {
	h := start(t, newDisk(), newClock())
	lambda, forgetting := 0.5, 0.95
	h.create(t, "m", model.Spec{Dimension: 2, Scaling: model.Unscaled(), LinearAWV: &model.LinearAWV{Lambda: &lambda, Forgetting: &forgetting}})
	stream := hostile(1, 150, true)
	var losses []float64
	for _, o := range stream {
		losses = append(losses, h.observe(t, "m", o)[0].Loss)
	}
	s := recent(t, h)
	if len(s.RecentRegret) != 5 || s.RecentRegret[4].Rounds != 150 {
		t.Fatalf("windows %+v", s.RecentRegret)
	}
	for k, w := range s.RecentRegret {
		if k < 4 && w.Rounds != 16<<k {
			t.Errorf("window %d of %d rounds", k, w.Rounds)
		}
		gram, right, loss, energy := mat.NewSymDense(3, []float64{lambda, 0, 0, 0, lambda, 0, 0, 0, lambda}), mat.NewVecDense(3, nil), 0.0, 0.0
		for n := 150 - w.Rounds; n < 150; n++ {
			z := mat.NewVecDense(3, append(append([]float64{}, stream[n].Features...), 1))
			weight, y := stream[n].Weight, stream[n].Labels[0]
			gram.SymRankOne(gram, weight, z)
			right.AddScaledVec(right, weight*y, z)
			loss, energy = loss+losses[n], energy+weight*y*y
		}
		var g mat.VecDense
		if err := g.SolveVec(gram, right); err != nil {
			t.Fatal(err)
		}
		if want := loss - (energy - mat.Dot(right, &g)); math.Abs(w.Regret()-want) > 1e-9*energy || math.Abs(w.Loss-loss) > 1e-9*loss || w.Gap != 0 {
			t.Errorf("last %d: regret %g, loss %g; want %g, %g", w.Rounds, w.Regret(), w.Loss, want, loss)
		}
	}
	if h.stats(t, "m").RecentRegret != nil {
		t.Error("a report that does not ask for the recent regret has it")
	}
}

func competitors() map[string]model.Spec {
	yes, two := true, 2
	gaussian := &model.Kernel{Kind: "gaussian"}
	few, kept, lambda := 10, 20, 0.3
	steps := func(loss string) model.NewtonSteps {
		n := model.NewtonSteps{Kernel: gaussian, Loss: loss}
		if loss == "squared" {
			n.Range = []float64{-14, 14}
		}
		return n
	}
	specs := map[string]model.Spec{
		"linear_awv":      {LinearAWV: &model.LinearAWV{}},
		"lambdas":         {LinearAWV: &model.LinearAWV{Ridges: model.Ridges{Lambdas: []float64{0.1, 1, 10}}}},
		"pkawv_taylor":    {PKAWVTaylor: &model.PKAWVTaylor{Degree: &two, Lambda: &lambda}},
		"mix_degrees":     {PKAWVTaylor: &model.PKAWVTaylor{Degree: &two, MixDegrees: &yes}},
		"pkawv_nystrom":   {PKAWVNystrom: &model.PKAWVNystrom{Kernel: gaussian, MaxDictionary: &kept}},
		"history_full":    {PKAWVNystrom: &model.PKAWVNystrom{Kernel: gaussian, MaxDictionary: &kept, History: model.HistoryFull}},
		"fourier_awv":     {FourierAWV: &model.FourierAWV{Kernel: gaussian, Frequencies: &few}},
		"semiparametric":  {SemiparametricAWV: &model.SemiparametricAWV{Kernel: gaussian, Frequencies: &few, Parametric: []int{0}}},
		"kernel_awv":      {KernelAWV: &model.KernelAWV{Kernel: gaussian}},
		"fogd":            {FOGD: &model.FOGD{Kernel: gaussian, FirstOrder: model.FirstOrder{Frequencies: &few, TrackRegret: &yes}}},
		"raker":           {Raker: &model.Raker{FirstOrder: model.FirstOrder{Frequencies: &few, TrackRegret: &yes}}},
		"ada_raker":       {AdaRaker: &model.AdaRaker{Raker: model.Raker{FirstOrder: model.FirstOrder{Frequencies: &few, TrackRegret: &yes}}}},
		"fourier_tracked": {FourierKONS: &model.FourierKONS{NewtonSteps: model.NewtonSteps{Kernel: gaussian}, Frequencies: &few, TrackRegret: &yes}},
		"rlsc":            {RLSC: &model.RLSC{}},
		"auto":            {Auto: &model.Auto{}},
		"label_bounds":    {LinearAWV: &model.LinearAWV{}, Label: &model.Label{Min: new(float64)}},
	}
	for _, loss := range []string{"squared", "logistic", "hinge", "squared_hinge"} {
		specs["fourier_kons_"+loss] = model.Spec{FourierKONS: &model.FourierKONS{NewtonSteps: steps(loss), Frequencies: &few}}
		specs["pros_n_kons_"+loss] = model.Spec{ProsNKONS: &model.ProsNKONS{NewtonSteps: steps(loss), MaxDictionary: &kept}}
		specs["kons_"+loss] = model.Spec{KONS: &model.KONS{NewtonSteps: steps(loss)}}
		if loss == "logistic" || loss == "hinge" {
			specs["raker_"+loss] = model.Spec{Raker: &model.Raker{FirstOrder: model.FirstOrder{Frequencies: &few, Loss: loss}}}
		}
	}
	return specs
}

// Of all rounds the recent regret is the regret that the learner knows, and never above its certificate,
// behind every scaling.
func TestRecentRegretOfAllRounds(t *testing.T) {
	scalings := map[string]*model.Scaling{
		"none": model.Unscaled(), "running": {Running: &model.RunningScaling{}},
	}
	for name, spec := range competitors() {
		for scaled, scaling := range scalings {
			if name == "auto" && scaled != "none" {
				continue
			}
			t.Run(name+"/"+scaled, func(t *testing.T) {
				h := start(t, files{newFS()}, newClock())
				spec := spec
				spec.Dimension = 2
				if spec.Auto == nil {
					spec.Scaling = scaling
				}
				h.create(t, "m", spec)
				for n, o := range hostile(3, 200, false) {
					signs := spec.FourierKONS != nil && spec.FourierKONS.Loss != "squared" && spec.FourierKONS.Loss != "" ||
						spec.ProsNKONS != nil && spec.ProsNKONS.Loss != "squared" || spec.KONS != nil && spec.KONS.Loss != "squared" || spec.Raker != nil && spec.Raker.Loss != ""
					if signs {
						o.Labels[0] = math.Copysign(1, o.Labels[0])
					}
					if spec.Label != nil {
						o.Labels[0] = math.Abs(o.Labels[0])
					}
					if spec.RLSC != nil {
						o.Class, o.Labels = strconv.Itoa(int(math.Abs(o.Labels[0]))%5), nil
					}
					h.observe(t, "m", o)
					if n != 40 && n != 199 {
						continue
					}
					s := recent(t, h)
					if len(s.RecentRegret) == 0 {
						if name != "auto" || n > 40 {
							t.Errorf("round %d: no window", n)
						}
						continue
					}
					w := s.RecentRegret[len(s.RecentRegret)-1]
					if name == "auto" {
						continue
					}
					if w.Rounds != n+1 || math.Abs(w.Loss-s.Loss) > 1e-9*s.Loss || !(w.Gap <= 1e-8*s.Loss) {
						t.Errorf("round %d: window %+v, loss %g", n, w, s.Loss)
					}
					cut := s.Certified && (spec.FourierKONS != nil || spec.ProsNKONS != nil)
					grows := spec.PKAWVNystrom != nil && scaled != "none" // Rows of the warm-up have the features of its end.
					if !math.IsNaN(s.Regret) && !cut && !grows && math.Abs(w.Regret()-s.Regret) > 1e-8*s.Loss {
						t.Errorf("round %d: regret %g of the rows, %g of the learner", n, w.Regret(), s.Regret)
					}
					certificate := s.Certificate
					if s.SolvedCertificate != nil {
						certificate = *s.SolvedCertificate
					}
					if certificate > 0 && !(w.Regret() <= certificate+1e-8*s.Loss) {
						t.Errorf("round %d: regret %g above the certificate %g", n, w.Regret(), certificate)
					}
				}
			})
		}
	}
}

// Rows that a label gate sets aside are no rounds, and after a restore or a cut of the log the report is of
// what the log has.
func TestRecentRegretOfLearnedRows(t *testing.T) {
	h := start(t, files{newFS()}, newClock())
	h.create(t, "m", model.Spec{Dimension: 2, LabelGate: model.GateOn, LinearAWV: &model.LinearAWV{}})
	aside := 0
	for n, o := range hostile(4, 400, false) {
		if n == 350 || n == 370 {
			o.Labels[0] = 1e6
		}
		if h.observe(t, "m", o)[0].SetAside {
			aside++
		}
	}
	s := recent(t, h)
	w := s.RecentRegret[len(s.RecentRegret)-1]
	if aside != 2 || w.Rounds != 398 || w.Loss > 1e6 || math.Abs(w.Regret()-s.Regret) > 1e-8*w.Loss {
		t.Errorf("%d set aside, %+v, regret %g", aside, w, s.Regret)
	}
	must(h.RestoreModel(t.Context(), "m", 100))(t)
	if s = recent(t, h); s.RecentRegret[len(s.RecentRegret)-1].Rounds != 100 {
		t.Errorf("after a restore %+v", s.RecentRegret)
	}
}
