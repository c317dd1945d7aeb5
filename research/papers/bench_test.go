package papers_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/research/papers"
	"hindsight/cmd/research/remote"
)

// fake is a server with one model. The model predicts 1 and accepts room rows.
type fake struct {
	hindsightv1.ModelServiceClient
	hindsightv1.PredictionServiceClient

	room    int
	failure error // the answer of ObserveBatch
	specs   map[string]*hindsightv1.ModelSpec
	deleted []string
	labels  []float64
	clock   time.Time

	mu    sync.Mutex // for the calls of Predict and Observe, which come side by side
	order map[string][]string
}

func (f *fake) Predict(_ context.Context, r *hindsightv1.PredictRequest, _ ...grpc.CallOption) (*hindsightv1.PredictResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.order[r.GetModel()] = append(f.order[r.GetModel()], "predict "+r.GetPredictionId())
	one := 1.0
	return &hindsightv1.PredictResponse{Prediction: &hindsightv1.Prediction{Value: &one}}, nil
}

func (f *fake) Observe(_ context.Context, r *hindsightv1.ObserveRequest, _ ...grpc.CallOption) (*hindsightv1.ObserveResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.order[r.GetModel()] = append(f.order[r.GetModel()], fmt.Sprintf("observe %s %v", r.GetPredictionId(), r.GetLabel()))
	return &hindsightv1.ObserveResponse{}, nil
}

func (f *fake) CreateModel(_ context.Context, r *hindsightv1.CreateModelRequest, _ ...grpc.CallOption) (*hindsightv1.CreateModelResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.labels = nil
	f.specs[r.GetId()] = r.GetSpec()
	return &hindsightv1.CreateModelResponse{Model: &hindsightv1.Model{Id: r.GetId(), Spec: r.GetSpec()}}, nil
}

func (f *fake) DeleteModel(_ context.Context, r *hindsightv1.DeleteModelRequest, _ ...grpc.CallOption) (*hindsightv1.DeleteModelResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deleted = append(f.deleted, r.GetModel())
	return &hindsightv1.DeleteModelResponse{}, nil
}

func (f *fake) GetModelStats(context.Context, *hindsightv1.GetModelStatsRequest, ...grpc.CallOption) (*hindsightv1.GetModelStatsResponse, error) {
	return &hindsightv1.GetModelStatsResponse{Stats: &hindsightv1.ModelStats{
		Regret: proto.Float64(2.5), RegretBound: proto.Float64(7), Certified: true, StateBytes: 64, Features: 3,
		Performance: &hindsightv1.Performance{
			Prequential: &hindsightv1.PerformanceFigures{Skill: proto.Float64(0.75)},
			Served:      &hindsightv1.PerformanceFigures{MeanLoss: 4, RunningMeanLoss: proto.Float64(8), LastLabelLoss: proto.Float64(16), Skill: proto.Float64(0.5)},
		},
		Intervals: []*hindsightv1.IntervalStats{{Coverage: 0.9, Realised: proto.Float64(0.9125)}},
	}}, nil
}

func (f *fake) ObserveBatch(_ context.Context, r *hindsightv1.ObserveBatchRequest, _ ...grpc.CallOption) (*hindsightv1.ObserveBatchResponse, error) {
	f.clock = f.clock.Add(time.Second)
	if f.failure != nil {
		return nil, f.failure
	}
	if len(f.labels)+len(r.GetObservations()) > f.room {
		s, err := status.New(codes.ResourceExhausted, "model is full").WithDetails(
			&errdetails.ErrorInfo{Domain: "hindsight", Reason: "OBSERVATION_LIMIT"})
		if err != nil {
			return nil, err
		}
		return nil, s.Err()
	}
	answer := &hindsightv1.ObserveBatchResponse{}
	for _, o := range r.GetObservations() {
		one, loss := 1.0, (1-o.GetLabel())*(1-o.GetLabel())
		f.labels = append(f.labels, o.GetLabel())
		answer.Outcomes = append(answer.Outcomes, &hindsightv1.Outcome{Prediction: &one, Loss: &loss})
	}
	return answer, nil
}

func (f *fake) bench() *papers.Bench {
	f.specs, f.clock = make(map[string]*hindsightv1.ModelSpec), time.Unix(0, 0)
	f.order = make(map[string][]string)
	return &papers.Bench{Server: &remote.Server{
		Models: f, Predictions: f, Run: "run", Timeout: time.Minute,
		Now: func() time.Time { return f.clock },
	}}
}

