package history

import (
	"hindsight/internal/engine/account"
	"hindsight/internal/engine/account/classes"
)

// A row has, in words of 32 bits: the time in two words; the figures of the moment; the sums
// of the figures; the number of scored intervals and, for each level, the number of intervals
// that contained their label; the weights of two experts a word. All but the time and the
// weights are shorts.
const (
	timeLow = iota
	timeHigh
	regret
	bound
	dictionary
	sums
)

// How many figures Shape.fields gives.
const (
	figuresOfLabels  = 7
	figuresOfClasses = 13
)

// figures returns the number of sums over observations.
func (s Shape) figures() int {
	if s.Classes {
		return figuresOfClasses
	}
	return figuresOfLabels
}

func (s Shape) counts() int {
	if s.Levels == 0 {
		return 0
	}
	return 1 + s.Levels
}

func (s Shape) width(experts int) int { return sums + s.figures() + s.counts() + (experts+1)/2 }

func (h *History) width() int { return h.shape.width(h.experts) }

// fields appends the figures of a row to dst, in their order.
func (s Shape) fields(dst []*float64, p *account.Performance, c *classes.Performance) []*float64 {
	dst = append(dst, &p.Observations)
	if !s.Classes {
		for _, f := range [...]*account.Figures{&p.Prequential, &p.Served} {
			dst = append(dst, &f.Loss, &f.RunningMean, &f.LastLabel)
		}
		return dst
	}
	dst = append(dst, &p.Prequential.Loss, &p.Served.Loss)
	for _, f := range [...]*classes.Figures{&c.Prequential, &c.Served} {
		dst = append(dst, &f.Errors, &f.LogLoss, &f.Brier, &f.Majority, &f.Last)
	}
	return dst
}

func (s Shape) add(to []float64, p *account.Performance, c *classes.Performance) {
	var room [figuresOfClasses]*float64
	for i, figure := range s.fields(room[:0], p, c) {
		to[i] += *figure
	}
}

func (s Shape) read(p *Point, row []uint32) {
	if s.Classes {
		p.Classes = new(classes.Performance)
	}
	for i, figure := range s.fields(nil, &p.Performance, p.Classes) {
		*figure = long(row[i])
	}
	if s.Classes {
		p.Classes.Observations = p.Performance.Observations
	}
}
