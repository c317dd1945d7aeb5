package replica

// NeededBy is what the log has to keep for replicas.
var NeededBy = neededBy