// signStream is a stream of 300 rows. Every third label is negative.
func signStream(t *testing.T) (papers.Plan, papers.Stream) {
	t.Helper()
	dir := t.TempDir()
	place(t, dir, "signs", "x1,x2,y\n"+strings.Repeat("0,1,1\n1,0,1\n1,1,-1\n", 100))
	return papers.Plan{Data: dir, Learners: papers.Learners()}, papers.Stream{Name: "signs", Signs: true}
}

func TestStream(t *testing.T) {
	f := &fake{room: 1 << 20}
	b := f.bench()
	p, s := signStream(t)
	r, err := b.Stream(t.Context(), p, s)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Entries) != len(p.Learners)+2 || len(f.deleted) != len(p.Learners) || r.Rows != 300 || r.Dimension != 2 {
		t.Fatalf("%d entries, deleted %q, %+v", len(r.Entries), f.deleted, r)
	}
	for i, l := range p.Learners {
		e := r.Entries[i]
		if e.Name != l.Name || e.Rows != 300 || e.Rejected != "" || e.Regret != 2.5 || e.Bound != 7 || e.Skill != 0.75 || e.Intervals != nil || e.StateBytes != 64 {
			t.Errorf("%+v", e)
		}
		// 3 batches of one second; every third sign is wrong.
		if e.Rate != 100 || e.ErrorRate() != 1.0/3 || len(e.Curve) != papers.GridPoints {
			t.Errorf("%s: rate %v, errors %v, %d points", e.Name, e.Rate, e.ErrorRate(), len(e.Curve))
		}
		if want := map[bool]string{true: "logistic", false: "squared"}[l.OwnLoss]; e.Loss != want {
			t.Errorf("%s: %s", e.Name, e.Loss)
		}
	}
	taylor, fogd := f.specs["run-signs-pkawv_taylor"], f.specs["run-signs-fogd"]
	if taylor.GetDimension() != 2 || taylor.GetPkawvTaylor().GetSigma() != r.Sigma || taylor.GetSeed() != papers.Seed || taylor.GetScaling().GetNone() == nil {
		t.Errorf("spec %v", taylor)
	}
	if fogd.GetFogd().GetKernel().GetSigma() != r.Sigma || fogd.GetFogd().GetLoss() != hindsightv1.Loss_LOSS_LOGISTIC {
		t.Errorf("spec %v", fogd)
	}
	auto, fourier := f.specs["run-signs-auto"], f.specs["run-signs-fourier_awv.running"]
	if auto.GetLearner() != nil || auto.GetDimension() != 2 || len(auto.GetCoverage()) != 0 || fourier.GetFourierAwv() == nil || fourier.GetFourierAwv().GetKernel() != nil {
		t.Errorf("specs %v, %v", auto, fourier)
	}
	if taylor.GetScaling().GetNone() == nil || auto.GetScaling() != nil || fourier.GetScaling() != nil {
		t.Errorf("scaling %v, %v, %v: want none and the default", taylor.GetScaling(), auto.GetScaling(), fourier.GetScaling())
	}
	if r.Late != nil {
		t.Errorf("late labels %v of a stream that has none", r.Late)
	}
}

// TestSpecs checks the specs of the learners that have more than a kernel and a loss.
// All others have the server's defaults. The range of the labels is told where it makes
// a learner certified.
func TestSpecs(t *testing.T) {
	signs, quantities := papers.Stream{Signs: true}, papers.Stream{}
	for name, c := range map[string]struct {
		stream papers.Stream
		want   string
	}{
		"fourier_awv.lambdas":  {quantities, `fourier_awv {kernel {kind: KIND_GAUSSIAN sigma: 0.5} lambdas: [0.001, 0.01, 0.1, 1, 10]}`},
		"semiparametric_awv":   {quantities, `semiparametric_awv {kernel {kind: KIND_GAUSSIAN sigma: 0.5}}`},
		"fourier_kons":         {quantities, `fourier_kons {kernel {kind: KIND_GAUSSIAN sigma: 0.5} loss: LOSS_SQUARED range: [0, 1]}`},
		"fourier_kons.running": {quantities, `fourier_kons {loss: LOSS_SQUARED}`},
		"pros_n_kons":          {quantities, `pros_n_kons {kernel {kind: KIND_GAUSSIAN sigma: 0.5} loss: LOSS_SQUARED range: [0, 1]}`},
		"pros_n_kons.running":  {quantities, `pros_n_kons {loss: LOSS_SQUARED}`},
		"kons":                 {quantities, `kons {kernel {kind: KIND_GAUSSIAN sigma: 0.5} loss: LOSS_SQUARED range: [0, 1]}`},
		"fogd.sgm":             {quantities, `fogd {kernel {kind: KIND_GAUSSIAN sigma: 0.5} loss: LOSS_SQUARED lambda: 0 decay: 0.5 average: true}`},
		"kons signs":           {signs, `kons {kernel {kind: KIND_GAUSSIAN sigma: 0.5} loss: LOSS_LOGISTIC}`},
		"pros_n_kons signs":    {signs, `pros_n_kons {kernel {kind: KIND_GAUSSIAN sigma: 0.5} loss: LOSS_LOGISTIC}`},
		"fourier_awv.lambdas signs": {
			signs, `fourier_awv {kernel {kind: KIND_GAUSSIAN sigma: 0.5} lambdas: [0.001, 0.01, 0.1, 1, 10]}`,
		},
	} {
		name, _, _ := strings.Cut(name, " ")
		var want hindsightv1.ModelSpec
		if err := prototext.Unmarshal([]byte(c.want), &want); err != nil {
			t.Fatal(err)
		}
		got := learner(t, name).Spec(c.stream, 3, 0.5)
		got.Dimension, got.Seed, got.Coverage, got.Scaling = 0, 0, nil, nil
		if !proto.Equal(got, &want) {
			t.Errorf("%s: %v, want %v", name, got, &want)
		}
	}
}

