package auto

import (
	"fmt"
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/mix"
	"hindsight/internal/model/moments"
	"hindsight/internal/model/qr"
)

// flopsPerMicrosecond is how many multiply-adds of an Observe a nominal processor does in a
// microsecond. It is fixed, so that a spec has the same experts on every machine. A
// processor with AVX2 did about 7,000.
const flopsPerMicrosecond = 5000

// microseconds is the nominal time of an Observe of a plan.
func (o Options) microseconds(p Plan) float64 {
	return float64(o.observeFlops(p)) / flopsPerMicrosecond
}

func factorFlops(r, columns int) uint64 { return 2*uint64(r)*uint64(r+1) + 5*uint64(columns*r) }

func (o Options) observeFlops(p Plan) uint64 {
	k, experts := uint64(o.Outputs), p.experts()
	total := uint64(4*o.columns()) + 40*k*uint64(experts)
	for _, m := range p.maps() {
		total += o.mapFlops(m)
	}
	for _, m := range p.factors {
		r := o.size(m)
		for _, f := range p.forgettings {
			total += factorFlops(r, 2*o.Outputs) + renewalFlops(r, f)
		}
	}
	for _, m := range p.descents {
		total += 3 * k * uint64(descentCount*o.size(m))
	}
	for _, f := range stackForgettings() {
		r := stackSize(experts)
		total += k * (factorFlops(r, 1) + renewalFlops(r, f))
	}
	observe, _ := o.keyedFlops()
	wide, _ := o.wideFlops()
	return total + observe + wide
}

// renewalFlops counts half a rotation a renewal.
func renewalFlops(r int, forgetting float64) uint64 {
	if forgetting == unforgetting {
		return 0
	}
	return uint64(math.Ceil(newRenewal(r, forgetting).perRound() * float64(r) * float64(r+1)))
}

func (o Options) predictFlops(p Plan) uint64 {
	k, experts := uint64(o.Outputs), p.experts()
	solve := func(r, columns int) uint64 { return uint64(r*(r+1)/2 + (columns+2)*r) }
	total := uint64(2*o.columns()) + 10*k*uint64(experts) + k*stacks*solve(stackSize(experts), 1)
	for _, m := range p.maps() {
		total += o.mapFlops(m)
	}
	for _, m := range p.factors {
		total += uint64(len(p.forgettings)) * solve(o.size(m), 2*o.Outputs)
	}
	for _, m := range p.descents {
		total += k * uint64(descentCount*o.size(m))
	}
	_, predict := o.keyedFlops()
	_, wide := o.wideFlops()
	return total + predict + wide
}

// bytes is the memory of a learner without kept rows.
func (o Options) bytes(p Plan) uint64 {
	k, experts := o.Outputs, p.experts()
	total := uint64(0)
	widest := 0
	for _, m := range p.maps() {
		total += o.mapBytes(m)
		widest = max(widest, o.size(m))
	}
	total += qr.BytesOfAll(o.orders(p), 2*k)
	for _, m := range p.descents {
		total += 8 * uint64(descentCount*o.size(m)*k)
	}
	mixers := mix.Bytes(experts) + mix.Bytes(finalists) + stacks*qr.Bytes(stackSize(experts), 1) +
		8*uint64(4*(experts+finalists)+8+14+2*experts+2*overshoots+2)
	columns := (moments.Numbers+1)*(o.inputs()+k) + o.remembered()*k
	scratch := 3*o.columns() + 5*widest + 2*o.solvedNumbers(p) + (experts+finalists+4)*k + 2*stacks*stackSize(experts)
	return total + uint64(k)*mixers + 8*uint64(columns+scratch) + o.keyedBytes() + o.wideBytes() + 1024
}

func (o Options) rowBytes() uint64 {
	return 11*8 + o.keptKeyBytes() + 8*uint64(o.inputs()+o.Outputs+o.remembered()*o.Outputs)
}

// Cost is the most that a learner costs: after the last stage and the opening no rows are kept.
func Cost(o Options) model.Cost {
	n := o.numeric()
	return n.cost(n.lineup(), n.ridges())
}

func (o Options) cost(l lineup, ridges int) model.Cost {
	p := o.plan()
	c := model.Cost{
		StateBytes:   o.bytes(p) + uint64(o.last())*o.rowBytes(),
		PredictFlops: o.predictFlops(p), ObserveFlops: o.observeFlops(p),
	}
	for _, m := range p.maps() {
		c.Features += o.size(m)
	}
	if o.keyed > 0 {
		c.StateBytes += o.effects().Bytes()
	}
	if ridges > 0 {
		c.StateBytes += o.openingBytes(ridges) + o.ridgeBytes() + uint64(max(0, openingRows-o.last()))*o.rowBytes()
	}
	if !l.empty() {
		observe, predict := o.lineupFlops(p, l)
		c.StateBytes += o.level2Bytes(l) + o.memoryBytes(l) + 8*lastStage*uint64(o.Outputs)
		c.ObserveFlops += observe
		c.PredictFlops += predict
	}
	return c
}

// Size is the memory of the state.
func (l *Learner) Size() uint64 {
	size := l.fixedBytes + uint64(len(l.kept))*l.o.rowBytes() + 8*uint64(len(l.served))
	if l.awake() {
		size += l.memoryBytes
	}
	if l.keyed != nil {
		size += l.keyed.effects.Bytes()
	}
	if l.opening.fit != nil {
		size += l.o.ridgeBytes()
	}
	return size
}

func stackNames() []string {
	var names []string
	for _, f := range stackForgettings() {
		names = append(names, fmt.Sprintf("stack/forgetting_%g", f))
	}
	return names
}

func topNames() []string { return []string{"stack/top/ridge_3", "stack/top/ridge_30"} }

// expertName is the name of an expert of an output, with the output if there are several.
func (l *Learner) expertName(name string, output int) string {
	if l.o.Outputs == 1 {
		return name
	}
	return fmt.Sprintf("output_%d/%s", output, name)
}
