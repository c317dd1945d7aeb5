package rpc_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/auth"
)

func observeTwo(model string) *hindsightv1.ObserveRequest {
	return &hindsightv1.ObserveRequest{Model: model, Features: []float64{1, 2}, Target: &hindsightv1.ObserveRequest_Label{Label: 1}}
}

// A principal of some models sees these alone, in every answer.
func TestScopes(t *testing.T) {
	g := guard(t, who("admin", auth.Admin), who("a", auth.Admin, "a-"), who("ab", auth.Read, "a-", "b-"))
	g.create2(t, "a-1", "a-2", "b-1", "c-1")
	admin := as(t.Context(), "admin")
	must(g.models.CreateModel(admin, &hindsightv1.CreateModelRequest{Id: "b-f", Spec: linear(2), Follows: "a-1"}))(t)
	must(g.models.CreateModel(admin, &hindsightv1.CreateModelRequest{Id: "a-f", Spec: linear(2), Follows: "c-1"}))(t)
	for alias, model := range map[string]string{"a-live": "a-1", "live": "a-1", "a-out": "c-1"} {
		must(g.models.SetAlias(admin, &hindsightv1.SetAliasRequest{Alias: alias, Model: model}))(t)
	}
	ids := func(name string, r *hindsightv1.ListModelsRequest) (out []string) {
		t.Helper()
		page := must(g.models.ListModels(as(t.Context(), name), r))(t)
		for _, m := range page.GetModels() {
			out = append(out, m.GetId())
			assert.True(t, name != "a" || m.GetFollows() == "", "%s follows %s, which is not shown", m.GetId(), m.GetFollows())
		}
		assert.True(t, int(page.GetTotalSize()) >= len(out) && (page.GetNextPageToken() != "" || int(page.GetTotalSize()) == len(out)), "%d in all, %v", page.GetTotalSize(), out)
		return out
	}
	for _, c := range []struct {
		who     string
		request *hindsightv1.ListModelsRequest
		want    []string
	}{
		{"a", &hindsightv1.ListModelsRequest{}, []string{"a-1", "a-2", "a-f"}},
		{"a", &hindsightv1.ListModelsRequest{Prefix: "a"}, []string{"a-1", "a-2", "a-f"}},
		{"a", &hindsightv1.ListModelsRequest{Prefix: "a-1"}, []string{"a-1"}},
		{"a", &hindsightv1.ListModelsRequest{Prefix: "b"}, nil},
		{"a", &hindsightv1.ListModelsRequest{OrderBy: "id desc"}, []string{"a-f", "a-2", "a-1"}},
		{"a", &hindsightv1.ListModelsRequest{PageSize: 2}, []string{"a-1", "a-2"}},
		{"ab", &hindsightv1.ListModelsRequest{}, []string{"a-1", "a-2", "a-f", "b-1", "b-f"}},
		{"ab", &hindsightv1.ListModelsRequest{Prefix: "b"}, []string{"b-1", "b-f"}},
		{"ab", &hindsightv1.ListModelsRequest{PageSize: 3, ShowDeleted: true}, []string{"a-1", "a-2", "a-f"}},
		{"admin", &hindsightv1.ListModelsRequest{Prefix: "c"}, []string{"c-1"}},
	} {
		assert.Equal(t, c.want, ids(c.who, c.request), "%v %v", c.who, c.request)
	}
	a := as(t.Context(), "a")
	aliases := must(g.models.ListAliases(a, &hindsightv1.ListAliasesRequest{}))(t)
	assert.True(t, len(aliases.GetAliases()) == 1 && aliases.GetAliases()[0].GetAlias() == "a-live", "aliases %v", aliases)
	got := must(g.models.GetModel(a, &hindsightv1.GetModelRequest{Model: "a-live"}))(t)
	assert.True(t, slices.Equal(got.GetModel().GetAliases(), []string{"a-live"}), "a model and its aliases: %v", got)
	compared := func(model string) (out []string) {
		t.Helper()
		r := must(g.models.CompareModels(a, &hindsightv1.CompareModelsRequest{Model: model}))(t)
		for _, c := range r.GetComparisons() {
			out = append(out, c.GetModel())
			assert.True(t, model != "a-f" || c.GetFollowed() == nil, "the figures of c-1 are shown")
		}
		return out
	}
	one, two := compared("a-1"), compared("a-f")
	assert.True(t, slices.Equal(one, []string{"a-1"}) && slices.Equal(two, []string{"a-f"}), "compared %v and %v", one, two)
	// What names a model outside, by itself, by an alias, or as the second name.
	for name, err := range map[string]error{
		"a model":                     errOf(g.models.GetModel(a, &hindsightv1.GetModelRequest{Model: "c-1"})),
		"an alias outside":            errOf(g.models.GetModel(a, &hindsightv1.GetModelRequest{Model: "live"})),
		"an alias that leads out":     errOf(g.models.GetModel(a, &hindsightv1.GetModelRequest{Model: "a-out"})),
		"what it follows":             errOf(g.models.CreateModel(a, &hindsightv1.CreateModelRequest{Id: "a-3", Spec: linear(2), Follows: "c-1"})),
		"an alias to another":         errOf(g.models.SetAlias(a, &hindsightv1.SetAliasRequest{Alias: "a-x", Model: "c-1"})),
		"an alias that another has":   errOf(g.models.SetAlias(a, &hindsightv1.SetAliasRequest{Alias: "a-out", Model: "a-1"})),
		"what it is expected to name": errOf(g.models.SetAlias(a, &hindsightv1.SetAliasRequest{Alias: "a-live", Model: "a-2", ExpectedModel: "c-1"})),
		"an alias to delete":          errOf(g.models.DeleteAlias(a, &hindsightv1.DeleteAliasRequest{Alias: "a-out"})),
		"an update":                   errOf(g.models.UpdateModel(a, &hindsightv1.UpdateModelRequest{Model: &hindsightv1.Model{Id: "c-1"}})),
		"a batch":                     errOf(g.ObserveBatch(a, &hindsightv1.ObserveBatchRequest{Model: "c-1", Observations: []*hindsightv1.ObserveRequest{observeTwo("a-1")}})),
	} {
		assert.Equal(t, "MODEL_OUT_OF_SCOPE", reason(status.Convert(err)), "%v %v", name, err)
	}
	set := must(g.models.SetAlias(a, &hindsightv1.SetAliasRequest{Alias: "a-live", Model: "a-2", ExpectedModel: "a-1"}))(t)
	assert.Equal(t, "a-1", set.GetAlias().GetPreviousModel(), set)
}

