package raker

// The factorization of reports.
var (
	Cholesky     = cholesky
	TraceInverse = traceInverse
)
