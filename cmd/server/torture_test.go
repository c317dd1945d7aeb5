package main_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/structpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

var (
	tortureFor     = flag.Duration("torture", 5*time.Second, "how long the torture lasts")
	tortureClients = flag.Int("torture-clients", 8, "clients of the torture")
	tortureSeed    = flag.Uint64("torture-seed", 1, "seed of the clients' choices")
)

// advised is the model that learns otherwise from what was predicted before: the
// serial replay, which sends features, would not end with its digest. It is sent
// features alone.
const advised = "auto"

// learned is an acknowledged observation.
type learned struct {
	request *hindsightv1.ObserveRequest
	outcome *hindsightv1.Outcome
}

// torture is several clients on a server that is killed again and again.
type torture struct {
	t *testing.T
	// current is the server of the moment; nil while there is none.
	current atomic.Pointer[process]
	started time.Time
	end     time.Time
	mu      struct {
		sync.Mutex
		learned map[string]map[string]learned // By model, then by id.
		history []porcupine.Operation
	}
	retries, duplicates atomic.Int64
}

// event is what happened to the sequence of a model: it was learned as value,
// found learned as value, or read as value.
type event struct {
	model string
	kind  byte // 'l', 'd' or 'r'
	value uint64
}

// sequences is a register per model: learning raises it by one, reading sees
// all that was acknowledged.
func sequences() porcupine.Model {
	return porcupine.Model{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			byModel := map[string][]porcupine.Operation{}
			for _, o := range history {
				m := o.Input.(event).model
				byModel[m] = append(byModel[m], o)
			}
			return slices.Collect(maps.Values(byModel))
		},
		Init: func() any { return uint64(0) },
		Step: func(state, input, _ any) (bool, any) {
			n, e := state.(uint64), input.(event)
			switch e.kind {
			case 'l':
				return e.value == n+1, n + 1
			case 'd':
				return e.value <= n, n
			default:
				return e.value == n, n
			}
		},
	}
}

// Clients observe, retry, predict and read while the server is killed about every
// second; one in five times it is terminated. In the end every acknowledged
// observation was learned once, under the sequence and with the answer that was
// given. The state is that of a serial replay. What clients saw of the sequences is
// linearizable. Snapshots are written all the time.
func TestTorture(t *testing.T) {
	t.Parallel()
	flags := []string{"--snapshot-replay", "1ms", "--snapshots-kept", "2"}
	dir := t.TempDir()
	tt := &torture{t: t, started: time.Now()}
	tt.end = tt.started.Add(*tortureFor)
	tt.mu.learned = map[string]map[string]learned{}
	p := launch(t, dir, flags...)
	models := createTortured(t, p)
	for _, m := range models {
		tt.mu.learned[m] = map[string]learned{}
	}
	tt.current.Store(p)
	var clients sync.WaitGroup
	for c := range *tortureClients {
		clients.Go(func() { tt.client(c, models) })
	}
	clients.Go(tt.steward)
	done := make(chan struct{})
	go func() {
		defer close(done)
		clients.Wait()
	}()
	rng := rand.New(rand.NewPCG(*tortureSeed, 99))
	kills := 0
	var recovery time.Duration
	for running := true; running; {
		select {
		case <-done:
			running = false
		case <-time.After(time.Duration(400+rng.IntN(1000)) * time.Millisecond):
			if time.Now().After(tt.end) {
				continue // The clients only finish what they began.
			}
			tt.current.Store(nil)
			if rng.IntN(5) == 0 {
				p.terminate(t)
			} else {
				p.kill(t)
				kills++
			}
			begun := time.Now()
			p = launch(t, dir, flags...)
			recovery += time.Since(begun)
			tt.current.Store(p)
		}
	}
	tt.check(p, models)
	observations := 0
	for _, m := range tt.mu.learned {
		observations += len(m)
	}
	t.Logf("seed %d: %d kills, %d observations, %d calls sent again, %d answered as duplicates, %v from start to serving on average",
		*tortureSeed, kills, observations, tt.retries.Load(), tt.duplicates.Load(), recovery/time.Duration(max(kills, 1)))
	p.terminate(t)
}

// stewarded is a model that one client describes, deletes and brings back.
const stewarded = "stewarded"

