// Package scrape reads the metrics of a server.
package scrape

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Sample has the values of a scrape, by the names of their metrics: the sum over the series
// of each.
type Sample map[string]float64

// The metrics that every server has.
const (
	CPUSeconds    = "process_cpu_seconds_total"
	ResidentBytes = "process_resident_memory_bytes"
	HeapBytes     = "go_memstats_heap_alloc_bytes"
)

// Read reads the metrics at a URL.
func Read(ctx context.Context, url string) (s Sample, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("scrape %s: %w", url, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("scrape %s: %w", url, err)
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("scrape %s: %s", url, response.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		return nil, fmt.Errorf("scrape %s: %w", url, err)
	}
	s = Sample{}
	for name, family := range families {
		for _, m := range family.GetMetric() {
			s[name] += value(m)
		}
	}
	return s, nil
}

// value is the value of a counter, a gauge or an untyped metric, 0 of others.
func value(m *dto.Metric) float64 {
	switch {
	case m.GetCounter() != nil:
		return m.GetCounter().GetValue()
	case m.GetGauge() != nil:
		return m.GetGauge().GetValue()
	default:
		return m.GetUntyped().GetValue()
	}
}
