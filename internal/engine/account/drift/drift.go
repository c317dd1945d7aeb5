// Package drift detects when the losses of a model have changed. It uses the losses
// alone, needs no scale and has no parameters.
//
// Sixteen consecutive losses are a block. The statistic of a block is the mean of its
// square roots. The blocks since the last change are the reference. Every
// new block gets a conformal p-value: its rank from above among the reference and
// itself, with ties broken by a number u in (0, 1):
//
//	p = (#greater + u·#equal)/n
//
// If the blocks are exchangeable, like blocks of independent losses of one
// distribution, the p are independent and uniform, whatever the
// distribution is. Then f(p) = 1/(2√p) is a fair bet on a rise, f(1−p) on a fall, and
//
//	R ← (R + 1) f
//
// is the e-detector of Shiryaev and Roberts: R minus the number of blocks is a
// martingale.
//
// These bets grow slowly when few blocks came before the change, because the
// blocks after the change join the reference. A second bet wins then: it bets on a
// change that separates, so that the j-th block after the change is among the j
// largest of the n in the reference,
//
//	g(p) = n/j if p ≤ j/n, else 0,  Q ← (Q + 1) g
//
// Here j is 1 plus the number of consecutive bets g that were won. The j is known
// before p, so g is as fair as f, and the mixture E = (15 R + Q)/16 is an
// e-detector too. A change is detected when E reaches 25,000 in one of the two
// directions. The mean number of losses between two false alarms is therefore at
// least 200,000.
//
// Sources: Vovk, Gammerman and Shafer, Algorithmic Learning in a Random World
// (2005), for the p-values; Shin, Ramdas and Rinaldo, E-detectors (2022), for R.
package drift

import "math"

const (
	block = 16
	// The minimum of the mean number of losses between two false alarms.
	between = 200_000
	// The E at which a change is detected: the sum of both E is at least threshold
	// then, and its mean is twice the mean of the number of blocks.
	threshold = 2 * between / block
	// The weight of Q in E.
	separation = 1.0 / 16
	// The number of mantissa bits of a statistic that choose its bin: 8 bins an octave.
	mantissa = 3
	// A larger loss counts as maxLoss, so that no sum overflows.
	maxLoss = 1e250
)

// The bins of the reference, in the order of the statistic: 0, below the window, the
// window, above the window. The statistics of one bin are ties.
const (
	zero   = 0
	below  = 1
	first  = 2
	bins   = 128
	above  = bins - 1
	centre = first + (above-first)/2
)

// Detector looks for changes in a stream of losses. Observe and Restore need exclusive
// access; the other methods only read and may run concurrently.
type Detector struct {
	// observed counts the losses. loss and root are the sums of the newest
	// observed mod block losses and of their square roots.
	observed   uint64
	loss, root float64
	// counts has the number of blocks of the reference in each bin, n their sum.
	// counts is nil before the first block.
	counts []uint32
	n      uint64
	// base is the key of the statistic at which bin first begins. It is 0 while
	// all blocks are 0.
	base       int
	rise, fall direction
	// last describes the changes so far.
	last Statistics
}

type direction struct {
	r float64
	// q is Q, won the number of consecutive bets g that were won.
	// (q > 0) == (won > 0)
	q   float64
	won uint64
	// score is the cumulative sum S ← max(S + 1/3 − p, 0), length the number
	// of blocks since S was 0: a change began there, if any. R forgets a
	// high bet too slowly to locate the change.
	score  float64
	length uint64
	// after is the sum of the losses of the newest length blocks, before the sum of the
	// rest of the reference.
	before, after float64
}

// Statistics describe the changes so far. Losses are numbered from 1. Without a change
// all fields are zero.
type Statistics struct {
	// Detected counts the changes, Rises those to a larger loss.
	Detected, Rises uint64
	// Change is the estimated number of the first loss after the last change. That loss
	// begins a block.
	Change uint64
	// Noticed is the number of the loss at which the last change was detected.
	Noticed uint64
	// Rise is true if the loss rose, false if it fell.
	Rise bool
	// Before is the mean loss from the change before the last, or the first loss, to the
	// last change.
	Before float64
	// After is the mean loss from the last change to its detection.
	After float64
}

// New returns a detector without losses.
func New() *Detector { return &Detector{} }

