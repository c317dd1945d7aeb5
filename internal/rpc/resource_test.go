package rpc_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/engine"
)

// kept lets deleted models stay for a day.
func kept(o *engine.Options) { o.DeletedKept = 24 * time.Hour }

func mask(paths ...string) *fieldmaskpb.FieldMask { return &fieldmaskpb.FieldMask{Paths: paths} }

func described() *hindsightv1.CreateModelRequest {
	return &hindsightv1.CreateModelRequest{
		Id: "m", Spec: linear(1), DisplayName: "Energy of the north", Labels: map[string]string{"team": "grid", "stage": "test"},
		Annotations: map[string]string{"note": "line one\nline two"}, LabelTtl: durationpb.New(time.Hour), MaxPendingLabels: proto.Int64(3),
	}
}

func (s *service) get(t *testing.T) *hindsightv1.Model {
	t.Helper()
	r := must(s.models.GetModel(t.Context(), &hindsightv1.GetModelRequest{Model: "m"}))(t)
	return r.GetModel()
}

func sameMetadata(t *testing.T, got *hindsightv1.Model, want carrier) {
	t.Helper()
	if got.GetDisplayName() != want.GetDisplayName() || !maps.Equal(got.GetLabels(), want.GetLabels()) ||
		!maps.Equal(got.GetAnnotations(), want.GetAnnotations()) || !proto.Equal(got.GetLabelTtl(), want.GetLabelTtl()) ||
		got.GetMaxPendingLabels() != want.GetMaxPendingLabels() {
		t.Errorf("the metadata are those of %v, want %v", got, want)
	}
}

// carrier is a message with metadata.
type carrier interface {
	GetDisplayName() string
	GetLabels() map[string]string
	GetAnnotations() map[string]string
	GetLabelTtl() *durationpb.Duration
	GetMaxPendingLabels() int64
}

// Metadata are answered by every call, and are there after a restart. A model that is
// created again keeps those that it has.
func TestMetadata(t *testing.T) {
	fs := vfs.NewMem()
	s := serveOver(t, fs, kept)
	request := described()
	checked := proto.CloneOf(request)
	checked.ValidateOnly = true
	would, err := s.models.CreateModel(t.Context(), checked)
	require.NoError(t, err)
	sameMetadata(t, would.GetModel(), request)
	assert.True(t, would.GetModel().GetCreateTime() == nil && would.GetModel().GetEtag() == "" && would.GetModel().GetSpec().GetOutputs() == 1, "it would be %v", would)
	rejected(t, errOf(s.models.GetModel(t.Context(), &hindsightv1.GetModelRequest{Model: "m"})), codes.NotFound, "MODEL_NOT_FOUND")
	created := must(s.models.CreateModel(t.Context(), request))(t)
	m := created.GetModel()
	sameMetadata(t, m, request)
	assert.True(t, m.GetEtag() != "" && m.GetUpdateTime().AsTime().Equal(m.GetCreateTime().AsTime()) && m.GetDeleteTime() == nil && m.GetPurgeTime() == nil, "created %v", m)
	again, err := s.models.CreateModel(t.Context(), &hindsightv1.CreateModelRequest{Id: "m", Spec: linear(1), DisplayName: "other"})
	assert.True(t, err == nil && proto.Equal(again.GetModel(), m), "created again it is %v, %v; want %v", again, err, m)
	s.end()
	s = serveOver(t, fs, kept)
	got := s.get(t)
	assert.True(t, proto.Equal(got, m), "after a restart %v, want %v", got, m)
	list, err := s.models.ListModels(t.Context(), &hindsightv1.ListModelsRequest{})
	assert.True(t, err == nil && len(list.GetModels()) == 1 && proto.Equal(list.GetModels()[0], m), "listed %v, %v", list, err)
}

