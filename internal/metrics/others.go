package metrics

import "slices"

// others puts the models together that have no series of their own, by
// learner. What may rise and fall is taken over the models that are there.
// What only grows must not fall when a model is deleted: rate() would take
// that for a restart and count all of it again. So others sums the growth from
// one scrape to the next.
type others struct {
	rows     []modelRow
	growing  int                  // rows that only grow
	last     map[key][]float64    // of each model, what only grows at the last scrape
	learners map[string]*combined // all since the start
}

// combined is what the others of one learner show.
type combined struct {
	values []float64
	models int // of this scrape
}

func newOthers(rows []modelRow) others {
	o := others{rows: rows, last: make(map[key][]float64), learners: make(map[string]*combined)}
	for _, r := range rows {
		if r.together == growth {
			o.growing++
		}
	}
	return o
}

// begin starts a scrape.
func (o *others) begin() {
	for _, c := range o.learners {
		c.models = 0
	}
}

// add takes the numbers of one model and yields those of all that were added.
// They may change until end, and not after it.
func (o *others) add(k key, now []float64) []float64 {
	c := o.learners[k.learner]
	if c == nil {
		c = &combined{values: make([]float64, len(o.rows))}
		o.learners[k.learner] = c
	}
	if c.models == 0 {
		c.values = slices.Clone(c.values) // The last scrape may still be printed.
	}
	last := o.last[k]
	if last == nil {
		last = make([]float64, o.growing)
		o.last[k] = last
	}
	for i, r := range o.rows {
		switch {
		case r.together == growth:
			// A number that is not known has not grown, nor has that of a model
			// that was set back to an earlier state.
			if finite(now[i]) {
				c.values[i] += max(now[i]-last[0], 0)
				last[0] = now[i]
			}
			last = last[1:]
		case c.models == 0:
			c.values[i] = now[i]
		case r.together == sum:
			c.values[i] += now[i]
		case r.together == least:
			c.values[i] = min(c.values[i], now[i])
		case r.together == most:
			c.values[i] = max(c.values[i], now[i])
		}
	}
	c.models++
	return c.values
}

// end ends a scrape that listed these models: it drops the models that are gone.
func (o *others) end(listed map[key]struct{}) {
	for k := range o.last {
		if _, ok := listed[k]; !ok {
			delete(o.last, k)
		}
	}
}
