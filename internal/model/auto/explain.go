package auto

import (
	"slices"
	"strings"

	"hindsight/internal/model"
)

// familyRest is what mixtures and stacks add to the experts: the constants of the stacks, and
// what is cut.
const familyRest = "rest"

// family is the family of an expert's name.
func family(name string) string {
	kind, _, _ := strings.Cut(name, "/")
	switch {
	case kind == "baseline":
		return "baselines"
	case strings.HasPrefix(kind, "affine"):
		return "linear"
	case strings.HasPrefix(kind, "fourier"):
		return "kernel"
	default:
		return kind
	}
}

// parts collects the parts of families.
type parts struct {
	all []model.Part
	// of is the part of each expert.
	of []int
}

// newParts are parts without weights, given the names of the experts.
func newParts(names []string, outputs int) *parts {
	p := &parts{of: make([]int, len(names))}
	for k, name := range names {
		own := family(name)
		at := slices.IndexFunc(p.all, func(part model.Part) bool { return part.Family == own })
		if at < 0 {
			at = len(p.all)
			p.all = append(p.all, model.Part{Family: own, Weights: make([]float64, outputs)})
		}
		p.of[k] = at
	}
	return p
}

// weigh adds the weights of an output's experts.
func (p *parts) weigh(output int, weights []float64) {
	for k, w := range weights {
		p.all[p.of[k]].Weights[output] += w
	}
}

// explain adds what an output's experts said in a value.
func (p *parts) explain(output, outputs int, weights, said []float64, value float64) {
	if p.all[len(p.all)-1].Family != familyRest {
		p.all = append(p.all, model.Part{Family: familyRest, Weights: make([]float64, outputs)})
		for i := range p.all {
			p.all[i].Contributions = make([]float64, outputs)
		}
	}
	for k, w := range weights {
		contribution := float64(w * said[k])
		p.all[p.of[k]].Contributions[output] += contribution
		value -= contribution
	}
	p.all[len(p.all)-1].Contributions[output] = value
}

// statement is what a stacked mixture was asked to mix: the predictions of the experts, their
// mixture b, and the last residual of b.
type statement struct {
	experts         []float64
	mixed, residual float64
}

// weigh adds to dst the weights of the experts in Σ_i final_i m_i, where m_0 is b and m_i a
// stack, and base are the weights of the experts in b. A stack says
//
//	b + g (Σ_k c_k (f_k − b) + …),  g = 1/(1 + q)
//
// so that the weight of expert k in it is base_k (1 − g Σ c) + g c_k. Without a statement q is
// 0, which q tends to. It costs O(K²).
func (m *stacked) weigh(dst, base, final []float64, u units, s *statement) {
	for k, w := range base {
		dst[k] += float64(final[0] * w)
	}
	order := stackSize(len(base))
	slopes, z, prior := make([]float64, order), make([]float64, order), make([]float64, 1)
	for i, f := range stackForgettings() {
		share := final[1+i]
		if share == 0 {
			continue
		}
		gain := 1.0
		if s != nil {
			u.stackRow(z, s.experts, s.mixed, s.residual)
			gain = 1 / (1 + m.stacks[i].Solve(z, prior)/f)
		}
		m.stacks[i].Weights(slopes, 0)
		total := 0.0
		for _, c := range slopes[:len(base)] {
			total += c
		}
		for k, w := range base {
			dst[k] += float64(share * (float64(w*(1-float64(gain*total))) + float64(gain*slopes[k])))
		}
	}
}

// expertWeights adds share times the weights that the experts of an output have in the
// prediction, of which a is the advice, or nil.
func (l *Learner) expertWeights(dst []float64, share float64, output int, a *advice) {
	m, now := &l.mixers[output], stageAfter(l.n)
	base, final := make([]float64, l.plan.experts()), make([]float64, finalists)
	m.base.Weights(base, l.own.awake[now])
	m.final.Weights(final, l.own.finalAwake[now])
	for i := range final {
		final[i] *= share
	}
	var s *statement
	if a != nil {
		residual, experts, mixtures, _ := a.of(output)
		s = &statement{experts: experts, mixed: mixtures[0], residual: residual}
	}
	m.weigh(dst, base, final, m.units, s)
}

// Explain tells what each family of experts says in a prediction of the present state. The
// part of no expert comes last.
func (l *Learner) Explain(prediction *model.Prediction) []model.Part {
	return l.explain(l.read(prediction.Advice))
}

func (l *Learner) explain(a advice) []model.Part {
	p := newParts(l.plan.names(), l.o.Outputs)
	for j := range l.mixers {
		weights := make([]float64, l.plan.experts())
		l.expertWeights(weights, 1, j, &a)
		p.weigh(j, weights)
		_, experts, _, value := a.of(j)
		p.explain(j, l.o.Outputs, weights, experts, value)
	}
	return p.all
}

func (l *Learner) families() []model.Part {
	p := newParts(l.plan.names(), l.o.Outputs)
	for j := range l.mixers {
		weights := make([]float64, l.plan.experts())
		l.expertWeights(weights, 1, j, nil)
		p.weigh(j, weights)
	}
	return p.all
}

// expertWeights writes the weights that the experts of level 1 and of the lineup have in the
// prediction of an output, of which a and second are the advice, or nil. Level 2 is awake.
func (l *Second) expertWeights(dst []float64, output int, a *advice, second []float64) {
	k, u := l.first.plan.experts(), l.uppers[output]
	base, weights, final := make([]float64, len(l.own.weights)), make([]float64, len(l.own.weights)), make([]float64, secondFinalists)
	u.base.Weights(base, nil)
	u.final.Weights(final, nil)
	var s *statement
	if a != nil {
		residual, lineup, mixtures, _ := l.part(second, output)
		_, experts, _, v := a.of(output)
		s = &statement{experts: slices.Concat([]float64{v}, experts, lineup), mixed: mixtures[1], residual: residual}
	}
	u.weigh(weights, base, final[1:], l.first.mixers[output].units, s)
	copy(dst, weights[1:])
	l.first.expertWeights(dst[:k], final[0]+weights[0], output, a)
}

// Explain tells what each family of experts says in a prediction of the present state. The
// part of no expert comes last.
func (l *Second) Explain(prediction *model.Prediction) []model.Part {
	a, second := l.split(prediction.Advice)
	if !l.awake() {
		return l.first.explain(a)
	}
	p := newParts(append(l.first.plan.names(), l.lineup.names()...), l.o.Outputs)
	for j := range l.uppers {
		weights := make([]float64, len(p.of))
		l.expertWeights(weights, j, &a, second)
		p.weigh(j, weights)
		_, experts, _, _ := a.of(j)
		_, lineup, _, value := l.part(second, j)
		p.explain(j, l.o.Outputs, weights, slices.Concat(experts, lineup), value)
	}
	return p.all
}

func (l *Second) families() []model.Part {
	if !l.awake() {
		return l.first.families()
	}
	p := newParts(append(l.first.plan.names(), l.lineup.names()...), l.o.Outputs)
	for j := range l.uppers {
		weights := make([]float64, len(p.of))
		l.expertWeights(weights, j, nil, nil)
		p.weigh(j, weights)
	}
	return p.all
}