// A mask names what changes. The rest stays, and so does what is fixed.
func TestUpdateModel(t *testing.T) {
	fs := vfs.NewMem()
	s := serveOver(t, fs, kept)
	created := must(s.models.CreateModel(t.Context(), described()))(t)
	now := created.GetModel()
	update := func(change *hindsightv1.Model, paths ...string) *hindsightv1.Model {
		t.Helper()
		change.Id, change.Etag = "m", now.GetEtag()
		request := &hindsightv1.UpdateModelRequest{Model: change, UpdateMask: mask(paths...), ValidateOnly: true}
		would := must(s.models.UpdateModel(t.Context(), request))(t)
		got := s.get(t)
		assert.True(t, proto.Equal(got, now), "validate_only made %v of %v", got, now)
		request.ValidateOnly = false
		r := must(s.models.UpdateModel(t.Context(), request))(t)
		sameMetadata(t, would.GetModel(), r.GetModel())
		assert.True(t, r.GetModel().GetEtag() != now.GetEtag() && r.GetModel().GetUpdateTime().AsTime().After(now.GetCreateTime().AsTime()), "the etag of %v is that of before", r)
		now = r.GetModel()
		got = s.get(t)
		assert.True(t, proto.Equal(got, now), "got %v, want %v", got, now)
		return now
	}
	update(&hindsightv1.Model{DisplayName: "west"}, "displayName")
	update(&hindsightv1.Model{DisplayName: "south"}, "display_name")
	if m := update(&hindsightv1.Model{Labels: map[string]string{"stage": "live", "a.b": "c"}}, "labels.stage", "labels.a.b", "labels.team"); !maps.Equal(
		m.GetLabels(), map[string]string{"stage": "live", "a.b": "c"}) || m.GetDisplayName() != "south" || len(m.GetAnnotations()) != 1 {
		t.Errorf("single labels: %v", m)
	}
	m := update(&hindsightv1.Model{Annotations: map[string]string{"By hand": "x"}}, "annotations.By hand")
	assert.Equal(t, 2, len(m.GetAnnotations()), m)
	m = update(&hindsightv1.Model{LabelTtl: durationpb.New(time.Minute)}, "label_ttl", "max_pending_labels")
	assert.True(t, m.MaxPendingLabels == nil && m.GetLabelTtl().GetSeconds() == 60, "limits: %v", m)
	m = update(&hindsightv1.Model{}, "labels", "annotations")
	assert.Equal(t, 0, len(m.GetLabels())+len(m.GetAnnotations()), m)
	m = update(&hindsightv1.Model{DisplayName: "all"}, "*")
	assert.True(t, m.GetDisplayName() == "all" && m.GetLabelTtl() == nil, "all fields: %v", m)
	same, err := s.models.UpdateModel(t.Context(), &hindsightv1.UpdateModelRequest{Model: &hindsightv1.Model{Id: "m", DisplayName: "all"}, UpdateMask: mask("display_name")})
	assert.True(t, err == nil && proto.Equal(same.GetModel(), now), "nothing changed: %v, %v", same, err)
	s.end()
	s = serveOver(t, fs, kept)
	got := s.get(t)
	assert.True(t, proto.Equal(got, now), "after a restart %v, want %v", got, now)
}

