package auto

import (
	"math"
	"slices"

	"hindsight/internal/model/loops"
	"hindsight/internal/model/qr"
)

// expertMap is a feature map with its experts: forecasters of several memories, and
// first-order learners.
type expertMap struct {
	features *featureMap
	// factors has a factor a memory, with two columns an output: the label, and the label
	// less the last label. at is the first of their experts.
	factors  []*qr.Factor
	at       int
	renewals []renewal
	// descents are the weights of the first-order learners, a slice a step, by outputs.
	// Their features are the waves of the map, of norm 1, or the whole affine map. descentAt
	// is the first of their experts.
	descents  [][]float64
	descentAt int
}

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
	at, factors, each := baselines, qr.NewAll(o.orders(p), 2*o.Outputs, ridge), len(p.forgettings)
	for i, kind := range p.factors {
		e := of(kind)
		e.at, e.factors = at, factors[i*each:][:each:each]
		for _, f := range p.forgettings {
			e.renewals = append(e.renewals, newRenewal(e.features.size, f))
		}
		at += 2 * each
	}
	for _, kind := range p.descents {
		e := of(kind)
		e.descentAt = at
		for range descentCount {
			e.descents = append(e.descents, make([]float64, o.descentSize(kind)*o.Outputs))
		}
		at += descentCount
	}
	return experts
}

// orders are the orders of all factors.
func (o Options) orders(p Plan) (orders []int) {
	for _, kind := range p.factors {
		orders = append(orders, slices.Repeat([]int{o.size(kind)}, len(p.forgettings))...)
	}
	return orders
}

// descentSize is the number of weights of a first-order learner.
func (o Options) descentSize(m mapKind) int {
	if m == affineMap {
		return o.affine()
	}
	return 2 * o.Frequencies
}

// descend is a step of gradient descent on w(θ·z − y)² + λ‖θ‖², given ‖z‖² and θ·z. The step
// is cut to where the descent is stable, whatever the weight.
func descend(theta, z []float64, step, norm, prediction, y, weight float64) {
	step = math.Min(step, 0.5/(float64(weight*norm)+decay))
	slope := float64(2*step) * float64(weight*(prediction-y))
	loops.Descend(theta, z, 1-float64(float64(2*step)*decay), slope)
}
