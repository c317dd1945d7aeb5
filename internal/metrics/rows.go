package metrics

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

// row is one metric of a T. A number that is not finite has no series.
type row[T any] struct {
	name, help string
	kind       prometheus.ValueType
	value      func(T) float64
}

// fieldRow is a metric of a field.
type fieldRow struct {
	row[reflect.Value]
	// join joins the values of two parts.
	join func(a, b float64) float64
}

// table shows what read returns, row by row.
type table struct {
	read  func() []reflect.Value
	rows  []fieldRow
	descs []*prometheus.Desc
}

// Watch registers the fields of T, a struct, that are tagged with the name and the help of
// a metric:
//
//	Wakes int64 `metric:"hindsight_model_wakes_total" help:"Models that were loaded."`
//
// A name that ends in _total is a counter, any other a gauge. A field is a number; a bool,
// shown as 1 or 0; a time.Duration, shown in seconds; a time.Time, shown in seconds since
// 1970; an atomic of package sync/atomic; or a struct of tagged fields, or a pointer to one,
// through which atomics are read. The tag "name,nanoseconds" shows a number of nanoseconds in
// seconds. A NaN, an infinity and the zero time.Time have no series, nor has a number below or
// equal to 0 whose tag is "name,positive".
//
// Every scrape calls read, and several scrapes may call read at once. A metric that is
// already registered is an error.
func Watch[T any](m *Metrics, read func() T) error {
	return WatchParts(m, func() []T { return []T{read()} })
}

// WatchParts is Watch for a T that a server has in several parts. It shows the sum over the parts, the largest value if
// the tag is "name,largest", and the least if the tag is "name,least".
func WatchParts[T any](m *Metrics, read func() []T) error {
	t := &table{read: func() (parts []reflect.Value) {
		for _, part := range read() {
			parts = append(parts, reflect.ValueOf(part))
		}
		return parts
	}}
	t.rows = fieldRows(reflect.TypeFor[T](), nil)
	for _, r := range t.rows {
		t.descs = append(t.descs, prometheus.NewDesc(r.name, r.help, nil, nil))
	}
	if err := m.server.Register(t); err != nil {
		return fmt.Errorf("metrics: %T: %w", *new(T), err)
	}
	return nil
}

// fieldRows are the rows of the tagged fields of a struct type at an index within another.
func fieldRows(of reflect.Type, at []int) (rows []fieldRow) {
	for i := range of.NumField() {
		field, index := of.Field(i), slices.Concat(at, []int{i})
		tag, tagged := field.Tag.Lookup("metric")
		if !tagged {
			inner := field.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Struct && field.IsExported() {
				rows = append(rows, fieldRows(inner, index)...)
			}
			continue
		}
		name, option, _ := strings.Cut(tag, ",")
		r := fieldRow{row[reflect.Value]{name: name, help: field.Tag.Get("help"), kind: gauge}, joins(option)}
		if strings.HasSuffix(name, "_total") {
			r.kind = counter
		}
		r.value = func(v reflect.Value) float64 {
			n := number(v.FieldByIndex(index))
			if option == "nanoseconds" {
				n /= 1e9
			}
			return known(option != "positive" || n > 0, n)
		}
		rows = append(rows, r)
	}
	return rows
}

func joins(option string) func(a, b float64) float64 {
	switch option {
	case "largest":
		return func(a, b float64) float64 { return max(a, b) }
	case "least":
		return func(a, b float64) float64 { return min(a, b) }
	}
	return func(a, b float64) float64 { return a + b }
}

// number is the value of a field as Watch shows it.
func number(v reflect.Value) float64 {
	if v.CanAddr() {
		switch at := v.Addr().Interface().(type) {
		case *atomic.Int64:
			return float64(at.Load())
		case *atomic.Uint64:
			return float64(at.Load())
		case *atomic.Bool:
			return flag(at.Load())
		}
	}
	switch at := v.Interface().(type) {
	case time.Duration:
		return at.Seconds()
	case time.Time:
		return timestamp(at)
	case bool:
		return flag(at)
	}
	return v.Convert(reflect.TypeFor[float64]()).Float()
}

// Describe implements prometheus.Collector.
func (t *table) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range t.descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (t *table) Collect(ch chan<- prometheus.Metric) {
	parts := t.read()
	for i, r := range t.rows {
		all := math.NaN()
		for _, part := range parts {
			switch v := r.value(part); {
			case !finite(v):
			case finite(all):
				all = r.join(all, v)
			default:
				all = v
			}
		}
		if finite(all) {
			ch <- prometheus.MustNewConstMetric(t.descs[i], r.kind, all)
		}
	}
}
