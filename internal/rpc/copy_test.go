package rpc_test

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/structpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/model"
	"hindsight/internal/model/snapshot"
	"hindsight/internal/rpc"
)

func specDescriptor() protoreflect.MessageDescriptor {
	return new(hindsightv1.ModelSpec).ProtoReflect().Descriptor()
}

// sides walks the messages that a spec is made of beside the structs of the
// model core.
type sides struct {
	t *testing.T
	// seen holds the messages that were compared.
	seen map[protoreflect.FullName]bool
	// fields are the full names of all fields.
	fields map[protoreflect.FullName]bool
}

func walkSpec(t *testing.T) sides {
	t.Helper()
	s := sides{t: t, seen: map[protoreflect.FullName]bool{}, fields: map[protoreflect.FullName]bool{}}
	s.walk(specDescriptor(), reflect.TypeFor[model.Spec]())
	return s
}

func (s sides) walk(m protoreflect.MessageDescriptor, g reflect.Type) {
	s.t.Helper()
	if s.seen[m.FullName()] {
		return
	}
	s.seen[m.FullName()] = true
	inStruct := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(g) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); !f.Anonymous {
			inStruct[name] = f.Type
		}
	}
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		s.fields[f.FullName()] = true
		of, ok := inStruct[string(f.Name())]
		if !ok {
			s.t.Errorf("%s is not in %v", f.FullName(), g)
			continue
		}
		delete(inStruct, string(f.Name()))
		s.compare(f, of)
	}
	for name := range inStruct {
		s.t.Errorf("%s of %v is not in %s", name, g, m.FullName())
	}
}

func (s sides) compare(f protoreflect.FieldDescriptor, g reflect.Type) {
	s.t.Helper()
	if (g.Kind() == reflect.Slice) != f.IsList() || (g.Kind() == reflect.Pointer) != f.HasPresence() {
		s.t.Errorf("%s is a %v: a list is to be a slice, a field with presence a pointer, anything else neither", f.FullName(), g)
		return
	}
	for f.IsList() && g.Kind() == reflect.Slice && g.Elem().Kind() == reflect.Slice {
		row := f.Message().Fields()
		if row.Len() != 1 || !row.Get(0).IsList() {
			s.t.Errorf("%s is a %v: its message is to be one list", f.FullName(), g)
			return
		}
		f, g = row.Get(0), g.Elem()
		s.fields[f.FullName()] = true
	}
	if g.Kind() == reflect.Slice || g.Kind() == reflect.Pointer {
		g = g.Elem()
	}
	if f.Message() != nil {
		if g.Kind() == reflect.Pointer {
			g = g.Elem()
		}
		s.walk(f.Message(), g)
		return
	}
	want := map[protoreflect.Kind]reflect.Kind{
		protoreflect.BoolKind: reflect.Bool, protoreflect.DoubleKind: reflect.Float64,
		protoreflect.Int32Kind: reflect.Int, protoreflect.Int64Kind: reflect.Int64, protoreflect.Uint64Kind: reflect.Uint64,
		protoreflect.StringKind: reflect.String, protoreflect.EnumKind: reflect.String,
	}[f.Kind()]
	if g.Kind() != want {
		s.t.Errorf("%s of kind %v is a %v, want a %v", f.FullName(), f.Kind(), g, want)
	}
}

// Every field of the API's spec is in the model core's spec, under its name
// and of its type, and every field there is in the API.
func TestSpecHasTheFieldsOfTheAPI(t *testing.T) {
	walkSpec(t)
	var names []string
	learners := specDescriptor().Oneofs().ByName("learner").Fields()
	for i := range learners.Len() {
		names = append(names, string(learners.Get(i).Name()))
	}
	assert.Equal(t, names, model.LearnerNames())
}

// filler fills messages. No two numbers in them are the same.
type filler struct {
	rng    *rand.Rand
	count  int
	filled map[protoreflect.FullName]bool
	// zero leaves scalars at zero and lists empty.
	zero bool
}

// fill sets all fields, of each oneof a random one.
func (f *filler) fill(m protoreflect.Message) {
	chosen := map[protoreflect.FullName]int{}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if one := field.ContainingOneof(); one != nil && !one.IsSynthetic() {
			if _, ok := chosen[one.FullName()]; !ok {
				chosen[one.FullName()] = f.rng.IntN(one.Fields().Len())
			}
			if one.Fields().Get(chosen[one.FullName()]) != field {
				continue
			}
		}
		f.filled[field.FullName()] = true
		if !field.IsList() {
			m.Set(field, f.value(field, m.NewField(field)))
			continue
		}
		for list := m.Mutable(field).List(); list.Len() < 3 && !f.zero; {
			list.Append(f.value(field, list.NewElement()))
		}
	}
}

func (f *filler) value(field protoreflect.FieldDescriptor, fresh protoreflect.Value) protoreflect.Value {
	if field.Message() != nil {
		f.fill(fresh.Message())
		return fresh
	}
	if f.zero {
		return fresh
	}
	f.count++
	switch field.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(f.rng.IntN(2) == 0)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(float64(f.count) + 0.1)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(-int32(f.count))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(int64(f.count) << 40)
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(uint64(f.count) | 1<<63)
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(strings.Repeat("é", f.count))
	case protoreflect.EnumKind:
		values := field.Enum().Values()
		return protoreflect.ValueOfEnum(values.Get(f.rng.IntN(values.Len())).Number())
	default:
		panic(field.Kind())
	}
}

