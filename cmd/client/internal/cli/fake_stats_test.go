package cli_test

import (
	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// fakeRecent is the number of the last rounds that the fake calls recent.
const fakeRecent = 1000

// fakeRound is what the fake keeps of an observation: the losses of the model, of
// what was served, and of the baselines.
type fakeRound struct {
	model, served, mean, last float64
	predicted                 bool
}

func square(v float64) float64 { return v * v }

// round evaluates a label before it is learned. The model is the running mean.
func (m *fakeModel) round(label float64, p *fakePrediction) fakeRound {
	r := fakeRound{model: square(label - m.mean()), mean: square(label - m.mean()), last: square(label)}
	if n := len(m.labels); n > 0 {
		r.last = square(label - m.labels[n-1])
	}
	r.served = r.model
	if p != nil {
		r.served, r.predicted = square(label-p.value), true
	}
	return r
}

// recent adds the recent figures to an outcome.
func (m *fakeModel) recent(o *hindsightv1.Outcome) {
	f := figures(m.rounds[max(0, len(m.rounds)-fakeRecent):], fakeRound.ofModel)
	o.RecentLoss, o.RecentSkill = proto.Float64(f.GetMeanLoss()), f.Skill
}

func (r fakeRound) ofModel() float64  { return r.model }
func (r fakeRound) ofServed() float64 { return r.served }

// figures are the losses of some rounds, nil if there is none.
func figures(rounds []fakeRound, loss func(fakeRound) float64) *hindsightv1.PerformanceFigures {
	if len(rounds) == 0 {
		return nil
	}
	f := &hindsightv1.PerformanceFigures{RunningMeanLoss: new(float64), LastLabelLoss: new(float64)}
	n := float64(len(rounds))
	for _, r := range rounds {
		f.MeanLoss += loss(r) / n
		*f.RunningMeanLoss += r.mean / n
		*f.LastLabelLoss += r.last / n
	}
	if baseline := min(f.GetRunningMeanLoss(), f.GetLastLabelLoss()); baseline > 0 {
		f.Skill = proto.Float64(1 - f.GetMeanLoss()/baseline)
	}
	return f
}

func performance(rounds []fakeRound) *hindsightv1.Performance {
	return &hindsightv1.Performance{
		Observations: float64(len(rounds)),
		Prequential:  figures(rounds, fakeRound.ofModel), Served: figures(rounds, fakeRound.ofServed),
	}
}

// setFigures adds to statistics how the model did.
func (m *fakeModel) setFigures(s *hindsightv1.ModelStats) {
	s.Performance = performance(m.rounds)
	s.Recent = performance(m.rounds[max(0, len(m.rounds)-fakeRecent):])
	s.Discounted = performance(m.rounds[max(0, len(m.rounds)-fakeRecent/2):])
	for _, r := range m.rounds {
		if r.predicted {
			s.ServedObservations++
			s.ServedLossSum = proto.Float64(s.GetServedLossSum() + r.served)
		}
	}
}