// An observation that belongs to the model that an alias named before is learned there,
// if the caller may touch that one.
func TestScopeOfARoute(t *testing.T) {
	g := guard(t, who("admin", auth.Admin), who("a", auth.Write, "a-"))
	g.create2(t, "a-1", "b-1")
	admin, a := as(t.Context(), "admin"), as(t.Context(), "a")
	set := func(model string) {
		t.Helper()
		must(g.models.SetAlias(admin, &hindsightv1.SetAliasRequest{Alias: "a-live", Model: model}))(t)
	}
	set("b-1")
	must(g.Predict(admin, &hindsightv1.PredictRequest{Model: "a-live", Features: []float64{1, 2}, PredictionId: "p"}))(t)
	set("a-1")
	labelled := &hindsightv1.ObserveRequest{Model: "a-live", PredictionId: "p", Target: &hindsightv1.ObserveRequest_Label{Label: 1}}
	_, err := g.Observe(a, labelled)
	assert.Equal(t, "MODEL_OUT_OF_SCOPE", reason(status.Convert(err)), err)
	_, err = g.ObserveBatch(a, &hindsightv1.ObserveBatchRequest{Model: "a-live", Observations: []*hindsightv1.ObserveRequest{labelled}})
	assert.Equal(t, "MODEL_OUT_OF_SCOPE", reason(status.Convert(err)), err)
	r, err := g.Observe(admin, labelled)
	assert.True(t, err == nil && r.GetOutcome().GetModel() == "b-1", "%v %v", r, err)
	assert.NoError(t, errOf(g.Observe(a, observeTwo("a-live"))))
}

// A prediction that is remembered is a write, one that is not is a look.
func TestRememberedPredictions(t *testing.T) {
	g := guard(t, who("admin", auth.Admin), who("read", auth.Read))
	g.create2(t, "m")
	read := as(t.Context(), "read")
	for name, c := range map[string]struct {
		remember *bool
		want     codes.Code
	}{
		"by default": {nil, codes.PermissionDenied}, "remembered": {proto.Bool(true), codes.PermissionDenied}, "not remembered": {proto.Bool(false), codes.OK},
	} {
		_, err := g.Predict(read, &hindsightv1.PredictRequest{Model: "m", Features: []float64{1, 2}, Remember: c.remember})
		_, batchErr := g.PredictBatch(read, &hindsightv1.PredictBatchRequest{Model: "m", Rows: []*hindsightv1.Row{{Features: []float64{1, 2}}}, Remember: c.remember})
		assert.True(t, status.Code(err) == c.want && status.Code(batchErr) == c.want, "%s: %v, %v", name, err, batchErr)
	}
}