// A message with a value in every field is the same after it was a spec, also
// a stored one, and so is one whose fields are all set to zero.
func TestNoFieldOfASpecIsLost(t *testing.T) {
	filled := map[protoreflect.FullName]bool{}
	for seed := range uint64(400) {
		f := filler{rng: rand.New(rand.NewPCG(seed, 0)), filled: filled, zero: seed%4 == 0}
		p := new(hindsightv1.ModelSpec)
		f.fill(p.ProtoReflect())
		spec := must(rpc.SpecFromProto(p))(t)
		back := rpc.SpecToProto(spec)
		require.True(t, proto.Equal(back, p), "got  %v\nwant %v", back, p)
		stored := must(snapshot.EncodeSpec(spec))(t)
		again, err := snapshot.DecodeSpec(stored)
		require.True(t, err == nil && reflect.DeepEqual(again, spec), "%+v, %v; want %+v", again, err, spec)
		require.Equal(t, string(p.ProtoReflect().WhichOneof(specDescriptor().Oneofs().ByName("learner")).Name()), spec.Name())
	}
	if all := walkSpec(t).fields; !maps.Equal(filled, all) {
		t.Errorf("filled %v\nof %v", slices.Sorted(maps.Keys(filled)), slices.Sorted(maps.Keys(all)))
	}
}

// What is stored of a spec has the API's names and the lower case names of its
// enums.
func TestSpecsAreStoredUnderTheNamesOfTheAPI(t *testing.T) {
	for _, c := range []struct{ text, stored string }{
		{``, `{"dimension":0,"outputs":0,"seed":0}`},
		{
			`dimension: 2 outputs: 3 seed: 18446744073709551615 linear_awv {} scaling {}`,
			`{"dimension":2,"outputs":3,"seed":18446744073709551615,"scaling":{},"linear_awv":{}}`,
		},
		{
			`pkawv_taylor { degree: 0 sigma: -0.0 lambda: 1e-300 }`,
			`{"dimension":0,"outputs":0,"seed":0,"pkawv_taylor":{"sigma":-0,"degree":0,"lambda":1e-300}}`,
		},
		{
			`scaling { warmup { observations: 9 labels: false } } pkawv_nystrom {
				kernel { kind: KIND_MATERN_32 sigma: 2 } horizon: 9007199254740993 history: HISTORY_WINDOW history_window: 4
				dictionary { features: [1, 2] } dictionary { features: [3] } }`,
			`{"dimension":0,"outputs":0,"seed":0,"scaling":{"warmup":{"observations":9,"labels":false}},"pkawv_nystrom":{` +
				`"kernel":{"kind":"matern_32","sigma":2},"horizon":9007199254740993,"history":"window","history_window":4,` +
				`"dictionary":[[1,2],[3]]}}`,
		},
		{
			`ada_raker { kernels {} kernels { kind: KIND_RATIONAL_QUADRATIC } loss: LOSS_HINGE weight_step: 1 step_cap: 2 restart: RESTART_COLD }`,
			`{"dimension":0,"outputs":0,"seed":0,"ada_raker":{"kernels":[{},{"kind":"rational_quadratic"}],"loss":"hinge",` +
				`"weight_step":1,"step_cap":2,"restart":"cold"}}`,
		},
		{
			`fourier_kons { loss: LOSS_SQUARED range: -1 range: 2.5 eta: 0.5 track_regret: false }`,
			`{"dimension":0,"outputs":0,"seed":0,"fourier_kons":{"loss":"squared","range":[-1,2.5],"eta":0.5,"track_regret":false}}`,
		},
		{
			`pros_n_kons { loss: LOSS_SQUARED_HINGE clip: 2 growth: GROWTH_RESTART dictionary { features: 1 } }`,
			`{"dimension":0,"outputs":0,"seed":0,"pros_n_kons":{"loss":"squared_hinge","clip":2,"dictionary":[[1]],"growth":"restart"}}`,
		},
		{
			`kons { kernel { kind: KIND_LINEAR } alpha: 2 gamma: 0.25 max_observations: 7 }`,
			`{"dimension":0,"outputs":0,"seed":0,"kons":{"kernel":{"kind":"linear"},"alpha":2,"gamma":0.25,"max_observations":7}}`,
		},
	} {
		p := new(hindsightv1.ModelSpec)
		require.NoError(t, prototext.Unmarshal([]byte(c.text), p))
		spec := must(rpc.SpecFromProto(p))(t)
		stored, err := snapshot.EncodeSpec(spec)
		assert.True(t, err == nil && string(stored) == c.stored, "%s: %v\ngot  %s\nwant %s", c.text, err, stored, c.stored)
		var read model.Spec
		require.NoError(t, json.Unmarshal([]byte(c.stored), &read))
		back := rpc.SpecToProto(read)
		assert.True(t, proto.Equal(back, p), "got  %v\nwant %v", back, p)
	}
}

// An enum's value of a later version is rejected by its number.
func TestUnknownEnumIsRejected(t *testing.T) {
	s := serve(t)
	_, err := s.models.ValidateSpec(t.Context(), &hindsightv1.ValidateSpecRequest{Spec: &hindsightv1.ModelSpec{
		Dimension: 1, Learner: &hindsightv1.ModelSpec_Fogd{Fogd: &hindsightv1.Fogd{Loss: 99}},
	}})
	rejected(t, err, codes.InvalidArgument, "INVALID_SPEC", "spec.fogd.loss", "got 99")
}

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
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
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
