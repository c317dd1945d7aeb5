package input

import (
	"math"
	"slices"
)

const (
	// How many records a window has.
	window = 512
	// The bins of an input, the last for missing values, the one before it
	// also for categories after the first nine.
	bins       = 11
	missingBin = bins - 1
	restBin    = bins - 2
	// How many numbers the bins of numbers are made from.
	sampled = 100
)

// shift compares the last window of records with all records before it; see the
// package. Its state is bins and, at first, a sample.
type shift struct {
	// sample has the first numbers until there are edges, nil after that and if none are needed.
	sample  []float64
	sampled bool // There are edges, or no need for any.
	edges   [bins - 2]float64
	// recent has the last complete block of window records, before has the records
	// before it, and open the opened records after it. opened < window.
	before, recent, open [bins]uint64
	opened               uint64
}

func (s *shift) size() uint64 { return 8 * uint64(cap(s.sample)) }

func (s *shift) addMissing() {
	if s.sampled {
		s.add(missingBin)
	} else {
		s.before[missingBin]++
	}
}

func (s *shift) addNumber(v float64) {
	if s.sampled {
		s.add(s.bin(v))
		return
	}
	if s.sample == nil {
		s.sample = make([]float64, 0, sampled)
	}
	s.sample = append(s.sample, v)
	if len(s.sample) < sampled {
		return
	}
	slices.Sort(s.sample)
	for k := range s.edges {
		s.edges[k] = s.sample[(k+1)*sampled/(len(s.edges)+1)]
	}
	for _, v := range s.sample {
		s.before[s.bin(v)]++
	}
	s.sample, s.sampled = nil, true
}

// bin is the bin of a number: how many edges it reaches.
func (s *shift) bin(v float64) int {
	n := 0
	for _, edge := range s.edges {
		if v >= edge {
			n++
		}
	}
	return n
}

func (s *shift) add(bin int) {
	s.open[bin]++
	s.opened++
	if s.opened < window {
		return
	}
	for i, n := range s.recent {
		s.before[i] += n
	}
	s.recent, s.open, s.opened = s.open, [bins]uint64{}, 0
}

// index is the population stability index of the last window of records: of the records of
// open, and of the rest of the window from recent. Which records of recent are the rest
// is not known, so that every bin gives the same part. The index is not known before there
// is a recent block and as many records before it.
func (s *shift) index() (psi float64, known bool) {
	before := total(&s.before)
	if total(&s.recent) == 0 || before < window {
		return 0, false
	}
	left := float64(s.opened) / window // The part of recent that has left the window.
	n := float64(before + s.opened)
	for i := range bins {
		recent := float64(s.recent[i])
		p := (float64(s.open[i]) + float64((1-left)*recent) + 0.5) / (window + bins/2.0)
		q := (float64(s.before[i]) + float64(left*recent) + 0.5) / (n + bins/2.0)
		psi += float64((p - q) * math.Log(p/q))
	}
	return psi, true
}

func total(counts *[bins]uint64) uint64 {
	var sum uint64
	for _, n := range counts {
		sum += n
	}
	return sum
}
