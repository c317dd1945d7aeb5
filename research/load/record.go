package load

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Result is what came of a load.
type Result struct {
	// Calls is the number of calls that were answered without an error.
	Calls int64 `json:"calls"`
	// Seconds is the time from the begin to the last answer.
	Seconds        float64 `json:"seconds"`
	CallsPerSecond float64 `json:"callsPerSecond"`
	// Errors counts the calls without an answer: by the reason of the server, by the code if
	// the server gave no reason, and Unsent.
	Errors map[string]int64 `json:"errors"`
	// CPUSecondsPerCall and ResidentBytes are those of the server's process, nil if they are
	// not known.
	CPUSecondsPerCall *float64 `json:"cpuSecondsPerCall"`
	ResidentBytes     *float64 `json:"residentBytes"`
	// Operations are the kinds of calls that were made, by name.
	Operations []Operation `json:"operations"`
}

// Operation is what came of the calls of one kind.
type Operation struct {
	// Name is the kind: Predict, Observe or Call.
	Name string `json:"operation"`
	// Calls is the number of calls that were made and answered.
	Calls int64 `json:"calls"`
	// Latency is from when a call was due to its answer. In an open loop that is
	// corrected for coordinated omission: a server that stalls delays the calls that are
	// due meanwhile, and their wait counts. In a closed loop a call is due when it is made.
	Latency Quantiles `json:"latencySeconds"`
	// Service is from when a call was made to its answer.
	Service Quantiles `json:"serviceSeconds"`
}

// Quantiles are those of a distribution of durations, in seconds, to three digits.
type Quantiles struct {
	Count int64   `json:"-"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p999"`
	Max   float64 `json:"max"`
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

// longest bounds the durations that a histogram tells apart, in nanoseconds.
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

// unsent records a call that was not made after a wait.
func (r *recorder) unsent(name string, waited time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.errors[Unsent]++
	record(r.mu.latency, name, waited)
}

// failed records a call that was answered with an error. The latency is not recorded, because
// a rejection is fast.
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
	_ = h.RecordValue(min(max(int64(d), 1), longest)) // A value within the bounds is never rejected.
}

// result returns what came of all calls.
func (r *recorder) result(elapsed time.Duration) *Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := &Result{Calls: r.mu.calls, Seconds: elapsed.Seconds(), CallsPerSecond: float64(r.mu.calls) / elapsed.Seconds(), Errors: r.mu.errors}
	for name, latency := range r.mu.latency {
		o := Operation{Name: name, Latency: quantiles(latency)}
		if service := r.mu.service[name]; service != nil {
			o.Service = quantiles(service)
			o.Calls = o.Service.Count
		}
		out.Operations = append(out.Operations, o)
	}
	slices.SortFunc(out.Operations, func(a, b Operation) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func quantiles(h *hdrhistogram.Histogram) Quantiles {
	at := func(q float64) float64 { return time.Duration(h.ValueAtQuantile(q)).Seconds() }
	return Quantiles{Count: h.TotalCount(), P50: at(50), P90: at(90), P99: at(99), P999: at(99.9), Max: time.Duration(h.Max()).Seconds()}
}
