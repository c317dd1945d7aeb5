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
	gone, _ := i.hibernate()
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
