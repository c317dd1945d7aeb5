package classes

import (
	"math"

	"hindsight/internal/model/codec"
	"hindsight/internal/model/exponential"
)

const (
	// There are rankBins bins of log-odds from −rankOdds to rankOdds, an eighth each.
	rankBins = 256
	rankOdds = 16
)

// A ranking counts the log-odds of class 1 of two, by the observed class.
type ranking [2][rankBins]uint64

// Ranking says how well probabilities tell the rarer class of two from the other one. Each
// observation counts once.
type Ranking struct {
	// Class is the rarer class, 1 of equally frequent ones.
	Class int
	// AUC is the probability that an observation of the class has a larger probability of it than
	// one of the other class, both at random; a tie counts half. Probabilities whose log-odds
	// share an eighth are ties.
	AUC float64
	// F1 is the largest 2 Precision Recall/(Precision + Recall) of the rules that say the class
	// from a probability on. Threshold is that probability.
	F1, Precision, Recall, Threshold float64
}

func (r *ranking) count(p float64, class int) {
	odds := exponential.Log(math.Max(p, minProbability)) - exponential.Log(math.Max(1-p, minProbability))
	bin := int((odds + rankOdds) * rankBins / (2 * rankOdds))
	r[class][max(0, min(rankBins-1, bin))]++
}

// summary is nil unless both of two classes were counted.
func (r *ranking) summary() *Ranking {
	totals := [...]float64{r.of(0), r.of(1)}
	if totals[0] == 0 || totals[1] == 0 {
		return nil
	}
	out := &Ranking{Class: 1}
	if totals[0] < totals[1] {
		out.Class = 0
	}
	found, said, above := 0.0, 0.0, 0.0 // From the largest probability of the class on.
	for i := range rankBins {
		bin := rankBins - 1 - i
		low := bin
		if out.Class == 0 {
			bin, low = i, i+1
		}
		in, other := float64(r[out.Class][bin]), float64(r[1-out.Class][bin])
		above += other * (found + in/2)
		found, said = found+in, said+in+other
		if f1 := 2 * found / (totals[out.Class] + said); in > 0 && f1 > out.F1 {
			odds := float64(low)*2*rankOdds/rankBins - rankOdds
			if out.Class == 0 {
				odds = -odds
			}
			out.F1, out.Precision, out.Recall = f1, found/said, found/totals[out.Class]
			out.Threshold = 1 / (1 + exponential.Of(-odds))
		}
	}
	out.AUC = above / (totals[0] * totals[1])
	return out
}

func (r *ranking) visit(v *codec.Visitor) {
	for class := range r {
		for bin := range r[class] {
			v.Uint64(&r[class][bin])
		}
	}
}

func (r *ranking) total() float64 { return r.of(0) + r.of(1) }

func (r *ranking) of(class int) (total float64) {
	for _, n := range r[class] {
		total += float64(n)
	}
	return total
}
