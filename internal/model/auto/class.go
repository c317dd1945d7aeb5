package auto

import "hindsight/internal/model/regret"

// Class is the functions of one map, as of the forecasters of level 1. Scales and maps are known from the
// last stage on.
func (l *Learner) Class() (c regret.Class, known bool) {
	c = regret.Class{Lambda: ridge}
	for _, m := range l.maps {
		c.Sizes = append(c.Sizes, m.size)
	}
	for j := range l.mixers {
		u := &l.mixers[j].units
		c.Offsets, c.Scales = append(c.Offsets, u.offset), append(c.Scales, 1/u.scale)
	}
	return c, l.n > uint64(l.o.last())
}

// AppendInput appends the features of every map. Their lags are the labels before the next round.
func (l *Learner) AppendInput(dst, x []float64) []float64 {
	s := l.pool.Get().(*scratch) //nolint:forcetypeassert // The pool holds nothing else.
	defer l.pool.Put(s)
	l.present(s, l.split(s, x), l.lags, l.n)
	for _, m := range l.maps {
		from := len(dst)
		dst = append(dst, make([]float64, m.size)...)
		m.fill(dst[from:], s, &l.bandwidths)
	}
	return dst
}
