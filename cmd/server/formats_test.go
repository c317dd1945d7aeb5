package main_test

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/structpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/engine"
	"hindsight/internal/rpc"
	"hindsight/internal/store"
)

// The directory that a killed server leaves is recorded with, for example,
//
//	go test ./cmd/server -run TestRecordFormat -record 6 -server $PWD/bin/hindsight-server
//
// After the first release later builds read the recorded directory: it never changes then.
var (
	recordName   = flag.String("record", "", "record testdata/formats/NAME")
	recordServer = flag.String("server", "", "the program that leaves the directory")
	recordModels = flag.String("models", "taylor,nystrom,auto,records,classes,named,deleted,aliased,follows-taylor", "the models of the directory")
)

const (
	formats = "testdata/formats"
	// The name of the recorded directory.
	format = "6"
)

// recorded is what a directory holds.
type recorded struct {
	// Server is the version that left it, At when that was.
	Server string          `json:"server"`
	At     time.Time       `json:"at"`
	Models []recordedModel `json:"models"`
}

// recordedModel is what its server told of a model.
type recordedModel struct {
	ID           string  `json:"id"`
	Observations uint64  `json:"observations"`
	Digest       string  `json:"digest"`
	Value        float64 `json:"value"`
	Class        string  `json:"class,omitempty"`
	// Waiting are predictions whose labels had not come.
	Waiting []string `json:"waiting"`
	// Deleted and Follows are what it is beside that, DisplayName its name.
	Deleted     bool   `json:"deleted,omitempty"`
	Follows     string `json:"follows,omitempty"`
	DisplayName string `json:"display_name,omitempty"`
	Alias       string `json:"alias,omitempty"`
}

// formatSpecs are the specs of the models that are recorded, by their ids.
func formatSpecs() map[string]string {
	return map[string]string{
		"taylor":  `{"dimension": 2, "pkawv_taylor": {"degree": 3}}`,
		"nystrom": `{"dimension": 2, "pkawv_nystrom": {}}`,
		"auto":    `{"dimension": 2, "auto": {"max_microseconds": 10}}`,
		"records": `{"inputs": [{"name": "size", "numeric": {}}, {"name": "kind", "categorical": {}}], "linear_awv": {}}`,
		"classes": `{"dimension": 2, "rlsc": {}}`,
	}
}

// sampleInput is input n of the stream that every model of a record learns.
func sampleInput(id string, n int) (features []float64, inputs *structpb.Struct) {
	x, y := math.Sin(float64(n)), math.Cos(3*float64(n))
	if id != "records" {
		return []float64{x, y}, nil
	}
	return nil, &structpb.Struct{Fields: map[string]*structpb.Value{
		"size": structpb.NewNumberValue(x), "kind": structpb.NewStringValue(string("abc"[n%3])),
	}}
}

// labelled is observation n, as the answer to a prediction or under an id of its own.
func labelled(id string, n int, prediction string) *hindsightv1.ObserveRequest {
	o := &hindsightv1.ObserveRequest{Model: id, PredictionId: prediction, Target: &hindsightv1.ObserveRequest_Label{Label: math.Sin(float64(n) / 2)}}
	if prediction == "" {
		o.ObservationId = fmt.Sprint("o-", n)
		o.Features, o.Inputs = sampleInput(id, n)
	}
	if id == "classes" {
		o.Target = &hindsightv1.ObserveRequest_Class{Class: string("xyz"[n%3])}
	}
	return o
}

// unary are the unary calls from within a server, as a connection.
type unary struct{ *rpc.Local }

func (unary) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, errors.ErrUnsupported
}

// clients are those of a server.
type clients struct {
	predictor hindsightv1.PredictionServiceClient
	models    hindsightv1.ModelServiceClient
}

