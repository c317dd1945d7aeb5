package auto

import (
	"slices"
	"strings"

	"hindsight/internal/model"
)

// familyRest is what mixtures and stacks add to the experts: the constants of the stacks, and
// what is cut.
const familyRest = "rest"

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
		of := family(name)
		at := slices.IndexFunc(p.all, func(part model.Part) bool { return part.Family == of })
		if at < 0 {
			at = len(p.all)
			p.all = append(p.all, model.Part{Family: of, Weights: make([]float64, outputs)})
		}
		p.of[k] = at
	}
	return p
}

func (p *parts) addWeights(output int, weights []float64) {
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
	// final are the finalists of level 2.
	final []float64
}

// addWeights adds to dst the weights of the experts in Σ_i final_i m_i, where m_0 is b and m_i a
// stack, and base are the weights of the experts in b. A stack says
//
//	b + g (Σ_k c_k (f_k − b) + …),  g = 1/(1 + q)
//
// so that the weight of expert k in it is base_k (1 − g Σ c) + g c_k. Without a statement q is
// 0, which q tends to. It costs O(K²).
func (m *stacked) addWeights(dst, base, final []float64, u units, s *statement) {
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

// shareTops shares the weights of the tops among the other finalists, and returns the share of the mean label.
func (m *level2) shareTops(final []float64, u units, s *statement) (mean float64) {
	slopes, z := make([]float64, topSize), make([]float64, topSize)
	for t, top := range m.tops {
		share := final[2+stacks+t]
		final[1] += share
		if s != nil {
			u.topRow(z, s.experts, s.final)
			share /= 1 + top.Solve(z, make([]float64, 1))
		}
		top.Weights(slopes, 0)
		for i, c := range slopes[:topSize-1] {
			part := float64(share * c)
			final[1] -= part
			switch i {
			case 0:
				mean += part
			case 1:
				final[0] += part
			default:
				final[i] += part
			}
		}
	}
	return mean
}

// expertWeights adds the weights that the experts of level 1, of an awake lineup and of the keys
// have in the prediction of an output, of which a is the advice, or nil. With through, v has the
// weights of v + e too, so that the experts of the keys answer for e alone.
func (l *Learner) expertWeights(dst []float64, output int, a *advice, through bool) {
	m, k, now, share := &l.mixers[output], l.plan.experts(), stageAfter(l.n), 1.0
	base, final := make([]float64, k), make([]float64, finalists)
	m.base.Weights(base, l.scratch.awake[now])
	m.final.Weights(final, l.scratch.finalAwake[now])
	var level1, level2 *statement
	if a != nil {
		residual, experts, mixtures, _ := a.level1.of(output)
		level1 = &statement{experts: experts, mixed: mixtures[0], residual: residual}
		if l.awake() {
			residual, lineup, mixtures, _ := a.level2.of(output)
			var keys []float64
			if l.keyed != nil {
				_, keys, _ = a.keyed.of(output)
			}
			level2 = &statement{experts: slices.Concat([]float64{a.base(output)}, experts, keys, lineup), mixed: mixtures[1], residual: residual, final: mixtures}
		}
	}
	if l.awake() {
		u := l.level2[output]
		base, weights, final := make([]float64, u.base.Experts()), make([]float64, u.base.Experts()), make([]float64, level2Finalists)
		u.base.Weights(base, nil)
		u.final.Weights(final, nil)
		weights[1+meanBaseline] = u.shareTops(final, m.units, level2)
		u.addWeights(weights, base, final[1:], m.units, level2)
		copy(dst[:k], weights[1:])
		copy(dst[k:], l.lineupOf(weights))
		copy(dst[len(dst)-l.o.keyExperts():], l.keysOf(weights))
		share = final[0] + weights[0]
	}
	if l.keyed != nil {
		share = l.keyShares(dst[len(dst)-l.o.keyExperts():], output, share, through)
	}
	for i := range final {
		final[i] *= share
	}
	m.addWeights(dst[:k], base, final, m.units, level1)
}

// parts are the parts of the families in the prediction of which a is the advice, or nil.
func (l *Learner) parts(a *advice) []model.Part {
	names := l.plan.names()
	if l.awake() {
		names = append(names, l.lineup.names()...)
	}
	names = append(names, l.o.keyNames()...)
	levels := len(names)
	if l.opens() {
		names = append(names, l.ridgeNames()...)
	}
	p, opening := newParts(names, l.o.Outputs), make([]float64, 1+l.ridges)
	fill := func(weights []float64, output int, through bool) {
		clear(weights)
		l.expertWeights(weights[:levels], output, a, through)
		l.openingWeights(opening, output)
		for i := range levels {
			weights[i] *= opening[0]
		}
		copy(weights[levels:], opening[1:])
	}
	for j := range l.mixers {
		weights := make([]float64, len(names))
		fill(weights, j, false)
		p.addWeights(j, weights)
		if a == nil {
			continue
		}
		_, said, _, value := a.level1.of(j)
		if l.awake() {
			var lineup []float64
			_, lineup, _, value = a.level2.of(j)
			said = slices.Concat(said, lineup)
		}
		if l.keyed != nil {
			if !l.awake() {
				value = a.base(j)
			}
			said = slices.Concat(said, l.keyEffects(a, j))
			fill(weights, j, true)
		}
		if l.opens() {
			ridges := make([]float64, 1+l.ridges)
			value = a.opened(j, ridges)
			said = slices.Concat(said, ridges[1:])
		}
		p.explain(j, l.o.Outputs, weights, said, value)
	}
	return p.all
}

// Explain tells what each family of experts says in a prediction of the present state. The
// part of no expert comes last.
func (l *Learner) Explain(prediction *model.Prediction) []model.Part {
	a := l.read(prediction.Advice)
	all := l.parts(&a)
	l.explainAhead(all, &a, prediction.Horizon)
	return all
}

func (l *Learner) families() []model.Part { return l.parts(nil) }
