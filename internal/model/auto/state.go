package auto

import (
	"fmt"
	"math"
	"slices"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/compensated"
	"hindsight/internal/model/mlpoly"
	"hindsight/internal/model/qr"
)

// AppendBinary appends the state to dst. What follows from the spec, the
// frequencies, is not in it; the number of rows that are kept follows from that
// of observations.
func (l *Learner) AppendBinary(dst []byte) ([]byte, error) {
	dst = slices.Grow(dst, l.stateBytes())
	late := uint64(0)
	if l.late {
		late = 1
	}
	dst = codec.AppendUint64(codec.AppendUint64(codec.AppendUint64(dst, l.n), late), l.stackRounds)
	for _, m := range []*moments{&l.inputs, &l.labels} {
		dst = codec.AppendFloats(codec.AppendFloats(dst, m.mean...), m.squares...)
	}
	dst = codec.AppendFloats(dst, l.lags...)
	for i := range l.kept {
		dst = l.kept[i].appendBinary(dst)
	}
	dst = codec.AppendFloats(dst, l.bandwidths.median, l.bandwidths.lagged)
	dst = codec.AppendFloats(dst, l.bandwidths.sparse...)
	for i := range l.experts {
		for _, f := range l.experts[i].factors {
			dst = codec.AppendFloats(dst, f.Packed()...)
		}
		for _, theta := range l.experts[i].descents {
			dst = codec.AppendFloats(dst, theta...)
		}
	}
	for j := range l.mixers {
		dst = l.mixers[j].appendBinary(dst)
	}
	return dst, nil
}

// stateBytes is what AppendBinary appends.
func (l *Learner) stateBytes() int {
	o, k := l.o, l.plan.experts()
	numbers := 3 + 2*(o.Dimension+o.Outputs) + len(l.lags) + 2 + len(l.bandwidths.sparse)
	numbers += len(l.kept) * (o.Dimension + o.Outputs + len(l.lags) + 2)
	for i := range l.experts {
		for _, f := range l.experts[i].factors {
			numbers += len(f.Packed())
		}
		for _, theta := range l.experts[i].descents {
			numbers += len(theta)
		}
	}
	mixer := stacks*qr.Size(stackSize(k), 1) + 1 + 6 + 5 + 6 + 4*(k+finalists)
	if o.Gated {
		mixer += l.mixers[0].gated.stateNumbers()
	}
	return 8*(numbers+o.Outputs*mixer) + o.Outputs*(mlpoly.StateBytes(k)+mlpoly.StateBytes(finalists))
}

func (r *row) appendBinary(dst []byte) []byte {
	dst = codec.AppendFloats(codec.AppendFloats(codec.AppendFloats(dst, r.x...), r.y...), r.lags...)
	return codec.AppendFloats(codec.AppendUint64(dst, r.seen), r.weight)
}

func (m *mixer) appendBinary(dst []byte) []byte {
	dst = m.final.AppendBinary(m.base.AppendBinary(dst))
	for _, f := range m.stacks {
		dst = codec.AppendFloats(dst, f.Packed()...)
	}
	signs := uint64(0)
	if m.signs {
		signs = 1
	}
	dst = codec.AppendUint64(dst, signs)
	dst = codec.AppendFloats(dst, m.residual, m.low, m.high)
	dst = codec.AppendFloats(dst, m.recent, m.offset, m.scale)
	c := &m.calibration
	dst = codec.AppendFloats(dst, c.slope, c.shift, c.aa, c.ac, c.cc)
	a := &m.account
	for _, s := range []*compensated.Sum{&a.loss, &a.before, &a.early} {
		dst = codec.AppendFloats(dst, s.High, s.Low)
	}
	for _, sums := range [][]compensated.Sum{a.losses, a.leads} {
		for i := range sums {
			dst = codec.AppendFloats(dst, sums[i].High, sums[i].Low)
		}
	}
	if m.gated != nil {
		dst = m.gated.appendBinary(dst)
	}
	return dst
}

// Bounds of the numbers of a state. Scaled labels are within 1e100, weights
// below 1e9, scaled inputs below 1e6.
const (
	maxObservations = 1 << 53
	leastDiagonal   = 1e-5 // Of √λ: a ridge falls to λ/1000.
	maxEntry        = 1e120
	maxSum          = 1e240
	maxDistance     = 1e12
	maxReach        = 5 * model.MaxMagnitude // Of advice behind a gate.
)

// Restore replaces the state by one that AppendBinary wrote for the same spec.
// It refuses numbers that no stream of observations leads to.
func (l *Learner) Restore(state []byte) error {
	reader := codec.NewReader(state)
	s := newState(l.o, l.plan, l.maps)
	if err := s.read(reader, l.o); err != nil {
		return fmt.Errorf("auto: restore: %w", err)
	}
	if err := reader.End(); err != nil {
		return fmt.Errorf("auto: restore %d experts: %w", l.plan.experts(), err)
	}
	l.state = s
	return nil
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), model.ErrCorruptState)
}

