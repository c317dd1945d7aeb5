package qr

// AddColumn adds a label column with u = 0 behind the others. A column of zeros
// stays 0 in every bit while its labels are 0, and touches no other entry:
// a column that is added late is the one that was there from the start. It
// copies the factor once, which costs as much as a rotation pass and less.
//
// Rotate and Solve want rows and predictions for one more column from then on.
func (f *Factor) AddColumn() {
	k := f.columns
	grown := &Factor{order: f.order, columns: k + 1, data: make([]float64, Size(f.order, k+1))}
	for i := range f.order {
		copy(grown.rowSlice(i), f.rowSlice(i)) // The new entry is the last of its row.
	}
	grown.copyOut()
	*f = *grown
}
