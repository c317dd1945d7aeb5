package gateway_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/rpc"
)

// BenchmarkPredict is a prediction of ten features over loopback, by gRPC and by JSON
// in the same run, one caller after the other and many at once.
func BenchmarkPredict(b *testing.B) {
	h := serve(b)
	h.want(b, "POST", "/v1/models", `{"id":"m","spec":{"dimension":10,"linearAwv":{},"scaling":{"none":{}}}}`)
	request := &hindsightv1.PredictRequest{
		Model: "m", Features: []float64{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1}, Remember: proto.Bool(false),
	}
	byGRPC := func() error {
		_, err := h.predictor.Predict(b.Context(), request)
		return err
	}
	byJSON := func() error {
		r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, h.url+"/v1/models/m:predict",
			strings.NewReader(`{"features":[0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9,1],"remember":false}`))
		if err != nil {
			return err
		}
		r.Header.Set("Content-Type", "application/json")
		response, err := h.client.Do(r)
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			return err
		}
		return response.Body.Close()
	}
	for _, way := range []struct {
		name string
		call func() error
	}{{"gRPC", byGRPC}, {"JSON", byJSON}} {
		b.Run(way.name+"/one", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				noError(b, way.call())
			}
		})
		b.Run(way.name+"/many", func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(16)
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					if err := way.call(); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// BenchmarkBatch is a batch of a thousand observations of ten features by JSON.
func BenchmarkBatch(b *testing.B) {
	h := serveBehind(b, func(o *rpc.Options) { o.MaxBatchRows = 1000 })
	h.want(b, "POST", "/v1/models", `{"id":"m","spec":{"dimension":10,"linearAwv":{},"scaling":{"none":{}}}}`)
	row := `{"features":[0.1234567,0.2234567,0.3234567,0.4,0.5,0.6,0.7,0.8,0.9,1],"label":0.25}`
	body := `{"observations":[` + strings.Repeat(row+",", 999) + row + `]}`
	for b.Loop() {
		h.want(b, "POST", "/v1/models/m:observeBatch", body)
	}
}
