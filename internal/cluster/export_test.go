package cluster

import "time"

// Repairs is repairs.
type Repairs struct{ repairs }

func (r *Repairs) Begin(now time.Time) (time.Time, bool) { return r.begin(now) }