// Observe takes the next loss and reports whether it shows a change. After a change the
// reference is empty. A negative loss counts as 0, a NaN is ignored.
// It costs a square root, and with every sixteenth loss a sum over 128 counts. It
// allocates once, with the sixteenth loss.
func (d *Detector) Observe(loss float64) bool {
	if math.IsNaN(loss) {
		return false
	}
	loss = math.Min(math.Max(loss, 0), maxLoss)
	d.observed++
	d.loss += loss
	d.root += math.Sqrt(loss)
	if d.observed%block != 0 {
		return false
	}
	sum, key := d.loss, int(math.Float64bits(d.root/block)>>(52-mantissa))
	d.loss, d.root = 0, 0
	p, q := d.rank(key)
	if d.n == 1 {
		// The first block is always before a change.
		d.rise, d.fall = direction{before: sum}, direction{before: sum}
		return false
	}
	rise, fall := d.rise.bet(p, sum, d.n), d.fall.bet(q, sum, d.n)
	switch {
	case rise:
		d.note(&d.rise)
		d.last.Rises++
	case fall:
		d.note(&d.fall)
	default:
		return false
	}
	d.last.Rise = rise
	d.restart()
	return true
}

// rank adds a block to the reference and returns its p-values from above and from
// below. Neither is 0. Blocks above the window rank above all blocks in the window, and
// blocks below it rank below. If more than two thirds of the blocks are outside the
// window, most blocks are ties, so rank begins a new reference with this block. This
// corrects a window that the first block put in the wrong place. A change out of the
// window is detected earlier if ten blocks came before the change.
func (d *Detector) rank(key int) (p, q float64) {
	if d.counts == nil {
		d.counts = make([]uint32, bins)
	}
	if d.n == math.MaxUint32 {
		d.restart()
	}
	if d.base == 0 && key > 0 {
		d.base = key - (centre - first)
	}
	bin := d.bin(key)
	d.counts[bin]++
	d.n++
	if outside := uint64(d.counts[below]) + uint64(d.counts[above]); (bin == below || bin == above) && 3*outside > 2*d.n {
		d.restart()
		return d.rank(key)
	}
	less, greater := uint64(0), uint64(0)
	for _, c := range d.counts[:bin] {
		less += uint64(c)
	}
	for _, c := range d.counts[bin+1:] {
		greater += uint64(c)
	}
	u, equal, n := uniform(d.observed), float64(d.counts[bin]), float64(d.n)
	p = (float64(greater) + float64(u*equal)) / n
	q = (float64(less) + float64((1-u)*equal)) / n
	return p, q
}

// bin returns the bin of the statistic with a key. Keys have the order of the
// statistics; the key of 0 is 0.
func (d *Detector) bin(key int) int {
	switch place := key - d.base + first; {
	case key == 0:
		return zero
	case place < first:
		return below
	case place >= above:
		return above
	default:
		return place
	}
}

// uniform returns a number in (0, 1) made of n by SplitMix64. It is independent of the
// losses, so it breaks ties like a random number.
func uniform(n uint64) float64 {
	n += 0x9e3779b97f4a7c15
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	n ^= n >> 31
	return (float64(n>>12) + 0.5) / (1 << 52)
}

// bet takes the p-value and the sum of losses of the newest of n blocks of the
// reference. It reports whether E has reached the threshold.
func (v *direction) bet(p, sum float64, n uint64) bool {
	f := 0.5 / math.Sqrt(p)
	v.r = float64((v.r + 1) * f)
	if j := float64(v.won + 1); float64(p*float64(n)) <= j {
		v.q = float64((v.q + 1) * (float64(n) / j))
		v.won++
	} else {
		v.q, v.won = 0, 0
	}
	v.score += 1.0/3 - p
	v.after += sum
	v.length++
	if v.evidence() >= threshold {
		return true
	}
	if v.score <= 0 {
		v.before += v.after
		v.score, v.after, v.length = 0, 0, 0
	}
	return false
}

// evidence is E.
func (v *direction) evidence() float64 { return float64((1-separation)*v.r) + float64(separation*v.q) }

func (d *Detector) note(v *direction) {
	d.last.Detected++
	d.last.Change, d.last.Noticed = d.observed-v.length*block+1, d.observed
	d.last.Before, d.last.After = v.before/float64((d.n-v.length)*block), v.after/float64(v.length*block)
}

func (d *Detector) restart() {
	clear(d.counts)
	d.n, d.base = 0, 0
	d.rise, d.fall = direction{}, direction{}
}

// Statistics returns the statistics of all losses so far, at a cost of O(1).
func (d *Detector) Statistics() Statistics { return d.last }

// Size returns the memory of the state in bytes, at a cost of O(1).
func (d *Detector) Size() uint64 {
	const fixed = 232 // Of Detector.
	return fixed + 4*uint64(len(d.counts))
}