// steward changes the metadata of a model of its own, deletes it and brings it back. What
// was answered is there whatever was killed since, and so is what the model has learned.
func (tt *torture) steward() {
	create := &hindsightv1.CreateModelRequest{Id: stewarded, Spec: tortured()["linear"]}
	tt.insist(func(ctx context.Context, p *process) error {
		_, err := p.models.CreateModel(ctx, create)
		return err
	})
	for n := 1; time.Now().Before(tt.end) || n == 1; n++ {
		name := fmt.Sprint("round ", n)
		tt.insist(func(ctx context.Context, p *process) error {
			_, err := p.models.UpdateModel(ctx, &hindsightv1.UpdateModelRequest{
				Model:      &hindsightv1.Model{Id: stewarded, DisplayName: name, Labels: map[string]string{"round": strconv.Itoa(n)}},
				UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"display_name", "labels.round"}},
			})
			return err
		})
		tt.insist(func(ctx context.Context, p *process) error {
			_, err := p.predictor.Observe(ctx, &hindsightv1.ObserveRequest{
				Model: stewarded, Features: []float64{1, float64(n)}, ObservationId: name, Target: &hindsightv1.ObserveRequest_Label{Label: 1},
			})
			return err
		})
		// A lost answer may have deleted it: not found is as good.
		tt.insist(func(ctx context.Context, p *process) error {
			_, err := p.models.DeleteModel(ctx, &hindsightv1.DeleteModelRequest{Model: stewarded})
			return err
		})
		gone := tt.insist(func(ctx context.Context, p *process) error {
			_, err := p.models.GetModel(ctx, &hindsightv1.GetModelRequest{Model: stewarded})
			return err
		})
		var back *hindsightv1.UndeleteModelResponse
		missing := tt.insist(func(ctx context.Context, p *process) (err error) {
			back, err = p.models.UndeleteModel(ctx, &hindsightv1.UndeleteModelRequest{Model: stewarded})
			return err
		})
		m := back.GetModel()
		if !gone || missing || m.GetSequence() != uint64(n) || m.GetDisplayName() != name || m.GetLabels()["round"] != strconv.Itoa(n) {
			tt.t.Errorf("round %d: gone %v, not back %v, %v", n, gone, missing, m)
			return
		}
	}
}

func createTortured(t *testing.T, p *process) []string {
	t.Helper()
	var models []string
	for name, spec := range tortured() {
		must(p.models.CreateModel(t.Context(), &hindsightv1.CreateModelRequest{Id: name, Spec: spec}))(t)
		models = append(models, name)
	}
	slices.Sort(models)
	return models
}

func tortured() map[string]*hindsightv1.ModelSpec {
	return map[string]*hindsightv1.ModelSpec{
		advised:   {Dimension: 2, Learner: &hindsightv1.ModelSpec_Auto{Auto: &hindsightv1.Auto{Frequencies: proto.Int32(5)}}},
		"linear":  {Dimension: 2, Scaling: unscaled(), Learner: &hindsightv1.ModelSpec_LinearAwv{LinearAwv: &hindsightv1.LinearAwv{}}},
		"taylor":  {Dimension: 2, Scaling: unscaled(), Learner: &hindsightv1.ModelSpec_PkawvTaylor{PkawvTaylor: &hindsightv1.PkawvTaylor{Degree: proto.Int32(2)}}},
		"nystrom": {Dimension: 2, Scaling: unscaled(), Learner: &hindsightv1.ModelSpec_PkawvNystrom{PkawvNystrom: &hindsightv1.PkawvNystrom{}}},
		"running": {Dimension: 2, Learner: &hindsightv1.ModelSpec_FourierAwv{FourierAwv: &hindsightv1.FourierAwv{Frequencies: proto.Int32(5)}}},
		"raker":   {Dimension: 2, Scaling: unscaled(), Learner: &hindsightv1.ModelSpec_AdaRaker{AdaRaker: &hindsightv1.AdaRaker{Frequencies: proto.Int32(5)}}},
		"named":   {Inputs: torturedInputs(), Learner: &hindsightv1.ModelSpec_LinearAwv{LinearAwv: &hindsightv1.LinearAwv{}}},
		"classes": {Inputs: torturedInputs(), Learner: &hindsightv1.ModelSpec_Rlsc{Rlsc: &hindsightv1.Rlsc{}}},
	}
}

func torturedInputs() []*hindsightv1.Input {
	return []*hindsightv1.Input{
		{Name: "load", Kind: &hindsightv1.Input_Numeric{Numeric: &hindsightv1.NumericInput{}}},
		{Name: "city", Kind: &hindsightv1.Input_Categorical{Categorical: &hindsightv1.CategoricalInput{}}},
		{Name: "at", Kind: &hindsightv1.Input_Time{Time: &hindsightv1.TimeInput{Trend: proto.Bool(true)}}},
	}
}

// sample is an input: features, or a record of a model of named inputs.
type sample struct {
	features []float64
	inputs   *structpb.Struct
}