// TestLateLabels sends every label after the prediction delay rounds later and
// before the next one.
func TestLateLabels(t *testing.T) {
	dir := t.TempDir()
	place(t, dir, "air", "x1,y\n"+strings.Repeat("0,1\n1,-1\n2,3\n", 50))
	f := &fake{room: 1 << 20}
	b := f.bench()
	r, err := b.Stream(t.Context(), papers.Plan{Data: dir, Learners: papers.Learners()[:1]}, papers.Stream{Name: "air", AsPublished: true})
	if err != nil {
		t.Fatal(err)
	}
	if e := r.Entries[0]; len(e.Intervals) != 1 || e.Intervals[0].Inside != 0.9125 || !math.IsNaN(e.Intervals[0].Least) {
		t.Errorf("%+v", e)
	}
	if len(r.Late) != 3 || len(f.deleted) != 4 {
		t.Fatalf("%+v, deleted %q", r.Late, f.deleted)
	}
	for i, delay := range papers.Delays() {
		l := r.Late[i]
		if l.Delay != delay || l.Rows != 150 || l.Loss != 4 || l.RunningMean != 8 || l.LastLabel != 16 || l.Skill != 0.5 || !math.IsNaN(l.ErrorRate) {
			t.Errorf("%+v", l)
		}
		id := fmt.Sprintf("run-air-late-%d", delay)
		if spec := f.specs[id]; spec.GetLearner() != nil || spec.GetDimension() != 1 || !slices.Equal(spec.GetCoverage(), papers.Coverages()) {
			t.Errorf("spec %v", spec)
		}
		var want []string
		for i := range 150 + delay {
			if i < 150 {
				want = append(want, fmt.Sprintf("predict row-%d", i))
			}
			if i >= delay {
				want = append(want, fmt.Sprintf("observe row-%d %v", i-delay, []float64{1, -1, 3}[(i-delay)%3]))
			}
		}
		if !slices.Equal(f.order[id], want) {
			t.Errorf("delay %d: %q", delay, f.order[id])
		}
	}
}

func TestStreamNotesARejection(t *testing.T) {
	f := &fake{room: 200}
	b := f.bench()
	p, s := signStream(t)
	p.Learners = p.Learners[1:2]
	r, err := b.Stream(t.Context(), p, s)
	if err != nil {
		t.Fatal(err)
	}
	e := r.Entries[0]
	if e.Rows != remote.BatchRows || e.Rejected != "rejected after 128 rows: OBSERVATION_LIMIT" || e.Regret != 2.5 || len(f.deleted) != 1 {
		t.Errorf("%+v, deleted %q", e, f.deleted)
	}
	if last := e.Curve[len(e.Curve)-1]; last.T != remote.BatchRows {
		t.Errorf("the curve ends with %+v", last)
	}
}

func TestStreamFailsWithoutServer(t *testing.T) {
	f := &fake{failure: status.Error(codes.Unavailable, "connection refused")}
	b := f.bench()
	p, s := signStream(t)
	if _, err := b.Stream(t.Context(), p, s); err == nil || !strings.Contains(err.Error(), "signs through auto") {
		t.Errorf("%v", err)
	}
}

func TestStreamSkips(t *testing.T) {
	b := (&fake{}).bench()
	p := papers.Plan{Data: t.TempDir()}
	for _, s := range papers.Streams() {
		r, err := b.Stream(t.Context(), p, s)
		if err != nil || r.Skipped == "" || (s.Unserved != "") != (r.Skipped != "its file is not there") {
			t.Errorf("%s: %+v, %v", s.Name, r, err)
		}
	}
}
