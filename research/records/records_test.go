package records_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/research/papers"
	"hindsight/cmd/research/records"
	"hindsight/cmd/research/remote"
)

// place writes the file of a stream.
func place(t *testing.T, dir, name, content string) {
	t.Helper()
	file, err := os.Create(filepath.Join(dir, name+".csv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(file)
	_, err = z.Write([]byte(content))
	if err := errors.Join(err, z.Close(), file.Close()); err != nil {
		t.Fatal(err)
	}
}

// fake is a server that predicts the label 1 or one class.
type fake struct {
	hindsightv1.ModelServiceClient
	hindsightv1.PredictionServiceClient

	class string
	// told is what PredictBatch says, score the probability of its class.
	told, score float64
	// rejects is the learner that CreateModel rejects.
	rejects string

	mu       sync.Mutex
	specs    map[string]*hindsightv1.ModelSpec
	observed map[string][]*hindsightv1.ObserveRequest
	deleted  int
}

func (f *fake) CreateModel(_ context.Context, r *hindsightv1.CreateModelRequest, _ ...grpc.CallOption) (*hindsightv1.CreateModelResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rejects != "" && strings.HasSuffix(r.GetId(), f.rejects) {
		s, err := status.New(codes.InvalidArgument, "no").WithDetails(&errdetails.ErrorInfo{Domain: "hindsight", Reason: "INVALID_SPEC"})
		if err != nil {
			return nil, err
		}
		return nil, s.Err()
	}
	f.specs[r.GetId()] = r.GetSpec()
	return &hindsightv1.CreateModelResponse{}, nil
}

func (f *fake) DeleteModel(context.Context, *hindsightv1.DeleteModelRequest, ...grpc.CallOption) (*hindsightv1.DeleteModelResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deleted++
	return &hindsightv1.DeleteModelResponse{}, nil
}

func (f *fake) PredictBatch(_ context.Context, r *hindsightv1.PredictBatchRequest, _ ...grpc.CallOption) (*hindsightv1.PredictBatchResponse, error) {
	p := &hindsightv1.Prediction{Value: &f.told, Class: f.class, Scores: map[string]float64{"UP": f.score, "DOWN": 0.25}}
	if len(r.GetRows())+len(r.GetInputs()) != 1 || r.GetRemember() {
		return nil, status.Error(codes.InvalidArgument, "want one row that is not remembered")
	}
	return &hindsightv1.PredictBatchResponse{Predictions: []*hindsightv1.Prediction{p}}, nil
}

func (f *fake) ObserveBatch(_ context.Context, r *hindsightv1.ObserveBatchRequest, _ ...grpc.CallOption) (*hindsightv1.ObserveBatchResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	answer := &hindsightv1.ObserveBatchResponse{}
	for _, o := range r.GetObservations() {
		one, loss := 1.0, (1-o.GetLabel())*(1-o.GetLabel())
		f.observed[r.GetModel()] = append(f.observed[r.GetModel()], o)
		answer.Outcomes = append(answer.Outcomes, &hindsightv1.Outcome{Prediction: &one, Loss: &loss, Class: f.class})
	}
	return answer, nil
}

func (f *fake) GetModelStats(context.Context, *hindsightv1.GetModelStatsRequest, ...grpc.CallOption) (*hindsightv1.GetModelStatsResponse, error) {
	bins := make([]*hindsightv1.ReliabilityBin, 10)
	for i := range bins {
		bins[i] = &hindsightv1.ReliabilityBin{}
	}
	bins[2] = &hindsightv1.ReliabilityBin{Members: 499, Predicted: proto.Float64(0.25), Found: proto.Float64(1)}
	bins[4] = &hindsightv1.ReliabilityBin{Members: 500, Predicted: proto.Float64(0.45), Found: proto.Float64(0.42)}
	bins[7] = &hindsightv1.ReliabilityBin{Members: 900, Predicted: proto.Float64(0.75), Found: proto.Float64(0.74)}
	return &hindsightv1.GetModelStatsResponse{Stats: &hindsightv1.ModelStats{
		Features:    3,
		Performance: &hindsightv1.Performance{Prequential: &hindsightv1.PerformanceFigures{Skill: proto.Float64(0.75)}},
		Classes: &hindsightv1.ClassStats{
			Performance: &hindsightv1.ClassPerformance{Prequential: &hindsightv1.ClassFigures{LogLoss: 0.5, BrierScore: 0.25, LastClassErrorRate: 0.125}},
			Reliability: bins,
		},
	}}, nil
}

// measure takes the streams of a directory through the fake.
func (f *fake) measure(t *testing.T, p records.Plan) (*records.Results, error) {
	t.Helper()
	f.specs, f.observed, f.deleted = make(map[string]*hindsightv1.ModelSpec), make(map[string][]*hindsightv1.ObserveRequest), 0
	b := &records.Bench{Server: &remote.Server{Models: f, Predictions: f, Run: "run", Timeout: time.Minute, Now: time.Now}}
	r, err := b.Measure(t.Context(), p)
	if f.deleted != len(f.specs) {
		t.Errorf("%d models are left", len(f.specs)-f.deleted)
	}
	return r, err
}

func header(inputs int) string {
	var b strings.Builder
	for i := range inputs {
		fmt.Fprintf(&b, "x%d,", i+1)
	}
	return b.String() + "y\n"
}

// bike is a file of three days, one of which has a single hour. The number in the
// place of the weekday of the last row is the last.
func bike(weekday int) string {
	var b strings.Builder
	b.WriteString(header(12))
	row := func(hour, day int) {
		fmt.Fprintf(&b, "1,0,1,%d,0,%d,0,1,0.%d,0.2879,0.81,0,%d\n", hour, day, hour+10, 1+hour)
	}
	for hour := range 24 {
		row(hour, 6)
	}
	row(0, 0)
	for hour := 13; hour < 24; hour++ {
		row(hour, 1)
	}
	row(0, weekday)
	return b.String()
}

// A stream goes through every learner by the names of its columns, with the spec that
// was inferred, and scaled by hand. The losses are in the same units.
func TestNamedColumnsBesideScaledOnes(t *testing.T) {
	dir := t.TempDir()
	place(t, dir, "bike", bike(2))
	f := &fake{told: 1, score: 0.75}
	r, err := f.measure(t, records.Plan{Data: dir, Rows: 30})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(r.Skipped, []string{"elec2", "ijcnn1", "digits"}) || len(r.Beside) != 10 || len(f.specs) != 15 {
		t.Fatalf("skipped %q, %d runs, %d models", r.Skipped, len(r.Beside), len(f.specs))
	}
	// The prediction is 1: the labels are 1 to 24, and scaled by 23.
	var raw, scaled float64
	for i := range 30 {
		hour := float64(i)
		if i >= 24 {
			hour = []float64{0, 13, 14, 15, 16, 17}[i-24]
		}
		raw += hour * hour / 30 / (23 * 23)
		scaled += (1 - hour/23) * (1 - hour/23) / 30
	}
	for _, b := range r.Beside {
		if math.Abs(b.Named.Value-raw) > 1e-12 || math.Abs(b.Scaled.Value-scaled) > 1e-12 || math.Abs(b.Ratio()-raw/scaled) > 1e-12 {
			t.Errorf("%s %s: %+v, want %v and %v", b.Stream, b.Learner, b, raw, scaled)
		}
		if b.Named.Rows != 30 || b.Scaled.Rows != 30 || b.Named.Features != 3 || b.Named.Skill != 0.75 || b.Scaled.Skill != 0.75 {
			t.Errorf("%+v", b)
		}
	}
	plain, days := f.observed["run-bike-named-linear_awv"], f.observed["run-bike-dteday-named-linear_awv"]
	if got := plain[13].GetInputs().AsMap(); len(plain) != 30 || len(got) != 12 || got["hr"] != 13.0 || got["temp"] != 0.23 || plain[13].GetLabel() != 14 || plain[13].Features != nil {
		t.Errorf("%d rounds, of them %v", len(plain), plain[13])
	}
	for i, want := range map[int]string{0: "2011-01-01T00:00:00Z", 24: "2011-01-02T00:00:00Z", 25: "2011-01-03T00:00:00Z"} {
		if got := days[i].GetInputs().AsMap(); got["dteday"] != want || len(got) != 13 {
			t.Errorf("row %d: %v", i, got)
		}
	}
	spec, dated, other := f.specs["run-bike-named-linear_awv"], f.specs["run-bike-dteday-named-auto"], f.specs["run-bike-linear_awv"]
	if spec.GetLinearAwv() == nil || spec.GetScaling() != nil || spec.GetDimension() != 0 || len(spec.GetInputs()) != 12 || spec.GetSeed() != papers.Seed {
		t.Errorf("spec %v", spec)
	}
	if dated.GetLearner() != nil || dated.GetInputs()[0].GetTime() == nil || other.GetDimension() != 12 || other.GetScaling().GetNone() == nil {
		t.Errorf("specs %v, %v", dated, other)
	}
	if c := r.Inferred[1].Columns; r.Inferred[0].Rows != 37 || c[0].Name != "dteday" || c[0].Kind != "time" || c[13].Kind != "label" {
		t.Errorf("inferred %+v", r.Inferred)
	}
}

func TestTheDaysOfBikeMustAgree(t *testing.T) {
	dir := t.TempDir()
	place(t, dir, "bike", bike(5))
	f := &fake{told: 1, score: 0.75}
	if _, err := f.measure(t, records.Plan{Data: dir}); err == nil || !strings.Contains(err.Error(), "row 37") || !strings.Contains(err.Error(), "2011-01-04") {
		t.Errorf("%v", err)
	}
}

func elec2(last string) string {
	return header(8) + strings.Repeat("0.1,2,0.5,0.1,0.2,0.3,0.4,0.5,1\n0.2,3,0.5,0.1,0.2,0.3,0.4,0.6,-1\n0.3,4,0.5,0.1,0.2,0.3,0.4,0.5,1\n", 100) +
		"0.1,2,0.5,0.1,0.2,0.3,0.4,0.5," + last + "\n"
}

// Labels that are signs become classes. What the server says of them is in the report.
func TestClasses(t *testing.T) {
	dir := t.TempDir()
	place(t, dir, "elec2", elec2("1"))
	place(t, dir, "ijcnn1", header(2)+strings.Repeat("0,1,-1\n1,0,1\n", 3))
	f := &fake{class: "UP", told: 1, score: 0.75, rejects: "ijcnn1-fogd"}
	r, err := f.measure(t, records.Plan{Data: dir})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Beside) != 5 || len(r.Reliability) != 8 {
		t.Fatalf("%+v", r)
	}
	for _, b := range r.Beside {
		// Every third class is wrong, and so is every third sign of the prediction 1.
		if math.Abs(b.Named.Value-100.0/301) > 1e-12 || math.Abs(b.Ratio()-1) > 1e-12 || !math.IsNaN(b.Named.Skill) || !math.IsNaN(b.Scaled.Skill) {
			t.Errorf("%+v", b)
		}
	}
	for i, e := range r.Reliability {
		want := 100.0 / 301
		if e.Stream == "ijcnn1" {
			want = 1 // It has the classes -1 and 1.
		}
		if i == 7 {
			if e.Rejected != "rejected: INVALID_SPEC" || e.Rows != 0 || !math.IsNaN(e.Worst()) {
				t.Errorf("%+v", e)
			}
			continue
		}
		if math.Abs(e.Errors-want) > 1e-12 || e.LogLoss != 0.5 || e.Brier != 0.25 || e.Last != 0.125 || len(e.Bins) != 10 || math.Abs(e.Worst()-0.03) > 1e-12 {
			t.Errorf("%+v", e)
		}
	}
	spec, fogd, ada := f.specs["run-elec2-rlsc"], f.specs["run-elec2-fogd"], f.specs["run-elec2-named-ada_raker"]
	if spec.GetRlsc() == nil || spec.GetClasses() == nil || len(spec.GetInputs()) != 8 {
		t.Errorf("spec %v", spec)
	}
	if logistic := hindsightv1.Loss_LOSS_LOGISTIC; fogd.GetFogd().GetLoss() != logistic || ada.GetAdaRaker().GetLoss() != logistic {
		t.Errorf("specs %v, %v", fogd, ada)
	}
	if vector := f.specs["run-ijcnn1-auto"]; vector.GetDimension() != 2 || vector.GetClasses() == nil || vector.GetInputs() != nil {
		t.Errorf("spec %v", vector)
	}
	if o := f.observed["run-elec2-rlsc"][1]; o.GetClass() != "DOWN" || o.GetInputs().AsMap()["day"] != 3.0 {
		t.Errorf("%v", o)
	}
	// Those that were taken through named columns already are not taken again.
	if _, again := f.specs["run-elec2-auto"]; !again || f.specs["run-elec2-auto"].GetClasses() != nil {
		t.Errorf("the only run of auto by that name is the scaled one: %v", f.specs["run-elec2-auto"])
	}
}

func TestMistakesOfFilesAndServers(t *testing.T) {
	dir := t.TempDir()
	good := fake{class: "UP", told: 1, score: 0.75}
	place(t, dir, "elec2", elec2("1"))
	for want, f := range map[string]*fake{
		"PredictBatch says 2":  {class: "UP", told: 2, score: 0.75},
		"probabilities sum to": {class: "UP", told: 1, score: 0.7},
	} {
		if _, err := f.measure(t, records.Plan{Data: dir}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for want, content := range map[string]string{
		`a label is "2"`:    elec2("2"),
		"3 columns, want 9": "x1,x2,y\n1,2,1\n",
		"is y, not":         "x1,y,x2\n1,2,1\n",
		"no row":            header(8),
	} {
		place(t, dir, "elec2", content)
		if _, err := good.measure(t, records.Plan{Data: dir}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Each digit is left out of the first 3,000 rows, in a run for each recoding.
func TestWithheldDigits(t *testing.T) {
	dir := t.TempDir()
	var content strings.Builder
	content.WriteString(header(2))
	for i := range 4000 {
		fmt.Fprintf(&content, "%d,%d,%d\n", i%10, i%17, i%10)
	}
	place(t, dir, "digits", content.String())
	f := &fake{class: "7", told: 1, score: 0.75}
	r, err := f.measure(t, records.Plan{Data: dir})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Digits) != 2 || len(r.Withheld) != 8 || len(f.specs) != 2+80 {
		t.Fatalf("%+v, %d models", r, len(f.specs))
	}
	for _, d := range r.Digits {
		if d.Rows != 4000 || math.Abs(d.Errors-0.9) > 1e-12 || d.LogLoss != 0.5 {
			t.Errorf("%+v", d)
		}
	}
	for _, w := range r.Withheld {
		// 7 is right where it comes: in one of ten runs the first, in nine a ninth of
		// the others.
		if math.Abs(w.First-0.9) > 1e-12 || math.Abs(w.Others-0.9) > 1e-12 {
			t.Errorf("%+v", w)
		}
	}
	for digit := range 10 {
		rounds := f.observed[fmt.Sprintf("run-digits-running-0.25-%d", digit)]
		if len(rounds) != 3700 || slices.ContainsFunc(rounds[:2700], func(o *hindsightv1.ObserveRequest) bool { return o.GetClass() == strconv.Itoa(digit) }) {
			t.Errorf("digit %d: %d rounds", digit, len(rounds))
		}
	}
	list, hand := f.observed["run-digits-running"][12], f.observed["run-digits-min-max"][12]
	if got := list.GetInputs().AsMap()["pixels"]; fmt.Sprint(got) != "[2 12]" || list.GetClass() != "2" {
		t.Errorf("%v", list)
	}
	if got := hand.GetFeatures(); len(got) != 2 || got[0] != 2.0/9 || got[1] != 0.75 || hand.GetClass() != "2" {
		t.Errorf("%v", hand)
	}
	spec, own := f.specs["run-digits-running-1-0"], f.specs["run-digits-min-max"]
	if k := spec.GetRlsc(); k.GetRecoding() != 1 || k.GetFrequencies() != 200 || k.GetLambda() != 0.01 || k.GetKernel().Sigma != nil || spec.GetScaling() != nil {
		t.Errorf("spec %v", spec)
	}
	if k := own.GetRlsc(); k.Recoding != nil || !(k.GetKernel().GetSigma() > 0) || own.GetScaling().GetNone() == nil {
		t.Errorf("spec %v", own)
	}
}

func TestPlanWithoutFiles(t *testing.T) {
	p := records.Plan{Data: t.TempDir()}
	if !p.Empty() {
		t.Error("there are no files")
	}
	place(t, p.Data, "digits", "x1,y\n1,2\n")
	if p.Empty() {
		t.Error("there is a file")
	}
}