// draw is an input of a model, and what will be observed of it.
func draw(rng *rand.Rand, model string) (sample, *hindsightv1.ObserveRequest) {
	r := &hindsightv1.ObserveRequest{Model: model, Target: &hindsightv1.ObserveRequest_Label{Label: rng.NormFloat64()}}
	if model == "classes" {
		r.Target = &hindsightv1.ObserveRequest_Class{Class: fmt.Sprint("class ", int(2*rng.ExpFloat64()))}
	}
	if model != "named" && model != "classes" {
		return sample{features: []float64{rng.NormFloat64(), rng.NormFloat64()}}, r
	}
	load := structpb.NewNullValue()
	if rng.IntN(4) > 0 {
		load = structpb.NewNumberValue(rng.NormFloat64())
	}
	return sample{inputs: &structpb.Struct{Fields: map[string]*structpb.Value{
		"load": load, "city": structpb.NewStringValue(fmt.Sprint("city ", int(20*rng.ExpFloat64()))),
		"at": structpb.NewStringValue(fmt.Sprintf("2026-%02d-01T%02d:00:00Z", 1+rng.IntN(12), rng.IntN(24))),
	}}}, r
}

// request asks for a prediction of a sample.
func (s sample) request(model string) *hindsightv1.PredictRequest {
	return &hindsightv1.PredictRequest{Model: model, Features: s.features, Inputs: s.inputs}
}

func (tt *torture) since() int64 { return int64(time.Since(tt.started)) }

// record adds to the history.
func (tt *torture) record(client int, call int64, e event) {
	tt.mu.Lock()
	defer tt.mu.Unlock()
	tt.mu.history = append(tt.mu.history, porcupine.Operation{ClientId: client, Input: e, Call: call, Return: tt.since()})
}

