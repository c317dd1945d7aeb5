package rpc_test

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// path asks for the statistics with the losses in hindsight of the first features.
func (s *service) path(t *testing.T, id string) *hindsightv1.ModelStats {
	t.Helper()
	r := must(s.models.GetModelStats(t.Context(), &hindsightv1.GetModelStatsRequest{Model: id, IncludeHindsightPath: true}))(t)
	return r.GetStats()
}

// The path goes from the sum of the squared labels to the loss in hindsight. Its second
// number is that of one feature alone, min over w of sum (y - w x)^2 + lambda w^2.
func TestHindsightPath(t *testing.T) {
	s := serve(t)
	spec := linear(2)
	lambda := 0.5
	spec.GetLinearAwv().Lambda = &lambda
	s.create(t, "m", spec)
	rng := rand.New(rand.NewPCG(7, 3))
	var xx, xy, yy float64
	for range 50 {
		x := []float64{rng.NormFloat64(), rng.NormFloat64()}
		y := x[0] - 2*x[1] + 1 + 0.1*rng.NormFloat64()
		xx, xy, yy = xx+x[0]*x[0], xy+x[0]*y, yy+y*y
		must(s.Observe(t.Context(), &hindsightv1.ObserveRequest{Model: "m", Features: x, Target: label(y)}))(t)
	}
	st := s.path(t, "m")
	p := st.GetHindsightPath()
	if len(p) != int(st.GetFeatures())+1 {
		t.Fatalf("a path %v over %d features", p, st.GetFeatures())
	}
	for m, want := range map[int]float64{0: yy, 1: yy - xy*xy/(xx+lambda), 3: st.GetHindsightLoss()} {
		if math.Abs(p[m]-want) > 1e-10*yy {
			t.Errorf("the loss of the first %d features is %g, want %g", m, p[m], want)
		}
	}
	if !(p[0] > p[1] && p[1] > p[2] && p[2] > p[3]) {
		t.Errorf("the path %v rises", p)
	}
	r, err := s.models.GetModelStats(t.Context(), &hindsightv1.GetModelStatsRequest{Model: "m"})
	if err != nil || len(r.GetStats().GetHindsightPath()) > 0 {
		t.Errorf("a path that nobody asked for: %v, %v", r, err)
	}
}

// The regret against the kernel's space is there for those who ask, between the regret and the
// loss.
func TestRegretAgainstTheKernelsSpaceIsAskedFor(t *testing.T) {
	s := serve(t)
	s.create(t, "m", &hindsightv1.ModelSpec{
		Dimension: 2, Scaling: unscaled(), Learner: &hindsightv1.ModelSpec_PkawvTaylor{PkawvTaylor: &hindsightv1.PkawvTaylor{}},
	})
	for n := range 40 {
		x := []float64{math.Sin(float64(n)), math.Cos(float64(n * n))}
		must(s.Observe(t.Context(), &hindsightv1.ObserveRequest{Model: "m", Features: x, Target: label(x[0] - 2*x[1])}))(t)
	}
	asked := must(s.models.GetModelStats(t.Context(), &hindsightv1.GetModelStatsRequest{Model: "m", IncludeRegretRkhs: true}))(t).GetStats()
	if r := asked.RegretRkhs; r == nil || *r < asked.GetRegret() || *r > asked.GetLossSum() {
		t.Errorf("%v: the regret is %g, the loss %g", r, asked.GetRegret(), asked.GetLossSum())
	}
	if st := s.path(t, "m"); st.RegretRkhs != nil {
		t.Errorf("%g, not asked for", st.GetRegretRkhs())
	}
}

