package rpc_test

import (
	"testing"

	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// BenchmarkCall is what a client waits for over loopback, beside a call that does
// nothing (health) in the same run. The store writes to memory.
func BenchmarkCall(b *testing.B) {
	s := serve(b)
	s.create(b, "m", linear(10))
	forgotten := false // Or predictions would wait for labels, and too many.
	predict := &hindsightv1.PredictRequest{Model: "m", Features: make([]float64, 10), Remember: &forgotten}
	b.Run("health", func(b *testing.B) {
		health := healthv1.NewHealthClient(s.connection)
		b.ReportAllocs()
		for b.Loop() {
			must(health.Check(b.Context(), &healthv1.HealthCheckRequest{}))(b)
		}
	})
	b.Run("Predict", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			must(s.Predict(b.Context(), predict))(b)
		}
	})
	b.Run("Observe", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			must(s.Observe(b.Context(), &hindsightv1.ObserveRequest{Model: "m", Features: predict.GetFeatures(), Target: label(1)}))(b)
		}
	})
}