// describe tells what a server tells of a model.
func (c clients) describe(ctx context.Context, m *recordedModel) error {
	stats, err := c.models.GetModelStats(ctx, &hindsightv1.GetModelStatsRequest{Model: m.ID})
	if err != nil {
		return err
	}
	request := &hindsightv1.PredictRequest{Model: m.ID, Remember: proto.Bool(false)}
	request.Features, request.Inputs = sampleInput(strings.TrimPrefix(m.ID, "follows-"), 1000)
	p, err := c.predictor.Predict(ctx, request)
	if err != nil {
		return err
	}
	m.Observations, m.Digest = stats.GetStats().GetObservations(), stats.GetStats().GetStateDigest()
	m.Value, m.Class = p.GetPrediction().GetValue(), p.GetPrediction().GetClass()
	return nil
}

const (
	recordedRounds  = 25
	recordedWaiting = 2
)

// fill makes a model that has a snapshot, a log behind it, ids, and predictions that wait.
func (c clients) fill(ctx context.Context, id, spec string) (recordedModel, error) {
	m := recordedModel{ID: id}
	request := &hindsightv1.CreateModelRequest{Id: id, Spec: &hindsightv1.ModelSpec{}}
	err := protojson.Unmarshal([]byte(spec), request.GetSpec())
	if err == nil {
		_, err = c.models.CreateModel(ctx, request)
	}
	predict := func(n int) (string, error) {
		request := &hindsightv1.PredictRequest{Model: id}
		request.Features, request.Inputs = sampleInput(id, n)
		p, err := c.predictor.Predict(ctx, request)
		return p.GetPrediction().GetPredictionId(), err
	}
	for n := 0; n < recordedRounds && err == nil; n++ {
		prediction := ""
		if n%4 == 3 {
			prediction, err = predict(n)
		}
		if err == nil {
			_, err = c.predictor.Observe(ctx, labelled(id, n, prediction))
		}
		if n == recordedRounds*2/3 && err == nil {
			_, err = c.models.SnapshotModel(ctx, &hindsightv1.SnapshotModelRequest{Model: id})
		}
	}
	for n := range recordedWaiting {
		var waiting string
		if err == nil {
			waiting, err = predict(2000 + n)
			m.Waiting = append(m.Waiting, waiting)
		}
	}
	if err == nil {
		err = c.describe(ctx, &m)
	}
	return m, err
}

// TestRecordFormat records what a server leaves that is killed.
func TestRecordFormat(t *testing.T) {
	if *recordName == "" {
		t.Skip("records a format, with -record and -server")
	}
	dir := filepath.Join(t.TempDir(), "data")
	p := launchBy(t, dir, []string{*recordServer}, "--log-level", "info")
	c := clients{p.predictor, p.models}
	out := recorded{Server: *recordName, At: time.Now().UTC().Truncate(time.Second)}
	for _, id := range strings.Split(*recordModels, ",") {
		var m recordedModel
		var err error
		if spec, ok := formatSpecs()[id]; ok {
			m, err = c.fill(t.Context(), id, spec)
		} else {
			m, err = c.special(t, id)
		}
		require.NoError(t, err, id)
		out.Models = append(out.Models, m)
	}
	time.Sleep(2 * time.Second) // What is written in the background is written then.
	p.kill(t)
	pack(t, dir, filepath.Join(formats, *recordName+".tar.gz"))
	text, err := json.MarshalIndent(out, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(formats, *recordName+".json"), append(text, '\n'), 0o600)
	}
	require.NoError(t, err)
}

