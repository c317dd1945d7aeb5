package auto

import (
	"hindsight/internal/model/mix"
	"hindsight/internal/model/qr"
)

const (
	// Of finding a key: memory that is in no cache.
	keyFlops = 500
	// Of what a key says and learns of an output.
	effectFlops = 200
)

// keyedFlops are nominal multiply-adds of the keys in an Observe and in a Predict.
func (o Options) keyedFlops() (observe, predict uint64) {
	if o.keyed == 0 {
		return 0, 0
	}
	k, sources := uint64(o.Outputs), uint64(o.effects().Sources())
	both := sources*(keyFlops+effectFlops*k/4) + k*uint64(40*o.keyExperts())
	for i := range o.keyForecasters() {
		r := o.keyAffineOrder(i)
		both += k * uint64(r*(r+1)/2+4*r)
		observe += k * (factorFlops(r, keyTargets) + renewalFlops(r, keyForgettings()[i]))
	}
	return both + observe + k*effectFlops*sources, both
}

// keyedBytes is the memory of the level of the keys with its scratch, without the table of keys.
func (o Options) keyedBytes() uint64 {
	if o.keyed == 0 {
		return 0
	}
	e, c, r := o.keyExperts(), o.keyColumns(), o.keyAffineSize()
	each := mix.Bytes(1+e) + 8*uint64(4*(e+1)+6) + 16*uint64(e)
	for i := range o.keyForecasters() {
		each += qr.Bytes(o.keyAffineOrder(i), keyTargets)
	}
	scratch := 3*e + c + 3*r + 16
	return uint64(o.Outputs)*(each+8*uint64(scratch)) + uint64(16*o.effects().Sources()+8*(o.keyed+o.inputs()+2*o.sloped()))
}

func (o Options) keptKeyBytes() uint64 {
	if o.keyed == 0 {
		return 0
	}
	return 48 + 8*uint64((o.keyColumns()+1)*o.Outputs)
}
