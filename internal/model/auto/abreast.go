package auto

import (
	"hindsight/internal/model"
	"hindsight/internal/model/qr"
)

// PredictAll is Predict of every input, bit for bit. The factors of level 1, half of a Predict, serve
// qr.Abreast inputs in one pass.
func (l *Learner) PredictAll(p []*model.Prediction, x [][]float64) error {
	for _, row := range x {
		if err := l.checkFeatures(row); err != nil {
			return err
		}
	}
	if stageAfter(l.n) == complete {
		for b := l.newAbreast(len(x)); len(x) >= qr.Abreast; p, x = p[qr.Abreast:], x[qr.Abreast:] {
			l.predictAbreast(b, p[:qr.Abreast], x)
		}
	}
	for n, row := range x {
		if err := l.Predict(p[n], row); err != nil {
			return err
		}
	}
	return nil
}

// abreast is the scratch of inputs that are predicted together.
type abreast struct {
	each [qr.Abreast]*scratch
	// features are the features of one map; qr.SolveAbreast takes solved and priors.
	features, solved, priors []float64
	squares                  [qr.Abreast]float64
}

// newAbreast is the scratch for so many inputs, nil for too few.
func (l *Learner) newAbreast(inputs int) *abreast {
	if inputs < qr.Abreast {
		return nil
	}
	widest := 0
	for _, e := range l.experts {
		widest = max(widest, e.features.size)
	}
	return &abreast{
		features: qr.NewRow(widest * qr.Abreast), solved: qr.NewRow(widest * qr.Abreast), priors: qr.NewRow(2 * l.o.Outputs * qr.Abreast),
	}
}

func (l *Learner) predictAbreast(b *abreast, p []*model.Prediction, x [][]float64) {
	var buckets [qr.Abreast]int
	for n := range b.each {
		s := l.pool.Get().(*scratch) //nolint:forcetypeassert // The pool holds nothing else.
		defer l.pool.Put(s)
		b.each[n], buckets[n] = s, l.ahead(p[n].Horizon)
		l.foresee(s, l.split(s, x[n]), l.lags, l.n)
		l.baselines(s, buckets[n] < 0)
	}
	l.solveAbreast(b)
	for n, s := range b.each {
		l.mixLevels(s, buckets[n] < 0)
		l.say(p[n], s, buckets[n])
	}
}

func (l *Learner) solveAbreast(b *abreast) {
	for i := range l.experts {
		e := &l.experts[i]
		size := e.features.size
		features, solved := b.features[:size*qr.Abreast], b.solved[:size*qr.Abreast]
		for n, s := range b.each {
			z := s.solved.maps[i].z
			e.features.fill(z, s, &l.bandwidths)
			for at, v := range z {
				features[at*qr.Abreast+n] = v
			}
			l.adviseDescents(s, e, z)
		}
		for f, factor := range e.factors {
			copy(solved, features)
			factor.SolveAbreast(solved, b.priors, &b.squares)
			for n, s := range b.each {
				priors := s.solved.maps[i].factors[f].Priors
				for c := range priors {
					priors[c] = b.priors[c*qr.Abreast+n]
				}
				l.advise(s, e.at+2*f, priors, b.squares[n]/l.plan.forgettings[f])
			}
		}
	}
	if l.screen != nil {
		for _, s := range b.each {
			l.adviseWide(s)
		}
	}
}