func TestUpdateModelRejects(t *testing.T) {
	s := serve(t)
	m := s.create(t, "m", linear(1))
	reject := func(change *hindsightv1.Model, code codes.Code, reason, word string, paths ...string) {
		t.Helper()
		if change != nil && change.GetId() == "" {
			change.Id = "m"
		}
		rejected(t, errOf(s.models.UpdateModel(t.Context(), &hindsightv1.UpdateModelRequest{Model: change, UpdateMask: mask(paths...)})), code, reason, word)
		got := s.get(t)
		assert.True(t, proto.Equal(got, m), "rejected, and became %v", got)
	}
	change := func() *hindsightv1.Model { return &hindsightv1.Model{DisplayName: "x"} }
	reject(nil, codes.InvalidArgument, "INVALID_ID", "model.id: got nothing", "display_name")
	reject(&hindsightv1.Model{Id: "other"}, codes.NotFound, "MODEL_NOT_FOUND", "other", "display_name")
	reject(change(), codes.InvalidArgument, "INVALID_REQUEST", "update_mask: got nothing, want display_name, labels")
	reject(change(), codes.InvalidArgument, "INVALID_REQUEST", "which is fixed, want display_name", "display_name", "spec.dimension")
	reject(change(), codes.InvalidArgument, "INVALID_REQUEST", "which is no field of a model", "colour")
	reject(change(), codes.InvalidArgument, "INVALID_REQUEST", `"labels."`, "labels.")
	reject(&hindsightv1.Model{Etag: m.GetEtag() + "0"}, codes.Aborted, "ETAG_MISMATCH", m.GetEtag(), "display_name")
	reject(&hindsightv1.Model{DisplayName: strings.Repeat("ü", 64)}, codes.InvalidArgument, "INVALID_REQUEST", "model.display_name: got 64 characters, want at most 63", "display_name")
	reject(&hindsightv1.Model{Labels: map[string]string{"A": "b"}}, codes.InvalidArgument, "INVALID_REQUEST", `model.labels: got the key "A"`, "labels")
	reject(&hindsightv1.Model{Labels: map[string]string{"a": strings.Repeat("b", 64)}}, codes.InvalidArgument, "INVALID_REQUEST", "model.labels.a: got 64 characters", "labels.a")
	many := map[string]string{}
	for n := range 65 {
		many[fmt.Sprint("k", n)] = strings.Repeat("v", 260)
	}
	reject(&hindsightv1.Model{Labels: many}, codes.InvalidArgument, "INVALID_REQUEST", "model.labels: got 65 labels", "labels")
	reject(&hindsightv1.Model{Annotations: many}, codes.InvalidArgument, "INVALID_REQUEST", "16384", "annotations")
	reject(&hindsightv1.Model{LabelTtl: durationpb.New(0)}, codes.InvalidArgument, "INVALID_REQUEST", "model.label_ttl", "label_ttl")
	reject(&hindsightv1.Model{MaxPendingLabels: proto.Int64(0)}, codes.InvalidArgument, "INVALID_REQUEST", "model.max_pending_labels: got 0", "max_pending_labels")
	reject(&hindsightv1.Model{MaxPendingLabels: proto.Int64(1 << 40)}, codes.InvalidArgument, "INVALID_REQUEST", "model.max_pending_labels", "max_pending_labels")
}

// label_ttl and max_pending_labels hold for the predictions that are asked for later.
func TestMetadataOfPredictions(t *testing.T) {
	var now atomic.Int64
	now.Store(time.Now().UnixNano())
	s := serveOver(t, vfs.NewMem(), func(o *engine.Options) { o.Now = func() time.Time { return time.Unix(0, now.Load()) } })
	must(s.models.CreateModel(t.Context(), &hindsightv1.CreateModelRequest{
		Id: "m", Spec: linear(1), LabelTtl: durationpb.New(2 * time.Hour), MaxPendingLabels: proto.Int64(2),
	}))(t)
	predict := func() (string, error) {
		p, err := s.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "m", Features: []float64{1}})
		return p.GetPrediction().GetPredictionId(), err
	}
	observe := func(id string) error {
		return errOf(s.Observe(t.Context(), &hindsightv1.ObserveRequest{Model: "m", PredictionId: id, Target: label(1)}))
	}
	first, err := predict()
	second, secondErr := predict()
	require.NoError(t, errors.Join(err, secondErr))
	rejected(t, errOf(predict()), codes.ResourceExhausted, "PENDING_LIMIT", "the limit is 2")
	now.Add(int64(90 * time.Minute)) // Beyond what the server waits by default.
	assert.NoError(t, observe(first))
	now.Add(int64(time.Hour))
	rejected(t, observe(second), codes.NotFound, "PREDICTION_NOT_FOUND", "observation_id", "label_ttl")
}

