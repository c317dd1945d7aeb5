package gate

import (
	"fmt"
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
)

// AppendBinary appends the state to dst: that of the gate, then the learner's.
func (l *Learner) AppendBinary(dst []byte) ([]byte, error) {
	for _, v := range []uint64{
		l.rows, l.epoch, l.taken, l.count, uint64(l.recent), uint64(len(l.kept)), uint64(len(l.aside)),
		l.account.setAside, l.lastSetAside, l.starts, l.lastStart,
	} {
		dst = codec.AppendUint64(dst, v)
	}
	c := &l.closed
	dst = codec.AppendUint64(codec.AppendUint64(dst, bit(c.uncertified)), bit(c.broken))
	dst = codec.AppendFloats(dst, l.alarm, l.learnedLoss.High, l.learnedLoss.Low, l.asideLoss.High, l.asideLoss.Low)
	dst = codec.AppendFloats(dst, c.loss, c.regret, c.bound, c.certificate, c.passed, c.labelBound)
	for j := range l.trackers {
		dst = l.trackers[j].appendBinary(dst)
	}
	for _, rows := range [][]row{l.kept, l.aside} {
		for i := range rows {
			dst = rows[i].appendBinary(dst)
		}
	}
	return l.inner.AppendBinary(l.events.appendBinary(dst))
}

func bit(is bool) uint64 {
	if is {
		return 1
	}
	return 0
}

func (t *tracker) appendBinary(dst []byte) []byte {
	dst = codec.AppendFloats(dst, t.mean, t.near, t.far)
	dst = codec.AppendFloats(dst, t.moves, t.last, t.values[0], t.values[1], t.low, t.high)
	return codec.AppendUint64(dst, t.distinct)
}

func (r *row) appendBinary(dst []byte) []byte {
	dst = codec.AppendFloats(codec.AppendFloats(dst, r.x...), r.y...)
	dst = codec.AppendFloats(dst, r.weight, r.loss, r.size)
	return codec.AppendFloats(codec.AppendUint64(dst, uint64(len(r.advice))), r.advice...)
}

func (e *events) appendBinary(dst []byte) []byte {
	dst = codec.AppendUint64(dst, e.seen)
	dst = codec.AppendUint64(codec.AppendUint64(dst, uint64(len(e.pending))), uint64(len(e.earlier)))
	dst = codec.AppendFloats(codec.AppendFloats(dst, e.least), e.fortunes...)
	for _, p := range e.pending {
		dst = codec.AppendFloats(codec.AppendUint64(dst, uint64(p.since)), p.x...)
	}
	for _, x := range e.earlier {
		dst = codec.AppendFloats(dst, x...)
	}
	return codec.AppendFloats(dst, e.window[:min(e.seen, compared)*uint64(e.dimension())]...)
}

// Bounds of the numbers of a state. Labels are within 1e100, and predictions of any learner
// within 1e120.
const (
	maxRows   = 1 << 53
	maxLabel  = 4 * model.MaxMagnitude
	maxAdvice = 1e150
	maxSum    = 1e290
	// A fortune grows by less than 100 a round, and earlier ones are at least poorest.
	maxFortune = 1e200
)

// Restore replaces the state by one that AppendBinary wrote for the same spec.
func (l *Learner) Restore(state []byte) error {
	reader := codec.NewReader(state)
	s := newState(l.o)
	if err := s.read(reader, l.o); err != nil {
		return fmt.Errorf("gate: restore: %w", err)
	}
	inner := l.o.New()
	if err := inner.Restore(reader.Bytes(reader.Len())); err != nil {
		return fmt.Errorf("gate: restore: %w", err)
	}
	l.inner, l.state = inner, s
	return nil
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), model.ErrCorruptState)
}

// read is Restore into the state of a gate that has seen nothing.
func (s *state) read(reader *codec.Reader, o Options) error {
	var recent, kept, aside, uncertified, broken uint64
	for _, v := range []*uint64{
		&s.rows, &s.epoch, &s.taken, &s.count, &recent, &kept, &aside,
		&s.setAside, &s.lastSetAside, &s.starts, &s.lastStart, &uncertified, &broken,
	} {
		*v = reader.Uint64()
	}
	if err := reader.Err(); err != nil {
		return err
	}
	switch {
	case s.rows > maxRows || s.epoch > maxRows || s.taken > s.rows || s.count > s.taken:
		return corrupt("%d rows, %d learners, %d rows of this start, %d of them tracked", s.rows, s.epoch, s.taken, s.count)
	case kept > o.last() || kept > s.taken || aside > asideRows || recent > min(aside, ringRows):
		return corrupt("%d rows kept, %d aside, %d of them recent", kept, aside, recent)
	case s.setAside > maxRows || s.lastSetAside > s.rows || s.starts > s.rows || s.lastStart > s.rows:
		return corrupt("%d rows set aside until row %d, %d starts until row %d of %d",
			s.setAside, s.lastSetAside, s.starts, s.lastStart, s.rows)
	case uncertified > 1 || broken > 1:
		return corrupt("closed starts: uncertified %d, broken %d", uncertified, broken)
	}
	s.recent, s.closed.uncertified, s.closed.broken = int(recent), uncertified == 1, broken == 1
	if err := s.readNumbers(reader); err != nil {
		return err
	}
	for j := range s.trackers {
		if err := s.trackers[j].read(reader); err != nil {
			return err
		}
	}
	for range kept {
		if err := readRow(reader, &s.kept, o); err != nil {
			return err
		}
	}
	for range aside {
		if err := readRow(reader, &s.aside, o); err != nil {
			return err
		}
	}
	return s.events.read(reader)
}

