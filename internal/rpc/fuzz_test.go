package rpc_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/structpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// call is a unary method with its messages.
type call struct {
	method            string
	request, response func() proto.Message
	// seed is a good request.
	seed proto.Message
}

func of[Request, Response proto.Message](method string, seed Request, response Response) call {
	return call{
		method:   method,
		request:  func() proto.Message { return seed.ProtoReflect().New().Interface() },
		response: func() proto.Message { return response.ProtoReflect().New().Interface() },
		seed:     seed,
	}
}

func calls(tb testing.TB) []call {
	tb.Helper()
	x := []float64{1}
	row := goodRow(tb, `{"load": null}`)
	return []call{
		of(hindsightv1.PredictionService_Predict_FullMethodName, &hindsightv1.PredictRequest{Model: "named", Inputs: row, PredictionId: "p"}, &hindsightv1.PredictResponse{}),
		of(hindsightv1.PredictionService_Observe_FullMethodName, &hindsightv1.ObserveRequest{Model: "named", Inputs: row, Target: label(1), ObservationId: "o"}, &hindsightv1.ObserveResponse{}),
		of(hindsightv1.PredictionService_PredictBatch_FullMethodName, &hindsightv1.PredictBatchRequest{Model: "named", Inputs: []*structpb.Struct{row}}, &hindsightv1.PredictBatchResponse{}),
		of(hindsightv1.PredictionService_ObserveBatch_FullMethodName, &hindsightv1.ObserveBatchRequest{
			Model: "named", Observations: []*hindsightv1.ObserveRequest{{Inputs: row, Target: label(2)}},
		}, &hindsightv1.ObserveBatchResponse{}),
		of(hindsightv1.ModelService_GetModel_FullMethodName, &hindsightv1.GetModelRequest{Model: "named"}, &hindsightv1.GetModelResponse{}),
		of(hindsightv1.ModelService_GetModelStats_FullMethodName, &hindsightv1.GetModelStatsRequest{Model: "named"}, &hindsightv1.GetModelStatsResponse{}),
		of(hindsightv1.ModelService_ValidateSpec_FullMethodName, &hindsightv1.ValidateSpecRequest{Spec: named(tb, shop)}, &hindsightv1.ValidateSpecResponse{}),
		of(hindsightv1.PredictionService_Predict_FullMethodName, &hindsightv1.PredictRequest{Model: "m", Features: x, PredictionId: "p"}, &hindsightv1.PredictResponse{}),
		of(hindsightv1.PredictionService_Observe_FullMethodName, &hindsightv1.ObserveRequest{Model: "m", Features: x, Target: label(1), ObservationId: "o"}, &hindsightv1.ObserveResponse{}),
		of(hindsightv1.PredictionService_PredictBatch_FullMethodName, &hindsightv1.PredictBatchRequest{Model: "m", Rows: []*hindsightv1.Row{{Features: x}}}, &hindsightv1.PredictBatchResponse{}),
		of(hindsightv1.PredictionService_ObserveBatch_FullMethodName, &hindsightv1.ObserveBatchRequest{
			Model: "m", Observations: []*hindsightv1.ObserveRequest{{Features: x, Target: label(2), Weight: proto.Float64(2)}},
		}, &hindsightv1.ObserveBatchResponse{}),
		of(hindsightv1.ModelService_CreateModel_FullMethodName, &hindsightv1.CreateModelRequest{Id: "n", Spec: linear(1)}, &hindsightv1.CreateModelResponse{}),
		of(hindsightv1.ModelService_GetModel_FullMethodName, &hindsightv1.GetModelRequest{Model: "m"}, &hindsightv1.GetModelResponse{}),
		of(hindsightv1.ModelService_ListModels_FullMethodName, &hindsightv1.ListModelsRequest{PageSize: 3, Prefix: "m"}, &hindsightv1.ListModelsResponse{}),
		of(hindsightv1.ModelService_ListModels_FullMethodName, &hindsightv1.ListModelsRequest{
			OrderBy: "recent_loss desc", Labels: map[string]string{"a": "b"}, Contains: "m", IncludeSummary: true, ShowDeleted: true,
		}, &hindsightv1.ListModelsResponse{}),
		of(hindsightv1.ModelService_UpdateModel_FullMethodName, &hindsightv1.UpdateModelRequest{
			Model:      &hindsightv1.Model{Id: "m", DisplayName: "M", Labels: map[string]string{"a": "b"}},
			UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"display_name", "labels.a", "max_pending_labels"}},
		}, &hindsightv1.UpdateModelResponse{}),
		of(hindsightv1.ModelService_UndeleteModel_FullMethodName, &hindsightv1.UndeleteModelRequest{Model: "n"}, &hindsightv1.UndeleteModelResponse{}),
		of(hindsightv1.ModelService_DeleteModel_FullMethodName, &hindsightv1.DeleteModelRequest{Model: "n"}, &hindsightv1.DeleteModelResponse{}),
		of(hindsightv1.ModelService_GetModelStats_FullMethodName, &hindsightv1.GetModelStatsRequest{Model: "m", IncludeEffectiveDimension: true}, &hindsightv1.GetModelStatsResponse{}),
		of(hindsightv1.ModelService_ValidateSpec_FullMethodName, &hindsightv1.ValidateSpecRequest{Spec: &hindsightv1.ModelSpec{
			Dimension: 2, Learner: &hindsightv1.ModelSpec_PkawvNystrom{PkawvNystrom: &hindsightv1.PkawvNystrom{}},
		}}, &hindsightv1.ValidateSpecResponse{}),
		of(hindsightv1.ModelService_SnapshotModel_FullMethodName, &hindsightv1.SnapshotModelRequest{Model: "m"}, &hindsightv1.SnapshotModelResponse{}),
		of(hindsightv1.ModelService_ListSnapshots_FullMethodName, &hindsightv1.ListSnapshotsRequest{Model: "m"}, &hindsightv1.ListSnapshotsResponse{}),
		of(hindsightv1.ModelService_RestoreModel_FullMethodName, &hindsightv1.RestoreModelRequest{Model: "m", Sequence: proto.Uint64(1)}, &hindsightv1.RestoreModelResponse{}),
	}
}

