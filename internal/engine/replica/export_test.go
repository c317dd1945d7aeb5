package replica

// NeededBy is what the log has to keep for followers.
var NeededBy = neededBy