// A deleted model answers nothing, keeps its id, and comes back with all that it had
// learned.
func TestDeleteAndUndelete(t *testing.T) {
	fs := vfs.NewMem()
	s := serveOver(t, fs, kept)
	created, err := s.models.CreateModel(t.Context(), described())
	require.NoError(t, err)
	s.create(t, "other", linear(1))
	for n := range 5 {
		must(s.Observe(t.Context(), &hindsightv1.ObserveRequest{Model: "m", Features: []float64{float64(n)}, Target: label(1), ObservationId: strconv.Itoa(n)}))(t)
	}
	waiting := must(s.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "m", Features: []float64{1}}))(t)
	digest := s.digest(t)
	rejected(t, errOf(s.models.DeleteModel(t.Context(), &hindsightv1.DeleteModelRequest{Model: "m", Etag: "old"})), codes.Aborted, "ETAG_MISMATCH")
	checked, err := s.models.DeleteModel(t.Context(), &hindsightv1.DeleteModelRequest{Model: "m", ValidateOnly: true})
	assert.True(t, err == nil && checked.GetModel().GetDeleteTime() == nil, "checked %v, %v", checked, err)
	deleted := must(s.models.DeleteModel(t.Context(), &hindsightv1.DeleteModelRequest{Model: "m", Etag: created.GetModel().GetEtag()}))(t)
	m := deleted.GetModel()
	d := m.GetPurgeTime().AsTime().Sub(m.GetDeleteTime().AsTime())
	assert.True(t, d == 24*time.Hour && m.GetSequence() == 5 && m.GetEtag() != created.GetModel().GetEtag(), "deleted %v", m)
	gone := func() {
		t.Helper()
		until := m.GetPurgeTime().AsTime().Format(time.RFC3339)
		_, err := s.models.GetModel(t.Context(), &hindsightv1.GetModelRequest{Model: "m"})
		rejected(t, err, codes.NotFound, "MODEL_NOT_FOUND", "UndeleteModel", until)
		_, err = s.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "m", Features: []float64{1}})
		rejected(t, err, codes.NotFound, "MODEL_NOT_FOUND", "UndeleteModel", until)
		_, err = s.Observe(t.Context(), &hindsightv1.ObserveRequest{Model: "m", Features: []float64{1}, Target: label(1)})
		rejected(t, err, codes.NotFound, "MODEL_NOT_FOUND", "UndeleteModel", until)
		rejected(t, errOf(s.models.DeleteModel(t.Context(), &hindsightv1.DeleteModelRequest{Model: "m"})), codes.NotFound, "MODEL_NOT_FOUND", "UndeleteModel", until)
		_, err = s.models.UpdateModel(t.Context(), &hindsightv1.UpdateModelRequest{Model: &hindsightv1.Model{Id: "m"}, UpdateMask: mask("labels")})
		rejected(t, err, codes.NotFound, "MODEL_NOT_FOUND", "UndeleteModel", until)
		rejected(t, errOf(s.models.CreateModel(t.Context(), described())), codes.AlreadyExists, "MODEL_EXISTS", "UndeleteModel", "purge", until)
		assert.Equal(t, "other of 1", s.listed(t, &hindsightv1.ListModelsRequest{}))
		assert.Equal(t, "m other of 2", s.listed(t, &hindsightv1.ListModelsRequest{ShowDeleted: true}))
	}
	gone()
	s.end()
	s = serveOver(t, fs, kept)
	gone()
	back, err := s.models.UndeleteModel(t.Context(), &hindsightv1.UndeleteModelRequest{Model: "m"})
	require.True(t, err == nil && back.GetModel().GetDeleteTime() == nil && back.GetModel().GetPurgeTime() == nil && back.GetModel().GetSequence() == 5, "back %v, %v", back, err)
	sameMetadata(t, back.GetModel(), created.GetModel())
	again, err := s.models.UndeleteModel(t.Context(), &hindsightv1.UndeleteModelRequest{Model: "m"})
	assert.True(t, err == nil && proto.Equal(again, back), "brought back again %v, %v", again, err)
	assert.Equal(t, digest, s.digest(t), "it came back in another state")
	_, err = s.Observe(t.Context(), &hindsightv1.ObserveRequest{Model: "m", PredictionId: waiting.GetPrediction().GetPredictionId(), Target: label(1)})
	assert.NoError(t, err, "the label of a prediction of before")
	twice, err := s.Observe(t.Context(), &hindsightv1.ObserveRequest{Model: "m", Features: []float64{4}, Target: label(1), ObservationId: "4"})
	assert.True(t, err == nil && twice.GetOutcome().GetDuplicate(), "an observation of before: %v, %v", twice, err)
	rejected(t, errOf(s.models.UndeleteModel(t.Context(), &hindsightv1.UndeleteModelRequest{Model: "none"})), codes.NotFound, "MODEL_NOT_FOUND")
}