// insist makes a call until a server answers. It reports whether what it was for
// is not there.
func (tt *torture) insist(call func(ctx context.Context, p *process) error) (missing bool) {
	for {
		p := tt.current.Load()
		if p == nil {
			<-time.After(2 * time.Millisecond)
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		err := call(ctx, p)
		cancel()
		switch status.Code(err) {
		case codes.OK:
			return false
		case codes.NotFound:
			return true
		case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.ResourceExhausted:
			tt.retries.Add(1)
			<-time.After(2 * time.Millisecond) // The client backs off.
		default:
			tt.t.Errorf("%v", err)
			return false
		}
	}
}

func (tt *torture) client(number int, models []string) {
	rng := rand.New(rand.NewPCG(*tortureSeed, uint64(number)))
	for n := 0; time.Now().Before(tt.end); n++ {
		model, id := models[rng.IntN(len(models))], fmt.Sprintf("%d-%d", number, n)
		x, r := draw(rng, model)
		r.Features, r.Inputs, r.ObservationId = x.features, x.inputs, id
		choice := rng.IntN(4)
		if choice == 2 && model == advised {
			choice = 3
		}
		switch choice {
		case 0:
			tt.read(number, model, x)
		case 1:
			tt.again(number, model, rng.IntN(1000))
		case 2:
			tt.insist(func(ctx context.Context, p *process) error {
				asked := x.request(model)
				asked.PredictionId = id
				_, err := p.predictor.Predict(ctx, asked)
				if status.Code(err) == codes.AlreadyExists {
					return nil
				}
				return err
			})
			r.Features, r.Inputs, r.ObservationId, r.PredictionId = nil, nil, "", id
			tt.observe(number, r, x)
		default:
			tt.observe(number, r, x)
		}
	}
}

// observe sends an observation until it is acknowledged.
func (tt *torture) observe(client int, r *hindsightv1.ObserveRequest, x sample) {
	call := tt.since()
	var answer *hindsightv1.ObserveResponse
	send := func(ctx context.Context, p *process) (err error) {
		answer, err = p.predictor.Observe(ctx, r)
		return err
	}
	if tt.insist(send) {
		tt.t.Errorf("%s: the prediction %s was acknowledged and is not found", r.GetModel(), r.GetPredictionId())
		return
	}
	if answer.GetOutcome().GetDuplicate() {
		tt.duplicates.Add(1)
	}
	tt.record(client, call, event{r.GetModel(), 'l', answer.GetOutcome().GetSequence()})
	id := r.GetObservationId() + r.GetPredictionId()
	learnedBy := &hindsightv1.ObserveRequest{Features: x.features, Inputs: x.inputs, ObservationId: id, Target: r.GetTarget()}
	tt.mu.Lock()
	defer tt.mu.Unlock()
	tt.mu.learned[r.GetModel()][id] = learned{learnedBy, answer.GetOutcome()}
}

// again sends an observation that was answered before.
func (tt *torture) again(client int, model string, pick int) {
	tt.mu.Lock()
	ids := slices.Sorted(maps.Keys(tt.mu.learned[model]))
	if len(ids) == 0 {
		tt.mu.Unlock()
		return
	}
	first := tt.mu.learned[model][ids[pick%len(ids)]]
	tt.mu.Unlock()
	r := proto.CloneOf(first.request)
	r.Model = model
	call := tt.since()
	var answer *hindsightv1.ObserveResponse
	tt.insist(func(ctx context.Context, p *process) (err error) {
		answer, err = p.predictor.Observe(ctx, r)
		return err
	})
	o := answer.GetOutcome()
	if !o.GetDuplicate() || o.GetSequence() != first.outcome.GetSequence() || o.GetPrediction() != first.outcome.GetPrediction() || o.GetClass() != first.outcome.GetClass() || o.GetLoss() != first.outcome.GetLoss() {
		tt.t.Errorf("again %v, first %v", o, first.outcome)
	}
	tt.record(client, call, event{model, 'd', o.GetSequence()})
}

// read asks how far a model is: by a prediction or by its description.
func (tt *torture) read(client int, model string, x sample) {
	call := tt.since()
	value := uint64(0)
	tt.insist(func(ctx context.Context, p *process) error {
		call = tt.since() // A read that failed saw nothing.
		asked := x.request(model)
		asked.Remember = proto.Bool(false)
		answer, err := p.predictor.Predict(ctx, asked)
		value = answer.GetPrediction().GetStateSequence()
		return err
	})
	tt.record(client, call, event{model, 'r', value})
}

// check compares the server with a serial replay on a fresh one.
func (tt *torture) check(p *process, models []string) {
	t := tt.t
	t.Helper()
	result := porcupine.CheckOperationsTimeout(sequences(), tt.mu.history, time.Minute)
	assert.Equal(t, porcupine.Ok, result, "the sequences that %d calls saw are not linearizable", len(tt.mu.history))
	fresh := launch(t, t.TempDir())
	createTortured(t, fresh)
	for _, m := range models {
		rows := slices.Collect(maps.Values(tt.mu.learned[m]))
		slices.SortFunc(rows, func(a, b learned) int {
			return int(int64(a.outcome.GetSequence()) - int64(b.outcome.GetSequence()))
		})
		for from := 0; from < len(rows); from += 500 {
			part := rows[from:min(from+500, len(rows))]
			batch := &hindsightv1.ObserveBatchRequest{Model: m}
			for _, r := range part {
				batch.Observations = append(batch.Observations, r.request)
			}
			answer := must(fresh.predictor.ObserveBatch(t.Context(), batch))(t)
			for n, o := range answer.GetOutcomes() {
				got := part[n].outcome
				if got.GetSequence() != uint64(from+n+1) || got.GetPrediction() != o.GetPrediction() || got.GetClass() != o.GetClass() || got.GetLoss() != o.GetLoss() {
					t.Fatalf("%s was answered %v; a serial replay answers %v", m, got, o)
				}
			}
		}
		stats := func(p *process) *hindsightv1.ModelStats {
			r := must(p.models.GetModelStats(t.Context(), &hindsightv1.GetModelStatsRequest{Model: m}))(t)
			return r.GetStats()
		}
		got, want := stats(p), stats(fresh)
		if got.GetObservations() != uint64(len(rows)) || got.GetStateDigest() != want.GetStateDigest() {
			t.Errorf("%s: %d observations, %d acknowledged; digest %s, that of a serial replay %s",
				m, got.GetObservations(), len(rows), got.GetStateDigest(), want.GetStateDigest())
		}
		tt.checkHistory(m, p, fresh)
	}
	fresh.terminate(t)
}

// checkHistory compares what a replay has in common with the history of a model: all but
// times, and what was served.
func (tt *torture) checkHistory(model string, p, fresh *process) {
	tt.t.Helper()
	points := func(p *process) (all []*hindsightv1.HistoryPoint) {
		r, err := p.models.GetModelHistory(tt.t.Context(), &hindsightv1.GetModelHistoryRequest{Model: model})
		if err != nil {
			tt.t.Fatal(err)
		}
		for _, point := range r.GetPoints() {
			point.Time, point.Performance.Served = nil, nil
			if point.GetClasses() != nil {
				point.Classes.Served = nil
			}
		}
		return r.GetPoints()
	}
	got, want := points(p), points(fresh)
	if len(got) != len(want) || len(got) == 0 {
		tt.t.Errorf("%s has %d points, a serial replay %d", model, len(got), len(want))
		return
	}
	for n := range got {
		if !proto.Equal(got[n], want[n]) {
			tt.t.Errorf("%s: point %d is %v, of a serial replay %v", model, n, got[n], want[n])
		}
	}
}