// read is Restore into the state of a learner that has seen nothing.
func (l *state) read(reader *codec.Reader, o Options) error {
	l.n = reader.Uint64()
	late := reader.Uint64()
	l.stackRounds = reader.Uint64()
	if reader.Err() == nil && (l.n > maxObservations || late > 1 || l.stackRounds > l.n) {
		return corrupt("%d observations, late %d, %d rounds of stacks", l.n, late, l.stackRounds)
	}
	l.late = late == 1
	for _, m := range []*moments{&l.inputs, &l.labels} {
		reader.FloatsWithin(model.MaxMagnitude, m.mean)
		reader.FloatsWithin(maxSum, m.squares)
		if slices.Min(m.squares) < 0 {
			return corrupt("a column has a sum of squares of %g", slices.Min(m.squares))
		}
		m.rescale(l.n)
	}
	reader.FloatsWithin(model.MaxMagnitude, l.lags)
	if reader.Err() == nil && l.n < uint64(o.last()) {
		for i := range l.n {
			if err := l.readRow(reader, i, o); err != nil {
				return err
			}
		}
	}
	b := &l.bandwidths
	reader.Within(maxDistance, &b.median, &b.lagged)
	reader.FloatsWithin(maxDistance, b.sparse)
	for _, v := range append([]float64{b.median, b.lagged}, b.sparse...) {
		if reader.Err() == nil && v < leastDistance {
			return corrupt("a bandwidth is %g", v)
		}
	}
	if err := l.readExperts(reader); err != nil {
		return err
	}
	for j := range l.mixers {
		if err := l.mixers[j].read(reader, l.n); err != nil {
			return err
		}
	}
	return reader.Err()
}

func (l *state) readRow(reader *codec.Reader, at uint64, o Options) error {
	r := row{
		x: make([]float64, o.Dimension), y: make([]float64, o.Outputs), lags: make([]float64, len(l.lags)),
	}
	for _, numbers := range [][]float64{r.x, r.y, r.lags} {
		reader.FloatsWithin(model.MaxMagnitude, numbers)
	}
	r.seen, r.weight = reader.Uint64(), reader.Float()
	if err := reader.Err(); err != nil {
		return err
	}
	if r.seen > at || model.CheckWeight(r.weight) != nil {
		return corrupt("row %d after %d labels with a weight of %g", at, r.seen, r.weight)
	}
	l.kept = append(l.kept, r)
	return nil
}

func (l *state) readExperts(reader *codec.Reader) error {
	for i := range l.experts {
		e := &l.experts[i]
		for f := range e.factors {
			if err := readFactor(reader, &e.factors[f], ridge); err != nil {
				return err
			}
		}
		for _, theta := range e.descents {
			reader.FloatsWithin(maxEntry, theta)
		}
	}
	return reader.Err()
}

// readFactor replaces a factor by one of the same shape.
func readFactor(reader *codec.Reader, f **qr.Factor, lambda float64) error {
	read := qr.New((*f).Order(), (*f).Columns(), lambda)
	v := codec.ReadingFrom(reader)
	if read.Visit(&v, leastDiagonal*math.Sqrt(lambda), maxEntry); v.Err() != nil {
		return v.Err()
	}
	*f = read
	return nil
}

func (m *mixer) read(reader *codec.Reader, n uint64) error {
	if err := m.base.Restore(reader); err != nil {
		return err
	}
	if err := m.final.Restore(reader); err != nil {
		return err
	}
	for i := range m.stacks {
		if err := readFactor(reader, &m.stacks[i], stackRidge); err != nil {
			return err
		}
	}
	signs := reader.Uint64()
	m.signs = signs == 1
	reader.Within(2*maxReach, &m.residual)
	reader.Within(2*model.MaxMagnitude, &m.low, &m.high)
	reader.Within(2*model.MaxMagnitude, &m.recent, &m.offset, &m.scale)
	c := &m.calibration
	reader.Within(maxSlope, &c.slope, &c.shift)
	reader.Within(maxSum, &c.aa, &c.ac, &c.cc)
	a := &m.account
	for _, s := range []*compensated.Sum{&a.loss, &a.before, &a.early} {
		reader.Within(maxSum, &s.High, &s.Low)
	}
	for _, sums := range [][]compensated.Sum{a.losses, a.leads} {
		for i := range sums {
			reader.Within(maxSum, &sums[i].High, &sums[i].Low)
		}
	}
	if m.gated != nil {
		if err := m.gated.read(reader); err != nil {
			return err
		}
	}
	if err := reader.Err(); err != nil {
		return err
	}
	most := math.Max(math.Abs(m.low), math.Abs(m.high))
	switch {
	case signs > 1 || m.low > m.high || most > model.MaxMagnitude || (n == 0 && most != 0):
		return corrupt("labels from %g to %g, signs %d", m.low, m.high, signs)
	case m.signs && n > 0 && most != 1:
		return corrupt("signs from %g to %g", m.low, m.high)
	case !(m.scale >= leastScale):
		return corrupt("a label scale of %g", m.scale)
	}
	if m.reach(n); n > 0 {
		if low, high := m.widest(); !(low <= m.floor && high >= m.ceiling) {
			return corrupt("advice from %g to %g within %g to %g", m.floor, m.ceiling, low, high)
		}
	}
	return c.check()
}

// check accepts a curvature that is at least that of the prior, to rounding.
func (c *calibration) check() error {
	const least, most = 0.99 * priorWeight, 1e12
	if !(c.aa >= least && c.cc >= least && c.aa <= most && c.cc <= most) ||
		!(float64(c.aa*c.cc)-float64(c.ac*c.ac) >= least*least) {
		return corrupt("a calibration of curvature %g, %g, %g", c.aa, c.ac, c.cc)
	}
	return nil
}