// listed are the ids of all pages, in pages of two, and the number that every page tells.
func (s *service) listed(t *testing.T, r *hindsightv1.ListModelsRequest) string {
	t.Helper()
	r = proto.CloneOf(r)
	r.PageSize = 2
	var ids []string
	for {
		page := must(s.models.ListModels(t.Context(), r))(t)
		for _, m := range page.GetModels() {
			ids = append(ids, m.GetId())
		}
		if r.PageToken = page.GetNextPageToken(); r.GetPageToken() == "" {
			return fmt.Sprintf("%s of %d", strings.Join(ids, " "), page.GetTotalSize())
		}
	}
}

func TestListModels(t *testing.T) {
	s := serve(t)
	for n, id := range []string{"a1", "b1", "a2", "c", "a3"} {
		request := &hindsightv1.CreateModelRequest{Id: id, Spec: linear(1), Labels: map[string]string{"odd": strconv.Itoa(n % 2)}, DisplayName: "Number " + id[:1]}
		if id == "c" {
			request.Spec = &hindsightv1.ModelSpec{Dimension: 1, Scaling: unscaled(), Learner: &hindsightv1.ModelSpec_Raker{Raker: &hindsightv1.Raker{}}}
		}
		must(s.models.CreateModel(t.Context(), request))(t)
		for k := range n {
			must(s.Observe(t.Context(), &hindsightv1.ObserveRequest{Model: id, Features: []float64{1}, Target: label(float64(n + k*k))}))(t)
		}
	}
	for want, r := range map[string]*hindsightv1.ListModelsRequest{
		"a1 a2 a3 b1 c of 5": {},
		"a1 a2 a3 of 3":      {Prefix: "a"},
		"a3 a2 a1 of 3":      {Prefix: "a", OrderBy: "id desc"},
		"b1 c of 2":          {Labels: map[string]string{"odd": "1"}},
		"c of 1":             {Learner: "raker"},
		"a1 a2 a3 b1 of 4":   {Learner: "linear_awv"},
		"a3 c a2 b1 a1 of 5": {OrderBy: "sequence desc"},
		"a1 b1 a2 c a3 of 5": {OrderBy: " create_time  asc"},
		" of 0":              {Labels: map[string]string{"odd": "1"}, Prefix: "a"},
		"b1 of 1":            {Contains: "UMBER B"},
		"a1 b1 of 2":         {Contains: "1"},
	} {
		assert.Equal(t, want, s.listed(t, r), r)
	}
	// What is not known is last: a1 has learned nothing, and raker's regret is solved.
	summaries := map[string]*hindsightv1.ModelSummary{}
	all, err := s.models.ListModels(t.Context(), &hindsightv1.ListModelsRequest{IncludeSummary: true})
	require.NoError(t, err)
	for _, m := range all.GetModels() {
		summaries[m.GetId()] = m.GetSummary()
		assert.True(t, m.GetSummary().GetState() == hindsightv1.ModelSummary_STATE_LOADED && (m.GetSequence() > 0) == (m.GetSummary().GetObservationRate() > 0), "summary %v", m)
		if at := m.GetSummary().GetObserveTime(); (m.GetSequence() > 0) != (at != nil) || (at != nil && at.AsTime().Before(m.GetCreateTime().AsTime())) {
			t.Errorf("%s with %d observations was observed at %v", m.GetId(), m.GetSequence(), at)
		}
	}
	for order, figure := range map[string]func(*hindsightv1.ModelSummary) *float64{
		"recent_loss": func(s *hindsightv1.ModelSummary) *float64 {
			if s.GetRecent().GetServed() == nil {
				return nil
			}
			return &s.GetRecent().GetServed().MeanLoss
		},
		"recent_skill": skillOf, "health": skillOf,
		"regret": func(s *hindsightv1.ModelSummary) *float64 { return s.Regret },
	} {
		for _, direction := range []string{"", " desc"} {
			ids := slices.Sorted(maps.Keys(summaries))
			slices.SortStableFunc(ids, func(a, b string) int {
				x, y := figure(summaries[a]), figure(summaries[b])
				switch {
				case x == nil && y == nil:
					return 0
				case y == nil || (x != nil && (*x < *y) == (direction == "") && *x != *y):
					return -1
				case x == nil || *x != *y:
					return 1
				}
				return 0
			})
			want := strings.Join(ids, " ") + " of 5"
			got := s.listed(t, &hindsightv1.ListModelsRequest{OrderBy: order + direction})
			assert.True(t, got == want, "by %s%s: %s, want %s", order, direction, got, want)
		}
	}
	for field, r := range map[string]*hindsightv1.ListModelsRequest{
		"order_by": {OrderBy: "loss"}, "page_size": {PageSize: -1},
		"page_token": {PageToken: "AAAA"},
	} {
		rejected(t, errOf(s.models.ListModels(t.Context(), r)), codes.InvalidArgument, "INVALID_REQUEST", field)
	}
	rejected(t, errOf(s.models.ListModels(t.Context(), &hindsightv1.ListModelsRequest{PageToken: "%"})), codes.InvalidArgument, "INVALID_REQUEST", "page_token")
	first := must(s.models.ListModels(t.Context(), &hindsightv1.ListModelsRequest{PageSize: 1}))(t)
	_, err = s.models.ListModels(t.Context(), &hindsightv1.ListModelsRequest{PageToken: first.GetNextPageToken(), OrderBy: "sequence"})
	rejected(t, err, codes.InvalidArgument, "INVALID_REQUEST", "page_token", "order_by")
}