// Learners without an order of their features have no path, and none has one before its
// scaling is known. To ask for it is no error.
func TestHindsightPathOfLearners(t *testing.T) {
	s := serve(t)
	eight, four := int32(8), int32(4)
	for name, learner := range map[string]struct {
		spec *hindsightv1.ModelSpec
		has  bool
	}{
		"taylor":         {&hindsightv1.ModelSpec{Learner: &hindsightv1.ModelSpec_PkawvTaylor{PkawvTaylor: &hindsightv1.PkawvTaylor{}}}, true},
		"nystrom":        {&hindsightv1.ModelSpec{Learner: &hindsightv1.ModelSpec_PkawvNystrom{PkawvNystrom: &hindsightv1.PkawvNystrom{}}}, true},
		"fourier":        {&hindsightv1.ModelSpec{Learner: &hindsightv1.ModelSpec_FourierAwv{FourierAwv: &hindsightv1.FourierAwv{Frequencies: &eight}}}, true},
		"lambdas":        {&hindsightv1.ModelSpec{Learner: &hindsightv1.ModelSpec_LinearAwv{LinearAwv: &hindsightv1.LinearAwv{Lambdas: []float64{0.1, 10}}}}, true},
		"semiparametric": {&hindsightv1.ModelSpec{Learner: &hindsightv1.ModelSpec_SemiparametricAwv{SemiparametricAwv: &hindsightv1.SemiparametricAwv{Frequencies: &four}}}, true},
		"outputs":        {&hindsightv1.ModelSpec{Outputs: 2, Learner: &hindsightv1.ModelSpec_LinearAwv{LinearAwv: &hindsightv1.LinearAwv{}}}, true},
		"rlsc":           {&hindsightv1.ModelSpec{Learner: &hindsightv1.ModelSpec_Rlsc{Rlsc: &hindsightv1.Rlsc{}}}, true},
		"exact":          {&hindsightv1.ModelSpec{Learner: &hindsightv1.ModelSpec_KernelAwv{KernelAwv: &hindsightv1.KernelAwv{}}}, false},
		"fogd":           {&hindsightv1.ModelSpec{Learner: &hindsightv1.ModelSpec_Fogd{Fogd: &hindsightv1.Fogd{}}}, false},
		"kons":           {&hindsightv1.ModelSpec{Learner: &hindsightv1.ModelSpec_FourierKons{FourierKons: &hindsightv1.FourierKons{}}}, false},
	} {
		learner.spec.Dimension = 2
		learner.spec.Scaling = &hindsightv1.Scaling{Kind: &hindsightv1.Scaling_Running{Running: &hindsightv1.RunningScaling{}}}
		s.create(t, name, learner.spec)
		if p := s.path(t, name).GetHindsightPath(); len(p) > 0 {
			t.Errorf("%s: the path %v before a scaling is known", name, p)
		}
		rng := rand.New(rand.NewPCG(7, 4))
		for range 100 {
			x := []float64{rng.NormFloat64(), rng.NormFloat64()}
			y := 100 + 10*math.Tanh(x[0]-2*x[1])
			o := &hindsightv1.ObserveRequest{Model: name, Features: x, Target: label(y)}
			switch {
			case learner.spec.GetOutputs() == 2:
				o.Target = &hindsightv1.ObserveRequest_Labels{Labels: &hindsightv1.Labels{Values: []float64{y, -y}}}
			case learner.spec.GetRlsc() != nil:
				o.Target = &hindsightv1.ObserveRequest_Class{Class: strconv.FormatBool(y > 100)}
			}
			must(s.Observe(t.Context(), o))(t)
		}
		st := s.path(t, name)
		p := st.GetHindsightPath()
		if !learner.has {
			if len(p) > 0 {
				t.Errorf("%s: the path %v", name, p)
			}
			continue
		}
		if last := int(st.GetFeatures()); len(p) != last+1 || !(p[0] > p[last]) || math.Abs(p[last]-st.GetHindsightLoss()) > 1e-9*p[0] {
			t.Errorf("%s: the path %v over %d features to %g", name, p, last, st.GetHindsightLoss())
		}
	}
}

// The share of the parametric part is what its features take off the path, of all that
// is taken off it. Other learners have none.
func TestParametricShare(t *testing.T) {
	s := serve(t)
	spec := linear(3)
	spec.Learner = &hindsightv1.ModelSpec_SemiparametricAwv{SemiparametricAwv: &hindsightv1.SemiparametricAwv{Parametric: []int32{1}}}
	s.create(t, "m", spec)
	s.create(t, "other", linear(3))
	if st := s.path(t, "m"); st.ParametricShare != nil {
		t.Errorf("a share of %g of nothing", st.GetParametricShare())
	}
	rng := rand.New(rand.NewPCG(7, 5))
	for range 60 {
		x := []float64{rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()}
		for _, id := range []string{"m", "other"} {
			o := &hindsightv1.ObserveRequest{Model: id, Features: x, Target: label(x[1] + math.Sin(x[0]))}
			must(s.Observe(t.Context(), o))(t)
		}
	}
	st := s.path(t, "m")
	p, parametric := st.GetHindsightPath(), 2 // Of x[1] and the constant.
	want := (p[0] - p[parametric]) / (p[0] - p[len(p)-1])
	if st.ParametricShare == nil || math.Abs(st.GetParametricShare()-want) > 1e-9 || !(want > 0.3 && want < 0.9) {
		t.Errorf("a share of %v, want %g", st.ParametricShare, want)
	}
	if st := s.path(t, "other"); st.ParametricShare != nil {
		t.Errorf("linear_awv has a share of %g", st.GetParametricShare())
	}
}
