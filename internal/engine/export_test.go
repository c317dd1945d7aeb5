package engine

import "context"

// ReadCost is what a record counts for beside the time that it took to learn.
const ReadCost = readCost

// OpenWith is Open with learners of any origin.
var OpenWith = open

// Hibernate lets a model go, and tells whether it is gone.
func (e *Engine) Hibernate(id string) bool {
	i, err := e.find(context.Background(), id)
	if err != nil {
		return false
	}
	gone, _, _ := i.hibernate()
	return gone
}

// AliasLimit bounds the aliases.
const AliasLimit = aliasLimit

// Pause keeps followers from learning of a model.
func (e *Engine) Pause(id string, paused bool) {
	if i, err := e.find(context.Background(), id); err == nil {
		i.paused.Store(paused)
	}
}

// What a call without a tracer costs.
var (
	TraceID = traceID
	Begin   = begin
)

// Behind is how many observations of its leader a follower has not learned, -1 if that is
// not known.
func (e *Engine) Behind(id string) int64 {
	i, err := e.find(context.Background(), id)
	if err != nil {
		return -1
	}
	return e.behindOf(i)
}

// NeededBy is what the log has to keep for followers.
var NeededBy = neededBy
