package auto

import (
	"math"

	"hindsight/internal/model/qr"
)

// expertMap is a feature map with the experts over it: forecasters of several
// memories, and first-order learners.
type expertMap struct {
	features *featureMap
	// factors are one a memory, with two columns an output: the label, and the
	// label less the last one. at is the first of their experts.
	factors []*qr.Factor
	at      int
	// descents are the weights of the first-order learners, one slice a step, by
	// outputs. descentAt is the first of their experts.
	descents  [][]float64
	descentAt int
}

// newExperts are the experts of a plan, which have learned nothing.
func newExperts(o Options, p Plan, maps []*featureMap) []expertMap {
	experts := make([]expertMap, len(maps))
	for i, m := range maps {
		experts[i].features = m
	}
	of := func(kind mapKind) *expertMap {
		for i := range experts {
			if experts[i].features.kind == kind {
				return &experts[i]
			}
		}
		panic("auto: a plan without its map")
	}
	at := baselines
	for _, kind := range p.factors {
		e := of(kind)
		e.at = at
		for range p.forgettings {
			e.factors = append(e.factors, qr.New(e.features.size, 2*o.Outputs, ridge))
		}
		at += 2 * len(p.forgettings)
	}
	for _, kind := range p.descents {
		e := of(kind)
		e.descentAt = at
		for range descentSteps() {
			e.descents = append(e.descents, make([]float64, e.features.size*o.Outputs))
		}
		at += len(descentSteps())
	}
	return experts
}

// descend is a step of gradient descent on w (θ·z − y)² + λ‖θ‖², no longer than
// what keeps the descent stable whatever the weight.
func descend(theta, z []float64, step, norm, prediction, y, weight float64) {
	step = math.Min(step, 0.5/(float64(weight*norm)+decay))
	move := float64(2*step) * float64(weight*(y-prediction))
	stretch(theta, 1-float64(2*step)*decay)
	axpy(theta, z, move)
}

func dot(x, y []float64) float64 {
	sum := 0.0
	for i, v := range x {
		sum += float64(v * y[i])
	}
	return sum
}

func axpy(y, x []float64, a float64) {
	for i, v := range x {
		y[i] += float64(a * v)
	}
}

func stretch(x []float64, by float64) {
	for i := range x {
		x[i] *= by
	}
}
