package history

import (
	"hindsight/internal/engine/account"
	"hindsight/internal/engine/account/classes"
)

// A row has, in words of 32 bits: the time in two words; the figures of the moment; the sums
// of the figures; the number of judged intervals and, for each level, the number of intervals
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

// The first figure is the number of judged observations. Figures of real labels are then the losses of the predictions and of the two
// baselines, prequential and served. A classifier has two losses, and five figures prequential
// and served.
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

// counts returns the number of counts of intervals.
func (s Shape) counts() int {
	if s.Levels == 0 {
		return 0
	}
	return 1 + s.Levels
}

// width returns the number of words of a row with so many experts.
func (s Shape) width(experts int) int { return sums + s.figures() + s.counts() + (experts+1)/2 }

func (h *History) width() int { return h.shape.width(h.experts) }

// add adds the figures of one observation.
func (s Shape) add(to []float64, p *account.Performance, c *classes.Performance) {
	to[0] += p.Observations
	if !s.Classes {
		to = to[1:figuresOfLabels]
		to[0] += p.Prequential.Loss
		to[1] += p.Prequential.RunningMean
		to[2] += p.Prequential.LastLabel
		to[3] += p.Served.Loss
		to[4] += p.Served.RunningMean
		to[5] += p.Served.LastLabel
		return
	}
	to = to[1:figuresOfClasses]
	to[0] += p.Prequential.Loss
	to[1] += p.Served.Loss
	for i, f := range [...]*classes.Figures{&c.Prequential, &c.Served} {
		figures := to[2+5*i:][:5]
		figures[0] += f.Errors
		figures[1] += f.LogLoss
		figures[2] += f.Brier
		figures[3] += f.Majority
		figures[4] += f.Last
	}
}

// read reads the sums of a row.
func (s Shape) read(p *Point, row []uint32) {
	p.Performance.Observations = long(row[0])
	row = row[1:]
	if !s.Classes {
		p.Performance.Prequential = account.Figures{Loss: long(row[0]), RunningMean: long(row[1]), LastLabel: long(row[2])}
		p.Performance.Served = account.Figures{Loss: long(row[3]), RunningMean: long(row[4]), LastLabel: long(row[5])}
		return
	}
	p.Performance.Prequential.Loss, p.Performance.Served.Loss = long(row[0]), long(row[1])
	p.Classes = &classes.Performance{Observations: p.Performance.Observations}
	for i, f := range [...]*classes.Figures{&p.Classes.Prequential, &p.Classes.Served} {
		figures := row[2+5*i:][:5]
		*f = classes.Figures{
			Errors: long(figures[0]), LogLoss: long(figures[1]), Brier: long(figures[2]), Majority: long(figures[3]), Last: long(figures[4]),
		}
	}
}
