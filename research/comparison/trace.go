package comparison

import (
	"context"
	"fmt"

	"hindsight/cmd/research/papers"
	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
)

// learner is a learner of the server, and its spec with a bandwidth and a loss. It
// takes the first rows of a stream, or all if that is 0.
type learner struct {
	name    string
	rows    int
	centred bool
	spec    func(spec *model.Spec, kernel *model.Kernel, loss string)
}

// NameSketch is kons with a sketch of its matrix, leastSketched the least probability
// with which an observation enters it.
const (
	NameSketch    = papers.NameKons + ", γ = 0.01"
	leastSketched = 0.01
)

// learners are those whose regret, dictionary or loss the figures show. Their specs
// are those of the report of the papers, but for that of the sketch: the server's
// defaults, without scaling, with the bandwidth of the stream and the range of its
// quantities.
func learners() []learner {
	return []learner{
		{name: papers.NameLinear, spec: func(s *model.Spec, _ *model.Kernel, _ string) { s.LinearAWV = &model.LinearAWV{} }},
		{name: papers.NameTaylor, centred: true, spec: func(s *model.Spec, k *model.Kernel, _ string) {
			s.PKAWVTaylor = &model.PKAWVTaylor{Sigma: k.Sigma}
		}},
		{name: papers.NameNystrom, spec: func(s *model.Spec, k *model.Kernel, _ string) {
			s.PKAWVNystrom = &model.PKAWVNystrom{Kernel: k}
		}},
		{name: papers.NameFourier, spec: func(s *model.Spec, k *model.Kernel, _ string) {
			s.FourierAWV = &model.FourierAWV{Kernel: k}
		}},
		{name: papers.NameFourierKons, spec: func(s *model.Spec, k *model.Kernel, loss string) {
			s.FourierKONS = &model.FourierKONS{NewtonSteps: steps(k, loss)}
		}},
		{name: papers.NameProsNKons, spec: func(s *model.Spec, k *model.Kernel, loss string) {
			s.ProsNKONS = &model.ProsNKONS{NewtonSteps: steps(k, loss)}
		}},
		{name: NameSketch, rows: papers.KernelRows, spec: func(s *model.Spec, k *model.Kernel, loss string) {
			gamma := leastSketched
			s.KONS = &model.KONS{NewtonSteps: steps(k, loss), Gamma: &gamma}
		}},
		{name: papers.NameRaker, spec: func(s *model.Spec, _ *model.Kernel, loss string) {
			s.Raker = &model.Raker{}
			s.Raker.Loss = loss
		}},
		{name: papers.NameAdaRaker, spec: func(s *model.Spec, _ *model.Kernel, loss string) {
			s.AdaRaker = &model.AdaRaker{}
			s.AdaRaker.Loss = loss
		}},
	}
}

// steps are online Newton steps with a loss. The labels of the squared loss are on
// [0, 1].
func steps(k *model.Kernel, loss string) model.NewtonSteps {
	s := model.NewtonSteps{Kernel: k, Loss: loss}
	if loss == model.LossSquared {
		s.Range = []float64{0, 1}
	}
	return s
}

// trace takes the table through a new learner.
func (l learner) trace(ctx context.Context, t *papers.Table, s papers.Stream, grid []int) (Trace, error) {
	sigma, loss := t.Sigma, model.LossSquared
	if s.Signs {
		loss = model.LossLogistic
	}
	spec := model.Spec{Dimension: t.Dimension(), Seed: papers.Seed, Scaling: model.Unscaled()}
	l.spec(&spec, &model.Kernel{Kind: "gaussian", Sigma: &sigma}, loss)
	learner, err := catalog.New(spec)
	if err != nil {
		return Trace{}, fmt.Errorf("comparison: %w", err)
	}
	trace, score := Trace{Name: l.name}, papers.NewScore(grid)
	follow := func() {
		if n := len(score.Curve); n > len(trace.Points) {
			stats := learner.Stats()
			trace.Points = append(trace.Points, TracePoint{Point: score.Curve[n-1], Regret: stats.Regret, Dictionary: stats.Dictionary})
		}
	}
	var outcome model.Outcome
	rows := len(t.Y)
	if l.rows > 0 {
		rows = min(rows, l.rows)
	}
	for i := range rows {
		if err := ctx.Err(); err != nil {
			return Trace{}, err
		}
		if err := learner.Observe(&outcome, t.Inputs(i, papers.Learner{Centred: l.centred}), t.Y[i:i+1], 1); err != nil {
			return Trace{}, fmt.Errorf("comparison: round %d: %w", i+1, err)
		}
		score.Add(outcome.Predictions[0], t.Y[i], outcome.Loss)
		follow()
	}
	score.Close()
	follow()
	return trace, nil
}
