package awv

import (
	"hindsight/internal/model"
	"hindsight/internal/model/qr"
)

// What ObserveAll takes at a time: most rows at most, which share a pass, and no more than
// bytes bytes of the factor times rows, but least rows. Those of order 2048 take some ms.
const (
	least, most = 8, 32
	bytes       = 1 << 27
)

// Together is 1 if the forecaster forgets: it then has passes of its own between two rows.
func (f *Forecaster) Together() int {
	if f.renewal != nil {
		return 1
	}
	return max(least, min(most, int(bytes/qr.Bytes(f.factor.Order(), f.o.Outputs))))
}

// ObserveAll learns the observations by passes over R that several share.
func (f *Forecaster) ObserveAll(outcomes []model.Outcome, all []model.Observation) error {
	if err := model.CheckAll(f, all); err != nil {
		return err
	}
	turns := f.takeTurns(len(all))
	defer f.batches.Put(turns)
	for n, o := range all {
		t := &(*turns)[n]
		t.Factor, t.Root = f.factor, 1
		f.features.Map(t.Row[:f.factor.Order()], o.X)
		f.weigh(t.Row, o.Y, o.Weight)
	}
	qr.RotateSequence((*turns)[:len(all)])
	for n, o := range all {
		t := &(*turns)[n]
		f.settle(&outcomes[n], o.Y, o.Weight, t.Row, t.Priors, t.Rotation)
	}
	return nil
}

// takeTurns returns count turns or more with rows.
func (f *Forecaster) takeTurns(count int) *[]qr.Turn {
	turns, ok := f.batches.Get().(*[]qr.Turn)
	width := f.factor.Order() + f.o.Outputs
	if ok && len(*turns) >= count && len((*turns)[0].Row) == width && len((*turns)[0].Priors) == f.o.Outputs {
		return turns
	}
	made, priors := make([]qr.Turn, count), make([]float64, count*f.o.Outputs)
	for n, row := range qr.NewRows(count, width) {
		made[n].Row = row
		made[n].Priors, priors = priors[:f.o.Outputs:f.o.Outputs], priors[f.o.Outputs:]
	}
	return &made
}
