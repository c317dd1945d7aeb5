package load

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Operation is what came of the calls of one kind.
type Operation struct {
	// Name is the kind: Predict, Observe, Session Predict or Session Observe. The calls
	// of a session that were not sent count as Session Predict.
	Name string
	// Latency is from when a call was due to its answer. In an open loop that is
	// corrected for coordinated omission: a server that stalls delays the calls that are
	// due meanwhile, and their waiting counts. In a closed loop a call is due when it is
	// made.
	Latency Quantiles
	// Service is from when a call was made to its answer.
	Service Quantiles
}

// Quantiles are those of a distribution of durations, to three digits.
type Quantiles struct {
	Count                    int64
	P50, P90, P99, P999, Max time.Duration
}

// recorder collects what came of calls. It is safe for concurrent use.
type recorder struct {
	mu struct {
		sync.Mutex

		latency, service map[string]*hdrhistogram.Histogram
		errors           map[string]int64
		calls            int64
	}
}

// longest is the longest duration that is told from longer ones, in nanoseconds.
const longest = int64(10 * time.Minute)

func newRecorder() *recorder {
	r := &recorder{}
	r.mu.latency, r.mu.service, r.mu.errors = map[string]*hdrhistogram.Histogram{}, map[string]*hdrhistogram.Histogram{}, map[string]int64{}
	return r
}

// answered records a call that was answered.
func (r *recorder) answered(name string, latency, service time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.calls++
	record(r.mu.latency, name, latency)
	record(r.mu.service, name, service)
}

// unsent records a call that was not made after it had waited.
func (r *recorder) unsent(name string, waited time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.errors[Unsent]++
	record(r.mu.latency, name, waited)
}

// failed records a call that was answered with an error. It has no latency: a refusal is
// fast.
func (r *recorder) failed(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.errors[reason]++
}

// record adds a duration to a distribution.
func record(to map[string]*hdrhistogram.Histogram, name string, d time.Duration) {
	h := to[name]
	if h == nil {
		h = hdrhistogram.New(1, longest, 3)
		to[name] = h
	}
	// Within the bounds no value is refused.
	_ = h.RecordValue(min(max(int64(d), 1), longest))
}

// result is what came of all calls.
func (r *recorder) result(elapsed time.Duration) *Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := &Result{Elapsed: elapsed, Calls: r.mu.calls, Errors: r.mu.errors}
	for name, latency := range r.mu.latency {
		out.Operations = append(out.Operations, Operation{Name: name, Latency: quantiles(latency), Service: quantiles(r.mu.service[name])})
	}
	slices.SortFunc(out.Operations, func(a, b Operation) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// quantiles reads a distribution, which may be nil.
func quantiles(h *hdrhistogram.Histogram) Quantiles {
	if h == nil {
		return Quantiles{}
	}
	at := func(q float64) time.Duration { return time.Duration(h.ValueAtQuantile(q)) }
	return Quantiles{Count: h.TotalCount(), P50: at(50), P90: at(90), P99: at(99), P999: at(99.9), Max: time.Duration(h.Max())}
}
