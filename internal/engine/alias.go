package engine

import (
	"sync"
	"time"

	"hindsight/internal/engine/record"
	"hindsight/internal/model/input"
)

// aliasLimit bounds the aliases: a list has all.
const aliasLimit = 1000

// Alias is a name that stands for a model.
type Alias struct {
	Name, Model string
	// Previous is the model that it named before, empty if it is new.
	Previous string
	Updated  time.Time
}

// alias is what an alias stands for from one SetAlias to the next.
type alias struct {
	record.Alias
	name string
	// routing counts the requests to learn that found this one and are not queued yet.
	// It is raised under the engine's lock while the table has this one.
	routing sync.WaitGroup
	// settled is closed once what was sent by the alias before this one is learned or
	// refused: what is remembered of it can then be looked up.
	settled chan struct{}
}

// public is the alias as a caller is told it.
func (a *alias) public() Alias {
	return Alias{Name: a.name, Model: a.Model.ID, Previous: a.Previous.ID, Updated: entryTime(a.Updated)}
}

// Target is the model that a request names, by its id or by an alias.
type Target struct {
	*instance
	alias *alias
}

// Named is the id of the model if an alias named it, else empty.
func (t Target) Named() string {
	if t.alias == nil {
		return ""
	}
	return t.id
}

// Schema is what the model's records are read by, nil if it has no named inputs.
func (t Target) Schema() *input.Schema { return t.schema }