// special makes a model that only some formats know.
func (c clients) special(t *testing.T, id string) (recordedModel, error) {
	t.Helper()
	linear := `{"dimension": 2, "linear_awv": {}}`
	kind, name, _ := strings.Cut(id, "-")
	if kind == "follows" {
		spec := new(hindsightv1.ModelSpec)
		err := protojson.Unmarshal([]byte(linear), spec)
		if err == nil {
			_, err = c.models.CreateModel(t.Context(), &hindsightv1.CreateModelRequest{Id: id, Spec: spec, Follows: name})
		}
		m := recordedModel{ID: id, Follows: name}
		return m, errors.Join(err, c.describe(t.Context(), &m))
	}
	m, err := c.fill(t.Context(), id, linear)
	if err != nil {
		return m, err
	}
	update := func(path string, change *hindsightv1.Model) error {
		change.Id = id
		_, err := c.models.UpdateModel(t.Context(), &hindsightv1.UpdateModelRequest{Model: change, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{path}}})
		return err
	}
	switch kind {
	case "named":
		m.DisplayName = "Energy ü"
		err = update("display_name", &hindsightv1.Model{DisplayName: m.DisplayName})
	case "deleted":
		m.Deleted = true
		_, err = c.models.DeleteModel(t.Context(), &hindsightv1.DeleteModelRequest{Model: id})
	case "aliased":
		m.Alias = "champion"
		_, err = c.models.SetAlias(t.Context(), &hindsightv1.SetAliasRequest{Alias: m.Alias, Model: id})
	default:
		t.Fatalf("no model %s", id)
	}
	return m, err
}

type noTimings struct{}

func (noTimings) Predict(float64, string) {}
func (noTimings) Observe(float64, string) {}

// openAt serves a directory within the test, as at a moment.
func openAt(t *testing.T, dir string, at time.Time) (c clients, end func()) {
	t.Helper()
	disk := must(store.Open(dir, store.Options{}))(t)
	ids := 0
	models, err := engine.Open(t.Context(), engine.Options{
		ModelOptions: engine.ModelOptions{
			Limits: engine.Limits{Queue: 1024, PendingLimit: 1000, PendingTotalLimit: 5000},
			Store:  disk, Now: func() time.Time { return at }, Log: zap.NewNop(),
			NewID:          func() (string, error) { ids++; return fmt.Sprint("new-", ids), nil },
			SnapshotReplay: time.Hour, SnapshotInterval: time.Hour, SnapshotsKept: 3, LabelTTL: time.Hour,
		},
		Timings: func(string, string) engine.Timings { return noTimings{} }, ForgetTimings: func(string, string) {},
		Durability: "sync", IDWindow: 24 * time.Hour, IDWindowMin: 1000, DeletedKept: 24 * time.Hour, ModelLimit: 1000, Sweep: time.Hour,
	})
	if err != nil {
		t.Fatal(errors.Join(err, disk.Close()))
	}
	server := rpc.New(rpc.Options{
		Groups: rpc.Single(models, nil), Log: zap.NewNop(), MaxMessageBytes: 1 << 20, MaxBatchRows: 100,
	})
	local := unary{server.Local()}
	return clients{hindsightv1.NewPredictionServiceClient(local), hindsightv1.NewModelServiceClient(local)}, func() {
		server.Drain(t.Context())
		assert.NoError(t, errors.Join(models.Close(), disk.Close()))
	}
}

// The recorded directory is sound, and is served with the states, predictions, ids and waiting
// predictions that it had.
func TestRecordedDirectory(t *testing.T) {
	want := readFormat(t)
	dir := filepath.Join(t.TempDir(), "data")
	unpack(t, filepath.Join(formats, format+".tar.gz"), dir)
	before := contents(t, dir)
	code, out := fsck(t, dir)
	assert.Equal(t, 0, code, out)
	for path, sum := range contents(t, dir) {
		assert.True(t, before[path] == sum, "fsck changed %s", path)
	}
	c, end := openAt(t, dir, want.At.Add(time.Minute))
	c.checkAll(t, &want)
	end()
	// The models have what they learned since.
	c, end = openAt(t, dir, want.At.Add(2*time.Minute))
	for _, m := range want.Models {
		if m.Follows == "" {
			m.Observations += recordedWaiting
		}
		got := recordedModel{ID: m.ID}
		err := c.describe(t.Context(), &got)
		assert.True(t, err == nil && (m.Follows != "" || got.Observations == m.Observations), "%s has %d observations, want %d (%v)", m.ID, got.Observations, m.Observations, err)
	}
	end()
	code, out = fsck(t, dir)
	assert.Equal(t, 0, code, out)
}