func skillOf(s *hindsightv1.ModelSummary) *float64 {
	if f := s.GetRecent().GetServed(); f != nil {
		return f.Skill
	}
	return nil
}

// All that is wrong with a call is told at once.
func TestAllViolations(t *testing.T) {
	s := serve(t)
	_, err := s.models.CreateModel(t.Context(), &hindsightv1.CreateModelRequest{
		Id: "No", DisplayName: strings.Repeat("x", 64), LabelTtl: durationpb.New(-1), MaxPendingLabels: proto.Int64(-2),
		Spec: &hindsightv1.ModelSpec{Dimension: 0, Coverage: []float64{2}, Learner: &hindsightv1.ModelSpec_PkawvTaylor{
			PkawvTaylor: &hindsightv1.PkawvTaylor{Sigma: proto.Float64(-1), Lambda: proto.Float64(0)},
		}},
	})
	rejected(t, err, codes.InvalidArgument, "INVALID_SPEC", `id: got "No"`, "spec.dimension")
	var fields []string
	for _, d := range status.Convert(err).Details() {
		if bad, ok := d.(*errdetails.BadRequest); ok {
			for _, v := range bad.GetFieldViolations() {
				fields = append(fields, v.GetField()+" "+v.GetReason())
			}
		}
	}
	want := []string{
		"id INVALID_ID", "spec.dimension INVALID_SPEC", "spec.coverage[0] INVALID_SPEC", "spec.pkawv_taylor.sigma INVALID_SPEC",
		"spec.pkawv_taylor.lambda INVALID_SPEC", "label_ttl INVALID_REQUEST", "max_pending_labels INVALID_REQUEST", "display_name INVALID_REQUEST",
	}
	slices.Sort(fields)
	slices.Sort(want)
	assert.Equal(t, want, fields)
	for _, err := range []error{
		errOf(s.models.GetModel(t.Context(), &hindsightv1.GetModelRequest{})),
		errOf(s.Predict(t.Context(), &hindsightv1.PredictRequest{Features: []float64{1}})),
		errOf(s.models.DeleteModel(t.Context(), &hindsightv1.DeleteModelRequest{})),
		errOf(s.models.UndeleteModel(t.Context(), &hindsightv1.UndeleteModelRequest{})),
	} {
		rejected(t, err, codes.InvalidArgument, "INVALID_ID", "model: got nothing, want the id of a model")
	}
}