// FuzzRequests sends any bytes as a request. The answer has finite numbers, or it is a
// rejection that says why; the server never panics.
func FuzzRequests(f *testing.F) {
	all := calls(f)
	for n, c := range all {
		seed := must(proto.Marshal(c.seed))(f)
		f.Add(uint8(n), seed)
	}
	s := serve(f)
	f.Fuzz(func(t *testing.T, n uint8, data []byte) {
		c := all[int(n)%len(all)]
		request := c.request()
		if proto.Unmarshal(data, request) != nil {
			t.Skip()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		s.create(t, "m", linear(1))
		s.create(t, "named", named(t, shop))
		response := c.response()
		err := s.connection.Invoke(ctx, c.method, request, response)
		switch status.Code(err) {
		case codes.OK:
			finiteNumbers(t, response)
		case codes.Internal, codes.Unknown, codes.DeadlineExceeded, codes.DataLoss:
			// A string that is not UTF-8 does not get past the codec.
			assert.Contains(t, err.Error(), "UTF-8", "%v %v %v", c.method, request, err)
		default:
			assert.True(t, len(status.Convert(err).Details()) != 0, "%s of %v is rejected without a reason: %v", c.method, request, err)
		}
	})
}

func finiteNumbers(t *testing.T, m proto.Message) {
	t.Helper()
	err := protorange.Range(m.ProtoReflect(), func(p protopath.Values) error {
		v, ok := p.Index(-1).Value.Interface().(float64)
		assert.True(t, !ok || !math.IsNaN(v) && !math.IsInf(v, 0), "%v in %v", v, m)
		return nil
	})
	assert.NoError(t, err)
}