// checkAll compares the models with what their server told of them, and lets them learn on.
func (c clients) checkAll(t *testing.T, want *recorded) {
	t.Helper()
	for _, m := range want.Models {
		c.check(t, m)
	}
	for _, m := range want.Models { // Others follow what these learn.
		if m.Follows == "" {
			c.goOn(t, m)
		}
	}
}

// check compares a model with what its server told of it.
func (c clients) check(t *testing.T, want recordedModel) {
	t.Helper()
	if want.Deleted {
		_, err := c.models.UndeleteModel(t.Context(), &hindsightv1.UndeleteModelRequest{Model: want.ID})
		assert.NoError(t, err)
	}
	got := recordedModel{ID: want.ID}
	err := c.describe(t.Context(), &got)
	if err != nil || got.Observations != want.Observations || got.Digest != want.Digest || got.Class != want.Class ||
		math.Abs(got.Value-want.Value) > 1e-12*(1+math.Abs(want.Value)) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
	r, err := c.models.GetModel(t.Context(), &hindsightv1.GetModelRequest{Model: want.ID})
	m := r.GetModel()
	if err != nil || m.GetDisplayName() != want.DisplayName || m.GetFollows() != want.Follows ||
		want.Alias != "" && !slices.Contains(m.GetAliases(), want.Alias) {
		t.Errorf("%s: %v, %v", want.ID, m, err)
	}
}

// goOn sends observations again and the labels of predictions that waited.
func (c clients) goOn(t *testing.T, want recordedModel) {
	t.Helper()
	for n := range recordedRounds {
		if n%4 == 3 {
			continue // Of a prediction.
		}
		again, err := c.predictor.Observe(t.Context(), labelled(want.ID, n, ""))
		assert.True(t, err == nil && again.GetOutcome().GetDuplicate() && again.GetOutcome().GetSequence() == uint64(n+1), "%s: observation %d again: %v, %v", want.ID, n, again, err)
	}
	for n, prediction := range want.Waiting {
		o, err := c.predictor.Observe(t.Context(), labelled(want.ID, 2000+n, prediction))
		assert.True(t, err == nil && !o.GetOutcome().GetDuplicate() && o.GetOutcome().GetSequence() == want.Observations+uint64(n)+1, "%s: the label of a prediction: %v, %v", want.ID, o, err)
	}
}

// readFormat reads what the recorded directory holds.
func readFormat(t *testing.T) (out recorded) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(formats, format+".json"))
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	require.NoError(t, err)
	return out
}

// pack writes a directory as an archive.
func pack(t *testing.T, dir, to string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o750))
	f := must(os.Create(to))(t)
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	require.NoError(t, err)
	w := tar.NewWriter(z)
	if err := os.Remove(filepath.Join(dir, "control.sock")); err != nil && !errors.Is(err, fs.ErrNotExist) { // A killed server leaves it.
		t.Fatal(err)
	}
	err = errors.Join(w.AddFS(os.DirFS(dir)), w.Close(), z.Close(), f.Close())
	require.NoError(t, err)
}

// unpack writes what an archive holds into a directory.
func unpack(t *testing.T, from, dir string) {
	t.Helper()
	f := must(os.Open(from))(t)
	defer f.Close() //nolint:errcheck // it was only read
	z := must(gzip.NewReader(f))(t)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		name := filepath.Join(dir, filepath.FromSlash(h.Name))
		var data []byte
		if err == nil && h.Typeflag == tar.TypeReg {
			if err = os.MkdirAll(filepath.Dir(name), 0o750); err == nil {
				data, err = io.ReadAll(r)
			}
			if err == nil {
				err = os.WriteFile(name, data, 0o600)
			}
		} else if err == nil {
			err = os.MkdirAll(name, 0o750)
		}
		require.NoError(t, err)
	}
}
