package account

import (
	"math"

	"hindsight/internal/engine/account/interval"
	"hindsight/internal/model"
	"hindsight/internal/model/exponential"
)

// The notes of a prediction come back to the account with the label: for k outputs and L
// levels, the k means and the k last labels; and, if L > 0, for each output the scale σ of
// its interval and L radii in units of σ. A scale of unknown means no interval.

const maxLevels = 8

// unknown is the scale of an interval that does not exist yet.
const unknown = -1

// AppendNotes appends the notes of the values of a prediction made now: see Round.Notes. Its errors
// are spread times as large as the errors of the next row; 0 is 1. It costs O(outputs · levels).
func (a *Account) AppendNotes(dst, values []float64, spread float64) []float64 {
	dst = append(append(dst, a.labels.means...), a.labels.last...)
	for j, s := range a.intervals {
		at := len(dst)
		dst = appendInterval(dst, s, values[j], len(a.levels))
		if spread > 0 && spread != 1 && dst[at] > 0 {
			dst[at] = math.Min(dst[at]*spread, maxNumber)
			for level, v := range a.levels { // Small errors beside the next label say nothing of these.
				dst[at+1+level] = math.Max(dst[at+1+level], normalRadius(v))
			}
		}
	}
	return dst
}

// normalRadius is the radius that contains normal errors with a probability, in units of their mean
// size: √(π/2) u with Pólya's approximation u = √(−π/2 log(1 − p²)) of their quantile, 3 % too small
// at most.
//
// Source: Pólya, Remarks on computing the probability integral (1949).
func normalRadius(p float64) float64 {
	return math.Pi / 2 * math.Sqrt(-exponential.Log(1-float64(p*p)))
}

// NotesLength returns the number of numbers that AppendNotes appends.
func NotesLength(outputs, levels int) int {
	if levels == 0 {
		return 2 * outputs
	}
	return outputs * (3 + levels)
}

func appendInterval(dst []float64, s *interval.State, value float64, levels int) []float64 {
	if !s.Known() {
		dst = append(dst, unknown)
		for range levels {
			dst = append(dst, 0)
		}
		return dst
	}
	dst = append(dst, s.ScaleAt(value))
	for level := range levels {
		dst = append(dst, s.Radius(level))
	}
	return dst
}

// read returns notes if an account of this shape can have given them, else nil.
func (a *Account) read(notes []float64) []float64 {
	k := len(a.labels.means)
	if len(notes) != NotesLength(k, len(a.levels)) {
		return nil
	}
	for i, v := range notes {
		limit := maxNumber
		if i < 2*k {
			limit = maxLabel
		}
		if !(math.Abs(v) <= limit) {
			return nil
		}
	}
	return notes
}

func (a *Account) intervalNotes(notes []float64, output int) []float64 {
	width := 1 + len(a.levels)
	return notes[2*len(a.labels.means)+output*width:][:width]
}

// Interval returns the prediction interval of an output at a level, around the predicted
// value, from the notes of the prediction: the part with possible labels. If there was no
// interval, ok is false.
func Interval(value float64, notes []float64, outputs, levels, output, level int, possible *model.Label) (lower, upper float64, ok bool) {
	if levels == 0 || len(notes) != NotesLength(outputs, levels) {
		return 0, 0, false
	}
	of := notes[2*outputs+output*(1+levels):][:1+levels]
	if of[0] < 0 {
		return 0, 0, false
	}
	radius := float64(of[0] * math.Max(of[1+level], 0))
	lower, upper = possible.ProjectInterval(value-radius, value+radius)
	return lower, upper, !math.IsInf(lower, 0) && !math.IsInf(upper, 0)
}