func (s *state) readNumbers(reader *codec.Reader) error {
	reader.Within(restartAlarm, &s.alarm)
	reader.Within(maxSum, &s.learnedLoss.High, &s.learnedLoss.Low, &s.asideLoss.High, &s.asideLoss.Low)
	c := &s.closed
	for _, v := range []*float64{&c.loss, &c.regret, &c.bound, &c.certificate, &c.passed} {
		if *v = reader.Float(); math.IsInf(*v, 0) { // A figure that a learner cannot tell is NaN.
			return corrupt("a sum over the starts is %g", *v)
		}
	}
	reader.Within(maxAdvice, &c.labelBound)
	if reader.Err() == nil && s.alarm < 0 {
		return corrupt("an alarm of %g", s.alarm)
	}
	return reader.Err()
}

func (t *tracker) read(reader *codec.Reader) error {
	reader.Within(maxLabel, &t.mean, &t.near, &t.far)
	reader.Within(maxLabel, &t.moves, &t.last, &t.values[0], &t.values[1], &t.low, &t.high)
	t.distinct = reader.Uint64()
	if err := reader.Err(); err != nil {
		return err
	}
	if t.near < 0 || t.far < 0 || t.moves < 0 || t.moves > 1 || t.distinct > 3 {
		return corrupt("a tracker of %g, %g, %g and %d values", t.near, t.far, t.moves, t.distinct)
	}
	return nil
}

func readRow(reader *codec.Reader, rows *[]row, o Options) error {
	r := row{x: make([]float64, o.Dimension), y: make([]float64, o.Outputs)}
	reader.FloatsWithin(model.MaxMagnitude, r.x)
	reader.FloatsWithin(model.MaxMagnitude, r.y)
	reader.Within(maxSum, &r.weight, &r.loss, &r.size)
	n := reader.Uint64()
	if err := reader.Err(); err != nil {
		return err
	}
	if err := model.CheckWeight(r.weight); err != nil {
		return corrupt("a row: %v", err)
	}
	if n != 0 && n != uint64(o.Advice) {
		return corrupt("a row with advice of %d numbers, want %d", n, o.Advice)
	}
	if n > 0 {
		r.advice = make([]float64, n)
		reader.FloatsWithin(maxAdvice, r.advice)
	}
	*rows = append(*rows, r)
	return reader.Err()
}

func (e *events) read(reader *codec.Reader) error {
	e.seen = reader.Uint64()
	count, earlier := reader.Uint64(), reader.Uint64()
	reader.Within(maxSum, &e.least)
	if err := reader.Err(); err != nil {
		return err
	}
	d := e.dimension()
	if e.seen > maxRows || count > half/spacing || earlier > asideRows || e.least < 0 || (d == 0 && e.seen+count+earlier > 0) {
		return corrupt("%d inputs, %d to be compared, %d compared", e.seen, count, earlier)
	}
	reader.FloatsWithin(maxFortune, e.fortunes)
	for range count {
		since, x := reader.Uint64(), make([]float64, d)
		reader.FloatsWithin(model.MaxMagnitude, x)
		if reader.Err() == nil && since >= half {
			return corrupt("an input that was to be compared %d rows ago", since)
		}
		e.pending = append(e.pending, pending{x: x, since: int(since)})
	}
	for range earlier {
		x := make([]float64, d)
		reader.FloatsWithin(model.MaxMagnitude, x)
		e.earlier = append(e.earlier, x)
	}
	reader.FloatsWithin(model.MaxMagnitude, e.window[:min(e.seen, compared)*uint64(d)])
	for _, v := range e.fortunes {
		if reader.Err() == nil && v < poorest {
			return corrupt("a fortune of %g", v)
		}
	}
	return reader.Err()
}
