// Package drift tells when the losses of a model have changed. It looks at the
// losses alone, knows nothing of their scale and has nothing to tune.
//
// Sixteen losses after one another are a block; its statistic is the mean of
// their square roots. The blocks since the last change are the reference. Every
// new block gets a conformal p-value, its rank among all of them and itself from
// above, ties broken by a number u in (0, 1):
//
//	p = (#greater + u·#equal)/n
//
// If the blocks are exchangeable, as those of independent losses of one
// distribution are, these p are independent and uniform, whatever the
// distribution is. So f(p) = 1/(2√p) is a fair bet on a rise, f(1−p) on a fall, and with each
//
//	R ← (R + 1) f
//
// the e-detector of Shiryaev and Roberts: R less the number of blocks is a
// martingale.
//
// These bets grow slowly where few blocks are before the change, because the
// blocks after the change join the reference. A second bet, on a change that
// separates, wins there: the j-th block after the change is then among the j
// largest of the n in the reference,
//
//	g(p) = n/j if p ≤ j/n, else 0,  Q ← (Q + 1) g
//
// Here j is the number of bets g that were won in succession, plus 1. It is known
// before p, so that g is as fair as f, and the mixture E = (15 R + Q)/16 is an
// e-detector too. There is a change when E reaches 25,000 in one of the two
// directions; hence between two false alarms there are 200,000 losses or more in
// the mean.
//
// Sources: Vovk, Gammerman and Shafer, Algorithmic Learning in a Random World
// (2005), for the p-values; Shin, Ramdas and Rinaldo, E-detectors (2022), for R.
package drift

import "math"

const (
	// How many losses a block has.
	block = 16
	// The least mean number of losses between two false alarms.
	between = 200_000
	// Where E is a change: at the change the sum of both E is at least this, and its
	// mean is twice that of the number of blocks.
	threshold = 2 * between / block
	// The weight of Q in E.
	separation = 1.0 / 16
	// How many bits of a statistic's mantissa tell its bin apart: 8 bins an
	// octave.
	mantissa = 3
	// What a larger loss counts as, so that no sum overflows.
	maxLoss = 1e250
)

// The bins of the reference, in the order of the statistic: first 0, then what is
// below the window, the window, and what is above it. Within a bin all are ties.
const (
	zero   = 0
	below  = 1
	first  = 2
	bins   = 128
	above  = bins - 1
	centre = first + (above-first)/2
)

// Detector looks for changes in a stream of losses. It is not safe for concurrent
// use, except that methods which only read may run concurrently.
type Detector struct {
	// observed counts the losses. The block that is open has observed mod block
	// of them: their sum, and that of their roots.
	observed   uint64
	loss, root float64
	// counts are those of the blocks of the reference in each bin, n their sum.
	// It is nil before the first.
	counts []uint32
	n      uint64
	// base is the key of the statistic that bin first begins at. It is 0 as long
	// as all blocks are 0.
	base int
	// rise and fall are the two directions.
	rise, fall direction
	told       Statistics
}

// direction is what is known of a change in one direction.
type direction struct {
	// r is R.
	r float64
	// q is Q, and won the number of bets g that were won in succession.
	// (q > 0) == (won > 0)
	q   float64
	won uint64
	// score is the cumulative sum S ← max(S + 1/3 − p, 0), and length the number
	// of blocks since it was 0: there a change began, if there was one. R forgets a
	// high bet too slowly to tell the place.
	score  float64
	length uint64
	// before and after are the sums of the losses of the reference before these
	// blocks and in them.
	before, after float64
}

// Statistics tell of the changes so far. Losses are numbered from 1.
type Statistics struct {
	// Detected counts the changes, Rises those to a larger loss.
	Detected, Rises uint64
	// Change is the number of the first loss after the last change, as
	// estimated. It begins a block. This and what follows is 0 if there was no
	// change.
	Change uint64
	// Noticed is the number of the loss at which the last change was detected.
	Noticed uint64
	// Rise says that the loss rose; else it fell.
	Rise bool
	// Before is the mean loss of the reference up to the last change: from the
	// change before, or the first loss.
	Before float64
	// After is the mean loss from the last change to its detection.
	After float64
}

// New makes a detector that has seen nothing.
func New() *Detector { return &Detector{} }

// Observed is how many losses there were.
func (d *Detector) Observed() uint64 { return d.observed }

// Observe takes the next loss and tells whether it shows a change; the reference
// is new then. A negative loss counts as 0, one that is not a number is ignored.
// It costs a square root, and with every sixteenth loss a sum over 128 counts. It
// allocates once, with the sixteenth.
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
		// The first block tells nothing, and is always before a change.
		d.rise, d.fall = direction{before: sum}, direction{before: sum}
		return false
	}
	rise, fall := d.rise.bet(p, sum, d.n), d.fall.bet(q, sum, d.n)
	switch {
	case rise:
		d.note(&d.rise)
		d.told.Rises++
	case fall:
		d.note(&d.fall)
	default:
		return false
	}
	d.told.Rise = rise
	d.restart()
	return true
}

// rank adds a block to the reference, and is its p-value from above and from
// below. Neither is 0. Blocks above the window rank above all in it, and those
// below rank below. If more than two thirds of the blocks are outside, rank begins a new
// reference with the block: the bins do not tell most blocks apart. A window that
// the first block put in the wrong place ends so. A change that leaves the window
// is detected before that, if ten blocks came before the change.
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

// bin is the bin of a statistic by its key. Keys are in the order of the
// statistics; that of 0 is 0.
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

// uniform is a number in (0, 1) that is made of n: SplitMix64. It has nothing to
// do with the losses, and breaks ties as a random one would.
func uniform(n uint64) float64 {
	n += 0x9e3779b97f4a7c15
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	n ^= n >> 31
	return (float64(n>>12) + 0.5) / (1 << 52)
}

// bet takes a block of a p-value and a sum of losses, the last of n in the
// reference. It tells whether E has reached the threshold.
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
func (v *direction) evidence() float64 {
	return float64((1-separation)*v.r) + float64(separation*v.q)
}

// note keeps a change.
func (d *Detector) note(v *direction) {
	d.told.Detected++
	d.told.Change, d.told.Noticed = d.observed-v.length*block+1, d.observed
	d.told.Before, d.told.After = v.before/float64((d.n-v.length)*block), v.after/float64(v.length*block)
}

// restart empties the reference.
func (d *Detector) restart() {
	clear(d.counts)
	d.n, d.base = 0, 0
	d.rise, d.fall = direction{}, direction{}
}

// Statistics are those of all losses so far, at a cost of O(1).
func (d *Detector) Statistics() Statistics { return d.told }

// Size is the memory of the state in bytes, at a cost of O(1).
func (d *Detector) Size() uint64 {
	const fixed = 232 // Of Detector.
	return fixed + 4*uint64(len(d.counts))
}
