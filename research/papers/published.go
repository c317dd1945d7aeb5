package papers

// Figure is one figure that the AdaRaker paper (JMLR 2019) prints.
type Figure struct {
	// Learner is the name in the paper, with its size.
	Learner string
	// Value is the mean squared loss, or the error rate if the labels are signs.
	Value float64
	// Of is the learner of the server to compare with.
	Of string
	// Source names the table and its conditions.
	Source string
}

// The tables of the AdaRaker paper. The step belongs to the other learners:
// AdaRaker has none.
const (
	table4  = "Table 4, step 1/√T"
	table5  = "Table 5, best of seven steps in hindsight"
	table8  = "Table 8"
	table10 = "Table 10, step 1/√T"
	table11 = "Table 11, best of seven steps in hindsight"
)

// airFigures are the figures of the column Air.
func airFigures() []Figure {
	return []Figure{
		{"AdaRaker, D = 50", 1.3e-3, NameAdaRaker, table4},
		{"Raker, D = 50", 2.0e-3, NameRaker, table4},
		{"Raker, D = 50", 1.3e-3, NameRaker, table5},
		{"AdaRaker, D = 100", 1.2e-3, NameAdaRaker, table8},
	}
}

// energyFigures are the figures of the column Energy.
func energyFigures() []Figure {
	return []Figure{
		{"AdaRaker, D = 50", 13.8e-3, NameAdaRaker, table4},
		{"Raker, D = 50", 19.3e-3, NameRaker, table4},
		{"Raker, D = 50", 13.8e-3, NameRaker, table5},
		{"AdaRaker, D = 100", 13.3e-3, NameAdaRaker, table8},
	}
}

// movementFigures are the figures of the column Movement.
func movementFigures() []Figure {
	return []Figure{
		{"AdaRaker, D = 50", 1.10e-2, NameAdaRaker, table10},
		{"Raker, D = 50", 9.74e-2, NameRaker, table10},
		{"Raker, D = 50", 1.10e-2, NameRaker, table11},
	}
}
