package model

import "math"

// Weights make counts of rows follow the weights of the rows. A row counts
//
//	ω = min(1, w n/Σw)
//
// its weight over the mean weight of the n rows so far, the row included, at most 1: a row of weight 1e-9 among
// rows of weight 1 is next to no row. Equal weights count 1 each, whatever they are.
type Weights struct {
	// Rows is n, and Sum is Σw.
	Rows, Sum float64
}

// Add takes the next row and returns ω.
func (w *Weights) Add(weight float64) float64 {
	w.Rows++
	w.Sum += weight
	return w.Of(weight)
}

// Of is ω of a row among the rows so far, 1 before the first row.
func (w *Weights) Of(weight float64) float64 {
	if w.Rows == 0 {
		return 1
	}
	return math.Min(1, float64(weight*w.Rows)/w.Sum)
}

// Light is the ω below which a row says nothing of a range of labels.
const Light = 1e-2