// RestoreModel tells how much it undoes, before and after.
func TestRestoreTellsWhatIsUndone(t *testing.T) {
	s := serve(t)
	s.create(t, "m", linear(1))
	for n := range 5 {
		must(s.Observe(t.Context(), &hindsightv1.ObserveRequest{Model: "m", Features: []float64{float64(n)}, Target: label(1)}))(t)
	}
	digest := s.digest(t)
	for _, validate := range []bool{true, false, true} {
		r := must(s.models.RestoreModel(t.Context(), &hindsightv1.RestoreModelRequest{Model: "m", Sequence: proto.Uint64(2), ValidateOnly: validate}))(t)
		switch before := s.digest(t) == digest; {
		case validate && before && (r.GetUndone() != 3 || r.GetModel().GetSequence() != 5):
			t.Errorf("a dry run answers %v", r)
		case !validate && (before || r.GetUndone() != 3 || r.GetModel().GetSequence() != 2):
			t.Errorf("a restore answers %v", r)
		case validate && !before && r.GetUndone() != 0:
			t.Errorf("a dry run after it answers %v", r)
		}
	}
	_, err := s.models.RestoreModel(t.Context(), &hindsightv1.RestoreModelRequest{Model: "m", Sequence: proto.Uint64(9), ValidateOnly: true})
	rejected(t, err, codes.NotFound, "SNAPSHOT_NOT_FOUND")
}

func (s *service) export(t *testing.T, id string) []byte {
	t.Helper()
	return s.exported(t, &hindsightv1.ExportModelRequest{Model: id})
}

func (s *service) exported(t *testing.T, r *hindsightv1.ExportModelRequest) []byte {
	t.Helper()
	stream := must(s.models.ExportModel(t.Context(), r))(t)
	var data []byte
	for {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return data
		}
		require.NoError(t, err)
		data = append(data, piece.GetChunk()...)
	}
}

func (s *service) importFrom(t *testing.T, id string, data []byte) (*hindsightv1.Model, error) {
	t.Helper()
	stream := must(s.models.ImportModel(t.Context()))(t)
	for n := 0; n < len(data) || n == 0; n += 1000 {
		if err := stream.Send(&hindsightv1.ImportModelRequest{Id: id, Chunk: data[n:min(n+1000, len(data))]}); err != nil {
			break // The answer says why.
		}
	}
	answer, err := stream.CloseAndRecv()
	return answer.GetModel(), err
}

