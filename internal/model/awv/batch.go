package awv

import (
	"slices"

	"hindsight/internal/model"
	"hindsight/internal/model/qr"
)

// ObserveAll takes minBatch to maxBatch rows at a time, which share a pass: as many that the bytes of the factor times the
// rows are at most batchBytes. The rows of a batch of order 2048 take some milliseconds.
const (
	minBatch, maxBatch = 8, 32
	batchBytes         = 1 << 27
)

// Together is 1 if the forecaster forgets or mixes prefixes, by passes between two rows.
func (f *Forecaster) Together() int {
	if f.renewal != nil || f.prefixes != nil {
		return 1
	}
	return max(minBatch, min(maxBatch, int(batchBytes/qr.Bytes(f.factor.Order(), f.o.Outputs))))
}

// ObserveAll learns the observations by passes over R that several share.
func (f *Forecaster) ObserveAll(outcomes []model.Outcome, all []model.Observation) error {
	if err := model.CheckAll(f, all); err != nil {
		return err
	}
	lent := f.takeTurns(len(all))
	defer f.batches.Put(lent)
	turns := (*lent)[:len(all)]
	for n, o := range all {
		f.features.Map(turns[n].Row[:f.factor.Order()], o.X)
		f.scaleRow(turns[n].Row, o.Y, o.Weight)
	}
	qr.RotateSequence(turns)
	for n, o := range all {
		f.addTrace(o.X, o.Weight)
		f.accountFor(&outcomes[n], o.Y, o.Weight, turns[n].Row, turns[n].Priors, turns[n].Rotation)
	}
	return nil
}

// Together returns how many observations the forecasters learn together, 1 without a mixture.
func (r *Ridges) Together() int {
	if r.outputs == nil {
		return 1
	}
	return r.forecasters[0].Together()
}

// ObserveAll learns the observations together in each forecaster, one by one in the mixture.
func (r *Ridges) ObserveAll(outcomes []model.Outcome, all []model.Observation) error {
	if err := model.CheckAll(r, all); err != nil {
		return err
	}
	turns, order := make([][]qr.Turn, len(r.forecasters)), r.features.Size()
	for k, f := range r.forecasters {
		lent := f.takeTurns(len(all))
		defer f.batches.Put(lent)
		turns[k] = (*lent)[:len(all)]
	}
	for n, o := range all {
		r.features.Map(turns[0][n].Row[:order], o.X)
		for k, f := range slices.Backward(r.forecasters) { // The first holds the features, and scales them.
			row := turns[k][n].Row
			copy(row[:order], turns[0][n].Row)
			f.scaleRow(row, o.Y, o.Weight)
		}
	}
	for k := range turns {
		qr.RotateSequence(turns[k])
	}
	for n, o := range all {
		for k, f := range r.forecasters {
			t := &turns[k][n]
			f.addTrace(o.X, o.Weight)
			f.accountFor(&r.outcomes[k], o.Y, o.Weight, t.Row, t.Priors, t.Rotation)
		}
		r.mix(&outcomes[n], o.Y, o.Weight)
	}
	return nil
}

func (f *Forecaster) takeTurns(count int) *[]qr.Turn {
	turns, ok := f.batches.Get().(*[]qr.Turn)
	width := f.factor.Order() + f.o.Outputs
	if !ok || len(*turns) < count || len((*turns)[0].Row) != width || len((*turns)[0].Priors) != f.o.Outputs {
		made, priors := make([]qr.Turn, count), make([]float64, count*f.o.Outputs)
		for n, row := range qr.NewRows(count, width) {
			made[n].Row = row
			made[n].Priors, priors = priors[:f.o.Outputs:f.o.Outputs], priors[f.o.Outputs:]
		}
		turns = &made
	}
	for n := range *turns {
		(*turns)[n].Factor, (*turns)[n].Root = f.factor, 1
	}
	return turns
}