// A stream ends when its principal is revoked or expires.
func TestStreamsEndWithTheirPrincipal(t *testing.T) {
	brief := who("brief", auth.Write)
	g := guard(t, who("admin", auth.Admin), who("goes", auth.Admin), brief)
	g.create2(t, "m")
	upload, err := g.models.ImportModel(as(t.Context(), "goes"))
	require.NoError(t, err)
	require.NoError(t, upload.Send(&hindsightv1.ImportModelRequest{Id: "new"}))
	watch := must(g.models.WatchModel(as(t.Context(), "goes"), &hindsightv1.WatchModelRequest{Model: "m", MaxOutcomesPerSecond: 100}))(t)
	must(watch.Recv())(t)
	must(g.Observe(as(t.Context(), "goes"), observeTwo("m")))(t)
	if _, err := watch.Recv(); err != nil {
		t.Fatal("the outcome:", err)
	}
	g.auth.Set([]auth.Entry{who("admin", auth.Admin), brief})
	require.NoError(t, upload.Send(&hindsightv1.ImportModelRequest{Chunk: []byte("more")}))
	if a, err := upload.CloseAndRecv(); reason(status.Convert(err)) != "TOKEN_INVALID" {
		t.Error("an import after the token was revoked:", a, err)
	}
	must(g.Observe(as(t.Context(), "admin"), observeTwo("m")))(t)
	for err = nil; err == nil; {
		var a *hindsightv1.WatchModelResponse
		a, err = watch.Recv()
		assert.True(t, a.GetOutcome().GetOutcome().GetSequence() != 2, "a revoked watcher is told an outcome")
	}
	assert.Equal(t, "TOKEN_INVALID", reason(status.Convert(err)), err)
}

// Callers that the gateway has found are those of calls and of streams from within.
func TestLocalPrincipals(t *testing.T) {
	g := guard(t, who("admin", auth.Admin), who("a", auth.Read, "a-"))
	g.create2(t, "a-1", "b-1")
	within := hindsightv1.NewModelServiceClient(g.local())
	p := must(g.auth.Token("a"))(t)
	for model, want := range map[string]string{"a-1": "", "b-1": "MODEL_OUT_OF_SCOPE"} {
		ctx, cancel := context.WithCancel(auth.NewContext(t.Context(), p))
		_, err := within.GetModel(ctx, &hindsightv1.GetModelRequest{Model: model})
		watchErr := g.watchWithin(ctx, model, func(*hindsightv1.WatchModelResponse) error { cancel(); return nil })
		if want == "" {
			assert.Equal(t, codes.Canceled, status.Code(watchErr), watchErr)
		}
		assert.True(t, reason(status.Convert(err)) == want && reason(status.Convert(watchErr)) == want, "%s: %v, %v", model, err, watchErr)
		cancel()
	}
	_, err := within.ListModels(t.Context(), &hindsightv1.ListModelsRequest{})
	assert.Equal(t, "TOKEN_MISSING", reason(status.Convert(err)), err)
}

// The audit log has every control call and every rejection, and nothing else.
func TestAudit(t *testing.T) {
	g := guard(t, who("admin", auth.Admin), who("read", auth.Read))
	g.create2(t, "m")
	admin := as(t.Context(), "admin")
	calls := []func(){
		func() { _, _ = g.models.GetModel(admin, &hindsightv1.GetModelRequest{Model: "m"}) },
		func() { _, _ = g.models.GetModel(admin, &hindsightv1.GetModelRequest{Model: "x"}) },
		func() { _, _ = g.Observe(admin, observeTwo("m")) },
		func() { _, _ = g.Observe(as(t.Context(), "read"), observeTwo("m")) },
		func() { _, _ = g.models.GetModel(t.Context(), &hindsightv1.GetModelRequest{Model: "m"}) },
		func() {
			_, _ = g.models.DeleteModel(admin, &hindsightv1.DeleteModelRequest{Model: "m", ValidateOnly: true})
		},
		func() { _, _ = g.models.DeleteModel(admin, &hindsightv1.DeleteModelRequest{Model: "x"}) },
		func() {
			if stream, err := g.models.ExportModel(admin, &hindsightv1.ExportModelRequest{Model: "m"}); err == nil {
				for err == nil {
					_, err = stream.Recv()
				}
			}
		},
	}
	for _, call := range calls {
		call()
	}
	type row struct {
		who, call, outcome, reason string
		dry                        bool
	}
	const service = "/hindsight.v1.ModelService/"
	want := []row{
		{"admin", service + "CreateModel", "OK", "", false},
		{"read", "/hindsight.v1.PredictionService/Observe", "PERMISSION_DENIED", "ROLE_TOO_LOW", false},
		{"", service + "GetModel", "UNAUTHENTICATED", "TOKEN_MISSING", false},
		{"admin", service + "DeleteModel", "OK", "", true},
		{"admin", service + "DeleteModel", "NOT_FOUND", "MODEL_NOT_FOUND", false},
		{"admin", service + "ExportModel", "OK", "", false},
	}
	// The record of a stream may come after its end is seen.
	for end := time.Now().Add(10 * time.Second); len(g.records()) < len(want) && time.Now().Before(end); {
		_, _ = g.models.GetModel(admin, &hindsightv1.GetModelRequest{Model: "m"})
	}
	var got []row
	for _, r := range g.records() {
		name := ""
		if r.Who != nil {
			name = r.Who.Name
		}
		got = append(got, row{name, r.Call, r.Outcome, r.Reason, r.ValidateOnly})
		assert.True(t, len(r.Models) == 1 && r.Peer != "" && !r.Time.IsZero(), "%+v", r)
	}
	assert.Equal(t, want, got)
}
