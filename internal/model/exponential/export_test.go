package exponential

// ExpGo is the Go twin of Exp.
func ExpGo(dst, x []float64) { expGo(dst, x) }
