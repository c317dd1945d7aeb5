package sizing

// What was measured. "make sizing" measures it again; docs/results/sizing.md compares.
const (
	// secondsPerFlop is the time of a multiply-add of ValidateSpec.
	secondsPerFlop = 0.35e-9
	// A call takes so long beside the multiply-adds: gRPC, the message, the log; and so
	// long for each number of the input.
	predictSeconds   = 90e-6
	observeSeconds   = 140e-6
	dimensionSeconds = 0.1e-6
	// A round to an idle server takes so much longer than to a busy one.
	aloneSeconds = 900e-6
	// An observation takes so much of its model's turn beside the multiply-adds.
	turnSeconds = 20e-6
	// An observation takes so long to be replayed beside the multiply-adds.
	replaySeconds = 6e-6
	// The start of a process, a remembered id or a waiting prediction to be counted, and a
	// byte of a snapshot to be read.
	startSeconds = 0.1
	countSeconds = 0.3e-6
	readSeconds  = 2e-9
	// A process takes processBytes without models, and collectorFactor times what its
	// models take.
	processBytes    = 55 << 20
	collectorFactor = 2
	// A database keeps the write-ahead logs of keptLogs memory tables, and rows that are
	// deleted and not compacted yet are such a share of those that are not.
	keptLogs        = 3
	compactionShare = 0.2
)

// What the server defines, see docs/operating.md.
const (
	leastLimit  = 256 << 20
	statesShare = 0.5
	// The sizes of the memory tables of log/ and pending/.
	logMemTable     = 16 << 20
	pendingMemTable = 8 << 20
	// The defaults of --max-pending and --max-pending-total.
	maxPending      = 1_000_000
	maxPendingTotal = 4_000_000
	day             = 24 * 60 * 60
)
