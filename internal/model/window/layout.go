package window

// Columns of a row after the d inputs.
const (
	// Lags is the number of newest labels that a row repeats after its inputs.
	Lags = 2
	// Rungs is the number of labels of the ladder.
	Rungs = 10
	// Means is the number of exponential means of the labels.
	Means = 2
	extra = Lags + 1 + Rungs + Means // Columns that are no inputs.
)

// rungs are the ages of the labels of the ladder, 1 for the newest label.
func rungs() [Rungs]uint64 { return [Rungs]uint64{1, 2, 3, 4, 6, 8, 12, 24, 48, 168} }

// rung is a column of labels: the label, or a mean, of an age.
type rung struct{ age, part int }

// tail are the columns behind the inputs, and the newest label in place of the served prediction.
func tail() []rung {
	t := []rung{{age: 1}, {age: 2}, {age: 1}}
	for _, age := range rungs() {
		t = append(t, rung{age: int(age)})
	}
	for k := range Means {
		t = append(t, rung{1, 1 + k})
	}
	return t
}

// Layout places the columns of a row by the number of inputs d:
//
//	[0, d)         the inputs
//	[d, d+2)       the two newest labels, newest first
//	d+2            the served prediction v
//	[d+3, d+13)    the ladder: labels of the ages 1, 2, 3, 4, 6, 8, 12, 24, 48, 168
//	[d+13, d+15)   the exponential means of the labels, with the factors 0.9 and 0.99
//	[d+15, …)      how the first Deltas inputs differ from the inputs of the reference
//	the last one   the label of the reference, if Keyed
//
// The reference is the row before or, if Keyed, the last row with the same key, if that is known.
type Layout struct {
	Inputs, Deltas int
	Keyed          bool
}

// Columns is the number of columns of a row.
func (l Layout) Columns() int { return l.Inputs + extra + l.Deltas + l.references() }

func (l Layout) references() int {
	if l.Keyed {
		return 1
	}
	return 0
}

// Reference is the column of the label of the reference.
func (l Layout) Reference() int { return l.Inputs + extra + l.Deltas }

// Lag is the column of the newest label; the label before it follows.
func (l Layout) Lag() int { return l.Inputs }

// Served is the column of the served prediction.
func (l Layout) Served() int { return l.Inputs + Lags }

// Ladder is the first column of the ladder. The exponential means follow the ladder.
func (l Layout) Ladder() int { return l.Inputs + Lags + 1 }

// Delta is the column of the first difference of an input.
func (l Layout) Delta() int { return l.Inputs + extra }

// Capacity is the number of rows of a window: 8192, or fewer if the rows with all their columns
// would take more than 2 MiB in single precision.
func (l Layout) Capacity() int {
	const most, bytes = 8192, 2 << 20
	return max(1, min(most, bytes/(4*(l.Inputs+l.Deltas+14))))
}