func TestTimeTravel(t *testing.T) {
	s := serve(t)
	ctx := t.Context()
	s.create(t, "m", linear(1))
	observe := func(y float64) {
		t.Helper()
		must(s.Observe(ctx, &hindsightv1.ObserveRequest{Model: "m", Features: []float64{y}, Target: label(y)}))(t)
	}
	digest := func(id string) string {
		t.Helper()
		stats := must(s.models.GetModelStats(ctx, &hindsightv1.GetModelStatsRequest{Model: id}))(t)
		return stats.GetStats().GetStateDigest()
	}
	observe(1)
	observe(2)
	kept := must(s.models.SnapshotModel(ctx, &hindsightv1.SnapshotModelRequest{Model: "m"}))(t)
	at2 := digest("m")
	k := kept.GetSnapshot()
	assert.True(t, k.GetSequence() == 2 && k.GetStateDigest() == at2 && k.GetBytes() != 0 && k.GetCreateTime().GetSeconds() != 0, "%v", kept)
	observe(3)
	at3, exported := digest("m"), s.export(t, "m")
	list, err := s.models.ListSnapshots(ctx, &hindsightv1.ListSnapshotsRequest{Model: "m"})
	assert.True(t, err == nil && len(list.GetSnapshots()) == 1 && proto.Equal(list.GetSnapshots()[0], kept.GetSnapshot()), "%v, %v", list, err)
	back, err := s.models.RestoreModel(ctx, &hindsightv1.RestoreModelRequest{Model: "m", Sequence: proto.Uint64(2)})
	assert.True(t, err == nil && back.GetModel().GetSequence() == 2 && digest("m") == at2, "%v, %v", back, err)
	_, err = s.models.RestoreModel(ctx, &hindsightv1.RestoreModelRequest{Model: "m", Sequence: proto.Uint64(3)})
	rejected(t, err, codes.NotFound, "SNAPSHOT_NOT_FOUND", "sequence 3", "2 observations")
	_, err = s.models.RestoreModel(ctx, &hindsightv1.RestoreModelRequest{Model: "m", Sequence: proto.Uint64(2), Time: timestamppb.Now()})
	rejected(t, err, codes.InvalidArgument, "INVALID_REQUEST")
	_, err = s.models.RestoreModel(ctx, &hindsightv1.RestoreModelRequest{Model: "m", Time: &timestamppb.Timestamp{Nanos: -1}})
	rejected(t, err, codes.InvalidArgument, "INVALID_REQUEST")
	_, err = s.models.RestoreModel(ctx, &hindsightv1.RestoreModelRequest{Model: "m", Time: &timestamppb.Timestamp{Seconds: 1}})
	rejected(t, err, codes.NotFound, "SNAPSHOT_NOT_FOUND")
	now, err := s.models.RestoreModel(ctx, &hindsightv1.RestoreModelRequest{Model: "m", Time: timestamppb.Now()})
	assert.True(t, err == nil && now.GetUndone() == 0 && digest("m") == at2, "%v, %v", now, err)
	rejected(t, errOf(s.models.RestoreModel(ctx, &hindsightv1.RestoreModelRequest{Model: "m"})), codes.InvalidArgument, "INVALID_REQUEST", "sequence")
	rejected(t, errOf(s.models.SnapshotModel(ctx, &hindsightv1.SnapshotModelRequest{Model: "nobody"})), codes.NotFound, "MODEL_NOT_FOUND", "nobody")
	m, err := s.importFrom(t, "copy", exported)
	assert.True(t, err == nil && m.GetSequence() == 3 && digest("copy") == at3, "%v, %v", m, err)
	rejected(t, errOf(s.importFrom(t, "copy", exported)), codes.AlreadyExists, "MODEL_EXISTS")
	rejected(t, errOf(s.importFrom(t, "other", exported[:len(exported)-1])), codes.InvalidArgument, "INVALID_REQUEST", "chunk", "checksum")
	rejected(t, errOf(s.importFrom(t, "other", nil)), codes.InvalidArgument, "INVALID_REQUEST", "chunk")
	rejected(t, errOf(s.importFrom(t, "Other", exported)), codes.InvalidArgument, "INVALID_ID", "id")
}
