package gateway_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/gateway"
)

func TestEncode(t *testing.T) {
	record := must(structpb.NewStruct(map[string]any{"city": "Oslo", "load": 1.5, "x": nil}))(t)
	for _, c := range []struct {
		name    string
		message proto.Message
		want    string
	}{
		{
			"what has no presence is there, what is not set is not", &hindsightv1.PredictResponse{Prediction: &hindsightv1.Prediction{}},
			`{"prediction":{"stateSequence":0}}`,
		},
		{
			"0 that is set", &hindsightv1.PredictResponse{Prediction: &hindsightv1.Prediction{Value: proto.Float64(0), PredictionId: "p"}},
			`{"prediction":{"predictionId":"p","value":0,"stateSequence":0}}`,
		},
		{"lists of the answer", &hindsightv1.ListModelsResponse{}, `{"models":[],"totalSize":0}`},
		{
			"integers of 64 bits", &hindsightv1.RestoreModelResponse{Undone: math.MaxUint64},
			`{"undone":18446744073709551615}`,
		},
		{
			"negative, and 64 bits with presence", &hindsightv1.Model{MaxPendingLabels: proto.Int64(math.MinInt64)},
			`{"sequence":0,"inputs":[],"classes":[],"maxPendingLabels":-9223372036854775808,"aliases":[]}`,
		},
		{
			"what is not finite", &hindsightv1.PredictResponse{Prediction: &hindsightv1.Prediction{
				Value: proto.Float64(math.NaN()), StandardError: proto.Float64(math.Inf(1)), Values: []float64{1, math.NaN(), math.Inf(-1)},
				Scores: map[string]float64{"a": math.NaN()},
			}},
			`{"prediction":{"values":[1,null,null],"scores":{"a":null},"stateSequence":0}}`,
		},
		{
			"numbers", &hindsightv1.Labels{Values: []float64{0.1, 1e21, 1e-7, 123456789, math.Copysign(0, -1), math.MaxFloat64, math.SmallestNonzeroFloat64}},
			`{"values":[0.1,1e+21,1e-07,123456789,-0,1.7976931348623157e+308,5e-324]}`,
		},
		{
			"maps by key, and texts", &hindsightv1.Model{Labels: map[string]string{"b": "<\"\n\\é\u2028", "a": "x"}},
			`{"sequence":0,"inputs":[],"classes":[],"labels":{"a":"x","b":"\u003c\"\n\\é\u2028"},"aliases":[]}`,
		},
		{
			"times, durations and masks", &hindsightv1.UpdateModelRequest{
				Model:      &hindsightv1.Model{CreateTime: &timestamppb.Timestamp{Seconds: 1, Nanos: 5e8}, LabelTtl: durationpb.New(1.5e9)},
				UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"display_name", "labels"}},
			},
			`{"model":{"createTime":"1970-01-01T00:00:01.500Z","sequence":0,"labelTtl":"1.500s"},"updateMask":"displayName,labels","validateOnly":false}`,
		},
		{"a record", &hindsightv1.PredictRequest{Inputs: record}, `{"features":[],"inputs":{"city":"Oslo","load":1.5,"x":null},"explain":false,"minSequence":0}`},
		{"an enum", &hindsightv1.ModelSummary{State: hindsightv1.ModelSummary_STATE_LOADED}, `{"state":"STATE_LOADED","observationRate":0}`},
		{"an enum of a later version", &hindsightv1.ModelSummary{State: 99}, `{"state":99,"observationRate":0}`},
		{"bytes", &hindsightv1.ExportModelResponse{Chunk: []byte{0xff, 0, 1}}, `{"chunk":"/wAB"}`},
	} {
		text, err := gateway.Encode(c.message)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if string(text) != c.want+"\n" {
			t.Errorf("%s:\ngot  %swant %s", c.name, text, c.want)
		}
	}
}

// FuzzEncode looks for a message whose JSON is none, or is read as another message.
func FuzzEncode(f *testing.F) {
	kinds := []proto.Message{
		&hindsightv1.ModelSpec{}, &hindsightv1.Model{}, &hindsightv1.GetModelStatsResponse{}, &hindsightv1.PredictBatchResponse{},
		&hindsightv1.WatchModelResponse{}, &hindsightv1.ObserveBatchRequest{},
	}
	for kind, m := range []proto.Message{
		&hindsightv1.ModelSpec{Dimension: 3, Seed: 1 << 60, Learner: &hindsightv1.ModelSpec_Auto{Auto: &hindsightv1.Auto{Lags: proto.Int32(0)}}},
		&hindsightv1.Model{Id: "m", Labels: map[string]string{"k\"": "v\u2028"}, LabelTtl: durationpb.New(3)},
		&hindsightv1.GetModelStatsResponse{Stats: &hindsightv1.ModelStats{Regret: proto.Float64(math.Inf(1)), Observations: 7}},
		&hindsightv1.PredictBatchResponse{Predictions: []*hindsightv1.Prediction{{Scores: map[string]float64{"a": 0.5}}}},
	} {
		data := must(proto.Marshal(m))(f)
		f.Add(uint8(kind), data)
	}
	f.Fuzz(func(t *testing.T, kind uint8, data []byte) {
		m := proto.Clone(kinds[int(kind)%len(kinds)])
		if (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, m) != nil {
			return
		}
		plain, err := protojson.Marshal(m)
		text, ownErr := gateway.Encode(m)
		if (err == nil) != (ownErr == nil) {
			t.Fatalf("protojson says %v, we say %v", err, ownErr)
		}
		if err != nil {
			return // A time out of range.
		}
		if !json.Valid(text) {
			t.Fatalf("no JSON: %s", text)
		}
		if strings.Contains(string(plain), `"NaN"`) || strings.Contains(string(plain), `Infinity"`) {
			return
		}
		again := m.ProtoReflect().New().Interface()
		if err := protojson.Unmarshal(text, again); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if !proto.Equal(m, again) {
			t.Fatalf("%v became %v by %s", m, again, text)
		}
	})
}
