package sizing

// What was measured. "make sizing" measures it again.
const (
	// A call takes so long beside the multiply-adds: gRPC, the message, the log; so long for
	// each number of the input, and for each multiply-add of ValidateSpec.
	predictSeconds          = 120e-6
	predictDimensionSeconds = 0.4e-6
	predictFlopSeconds      = 0.45e-9
	observeSeconds          = 210e-6
	observeDimensionSeconds = 0.1e-6
	observeFlopSeconds      = 0.22e-9
	// Observations of one model share a commit. With several models a call takes so much
	// longer.
	predictApartSeconds = 62e-6
	observeApartSeconds = 220e-6
	// A round to an idle server takes so much longer than to a busy one.
	aloneSeconds = 3100e-6
	// An observation takes so long to be replayed beside the multiply-adds.
	replaySeconds = 10e-6
	// The start of a process, a remembered id or a waiting prediction to be counted, a model
	// to be opened, and a byte of its snapshot to be read.
	startSeconds = 0.15
	countSeconds = 0.4e-6
	openSeconds  = 0.6e-3
	readSeconds  = 20e-9
	// A process with full memory tables takes processBytes beside collectorFactor times the
	// memory of its models.
	processBytes    = 160 << 20
	collectorFactor = 2
	// The last snapshot that was read back stays until unchecked others were written and one more is read back.
	unchecked = 7
	// A database keeps the write-ahead logs of keptLogs memory tables. Deleted rows that are not
	// compacted yet take compactionShare of the other rows.
	keptLogs        = 3
	compactionShare = 0.2
)

// What the server defines, see docs/operating.md.
const (
	leastLimit       = 256 << 20
	snapshotInterval = 5 * 60
	statesShare      = 0.5
	// The sizes of the memory tables of log/ and pending/.
	logMemTable     = 16 << 20
	pendingMemTable = 8 << 20
	// A quarter of the default of --max-pending, and the default.
	maxPending      = 1_000_000
	maxPendingTotal = 4_000_000
	day             = 24 * 60 * 60
	// The long run, in seconds.
	long = 100 * 365 * day
)
