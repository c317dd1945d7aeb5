// Package capacity measures what models cost a server: processor time of a call, memory,
// disk, and the time of a recovery. What it measures is compared with package sizing.
package capacity

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
	"hindsight/cmd/bench/internal/load"
	"hindsight/cmd/bench/internal/scrape"
	"hindsight/cmd/internal/child"
)

// Case is a kind of model that is measured.
type Case struct {
	Name, Spec string
	// Models is how many there are.
	Models int
	// Bulk is how many observations are learned in batches at the end, so that the memory
	// tables of the store have been full. Without them the memory of the process is not that of
	// the long run, and is not compared.
	Bulk int
	// Calls is how many calls of a kind are measured; 0: as many as take some seconds.
	Calls int
	// Alone says that calls to an idle server are measured too.
	Alone bool
	// Unseen cases were not looked at when the constants of package sizing were chosen.
	Unseen bool
}

// Cases are those that "make sizing" measures.
func Cases() []Case {
	return []Case{
		{Name: "linear_awv, d 10", Spec: `{"dimension": 10, "linear_awv": {}}`, Models: 1, Bulk: 150_000, Alone: true},
		{Name: "linear_awv, d 100", Spec: `{"dimension": 100, "linear_awv": {}}`, Models: 1},
		{Name: "linear_awv, d 10, 1000 models", Spec: `{"dimension": 10, "linear_awv": {}}`, Models: 1000},
		{Name: "fourier_awv, D 128", Spec: `{"dimension": 10, "fourier_awv": {"frequencies": 128}}`, Models: 1},
		{Name: "fourier_awv, D 512", Spec: `{"dimension": 10, "fourier_awv": {"frequencies": 512}}`, Models: 1},
		{Name: "pkawv_taylor, degree 2", Spec: `{"dimension": 10, "pkawv_taylor": {"degree": 2}}`, Models: 1},
		{Name: "raker", Spec: `{"dimension": 10, "raker": {}}`, Models: 1},
		{Name: "rlsc", Spec: `{"dimension": 10, "rlsc": {}}`, Models: 1},
		{Name: "auto, d 10", Spec: `{"dimension": 10}`, Models: 1, Bulk: 40_000, Alone: true},
		{Name: "auto, d 10, 40 models", Spec: `{"dimension": 10}`, Models: 40},
		{Name: "auto, d 100", Spec: `{"dimension": 100}`, Models: 1},
		{Name: "semiparametric_awv, d 30", Spec: `{"dimension": 30, "semiparametric_awv": {"parametric": [0, 1, 2], "frequencies": 200}, "coverage": [0.5, 0.9]}`, Models: 20, Bulk: 60_000, Alone: true},
		{
			Name: "auto, records", Models: 5, Bulk: 40_000, Alone: true,
			Spec: `{"inputs": [{"name": "hour", "time": {}}, {"name": "city", "categorical": {}}, {"name": "load", "vector": {"length": 12}}, {"name": "open", "boolean": {}}], "auto": {"max_microseconds": 60}}`,
		},
		{Name: "ada_raker, d 20", Spec: `{"dimension": 20, "ada_raker": {}}`, Models: 10, Bulk: 100_000, Alone: true, Unseen: true},
		{
			Name: "rlsc, 6 classes, features of a kernel", Models: 3, Bulk: 80_000, Alone: true, Unseen: true,
			Spec: `{"dimension": 24, "rlsc": {"kernel": {"kind": "KIND_GAUSSIAN", "sigma": 2}, "frequencies": 150}, "classes": {"max_classes": 6}}`,
		},
	}
}

// Row is what was measured of a case. CPU is in seconds of one processor a call.
type Row struct {
	Case

	// Validated is the answer of ValidateSpec.
	Validated *hindsightv1.ValidateSpecResponse
	// Measured is how many calls of a kind were measured.
	Measured float64
	// PredictCPU and ObserveCPU are those of 16 callers, EchoPredictCPU and
	// EchoObserveCPU those of the bare gRPC server. AloneCPU is that of a call at 100 calls a
	// second, EchoAloneCPU the same.
	PredictCPU, ObserveCPU, EchoPredictCPU, EchoObserveCPU, AloneCPU, EchoAloneCPU float64
	// StateBytes is what a model says of its state, ModelsBytes what the server says of all.
	StateBytes, ModelsBytes float64
	// EmptyBytes is the resident memory before a model is made, ResidentBytes at the end.
	EmptyBytes, ResidentBytes float64
	// LogBytes and PendingBytes are the two databases: after Waiting predictions, and at the
	// end with IDs remembered and Logged observations in the log.
	LogBytes, Logged, IDs, PendingBytes, Waiting float64
	// SnapshotBytes is the mean size of a snapshot.
	SnapshotBytes float64
	// StartSeconds is the time until a server that was killed serves again. RecoveryCPU is the
	// processor time until all its models are there, with Replayed observations after their
	// snapshots; it does not depend on what else the machine does.
	StartSeconds, RecoveryCPU, Replayed float64
}

// How much is measured.
const (
	warmup      = 1000
	mostCalls   = 5000
	leastCalls  = 500
	flopsOfCall = 2e9 // Calls times their multiply-adds are at most this.
	callers     = 16
	aloneRate   = 100
	aloneTime   = 5 * time.Second
	drawn       = 1024
	bulkRows    = 128
	longestWait = 5 * time.Minute
)

// Bench measures cases with one server program and an echo.
type Bench struct {
	// Program is the server, Echo the address of a bare gRPC server and EchoMetrics the URL
	// of its metrics.
	Program, Echo, EchoMetrics string
	Say                        func(format string, args ...any)
}

// Measure measures a case on a server of its own, which it kills once.
func (b *Bench) Measure(ctx context.Context, c Case) (row *Row, err error) {
	dir, err := os.MkdirTemp("", "hindsight-sizing-")
	if err != nil {
		return nil, fmt.Errorf("directory of the server: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	row = &Row{Case: c}
	models := make([]string, c.Models)
	for i := range models {
		models[i] = "m" + strconv.Itoa(i)
	}
	err = b.serve(ctx, dir, func(s *host) error {
		defer s.server.Kill()
		return b.loaded(ctx, s, models, dir, row)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	begun := time.Now()
	err = b.serve(ctx, dir, func(s *host) error {
		row.StartSeconds = time.Since(begun).Seconds()
		for _, id := range models {
			if _, err := s.client.Model(id).Stats(ctx, nil); err != nil {
				return err
			}
		}
		after, err := s.scrape(ctx)
		if err != nil {
			return err
		}
		row.RecoveryCPU = after[scrape.CPUSeconds]
		stopping, cancel := context.WithTimeout(ctx, longestWait)
		defer cancel()
		return s.server.Stop(stopping)
	})
	if err != nil {
		return nil, fmt.Errorf("%s, after a crash: %w", c.Name, err)
	}
	return row, nil
}

// host is a server that runs, and a connection to it.
type host struct {
	server *child.Server
	client *client.Client
}

func (s *host) scrape(ctx context.Context) (scrape.Sample, error) {
	return scrape.Read(ctx, "http://"+s.server.HTTP+"/metrics")
}

// serve starts a server in a directory and calls do, which ends the server.
func (b *Bench) serve(ctx context.Context, dir string, do func(*host) error) (err error) {
	starting, cancel := context.WithTimeout(ctx, longestWait)
	defer cancel()
	server, err := child.Start(starting, b.Program, "--grpc-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0", "--data-dir", dir)
	if err != nil {
		return err
	}
	c, err := client.Dial(server.GRPC, client.WithRetry(client.Retry{}), client.WithTimeout(longestWait))
	if err != nil {
		server.Kill()
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	return do(&host{server: server, client: c})
}

// loaded measures what a server costs under load.
func (b *Bench) loaded(ctx context.Context, s *host, models []string, dir string, row *Row) error {
	spec := new(hindsightv1.ModelSpec)
	if err := protojson.Unmarshal([]byte(row.Spec), spec); err != nil {
		return fmt.Errorf("spec: %w", err)
	}
	var err error
	if row.Validated, err = s.client.Validate(ctx, spec); err != nil {
		return err
	}
	empty, err := s.scrape(ctx)
	if err != nil {
		return err
	}
	row.EmptyBytes = empty[scrape.ResidentBytes]
	for _, id := range models {
		if _, err := s.client.Model(id).Create(ctx, spec); err != nil {
			return err
		}
	}
	rows := load.Rows(row.Validated.GetSpec(), drawn, 1)
	row.Measured = float64(row.Calls)
	if row.Calls == 0 {
		row.Measured = math.Round(min(mostCalls, max(leastCalls, flopsOfCall/float64(row.Validated.GetObserveFlops()))))
	}
	if err := b.calls(ctx, s, models, rows, dir, row); err != nil {
		return err
	}
	if err := b.bulk(ctx, s, models, rows, row); err != nil {
		return err
	}
	return b.sizes(ctx, s, models, dir, row)
}

// calls measures the processor time of calls.
func (b *Bench) calls(ctx context.Context, s *host, models []string, rows []load.Row, dir string, row *Row) (err error) {
	own := load.New(load.Target{Services: []hindsightv1.PredictionServiceClient{s.client.Predictions()}, Models: models, Rows: rows, Timeout: longestWait})
	defer own.Close()
	beside, err := client.Dial(b.Echo, client.WithRetry(client.Retry{}))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, beside.Close()) }()
	echo := load.New(load.Target{Services: []hindsightv1.PredictionServiceClient{beside.Predictions()}, Models: models, Rows: rows, Timeout: longestWait})
	defer echo.Close()
	metrics := "http://" + s.server.HTTP + "/metrics"
	warm := load.Options{Mix: load.Mix{Observe: 1}, Callers: callers, Calls: max(warmup, 4*int64(len(models)))}
	if row.Measured < mostCalls {
		warm.Calls = int64(row.Measured) / 2
	}
	if _, err := own.Run(ctx, warm); err != nil {
		return err
	}
	predict := load.Options{Mix: load.Mix{Predict: 1}, Callers: callers, Calls: int64(row.Measured)}
	observe := load.Options{Mix: load.Mix{Observe: 1}, Callers: callers, Calls: int64(row.Measured)}
	alone := load.Options{Mix: load.Mix{Predict: 1, Observe: 1}, Rate: aloneRate, Callers: callers, Duration: aloneTime}
	for _, run := range []struct {
		load    *load.Load
		options load.Options
		metrics string
		to      *float64
	}{
		{echo, predict, b.EchoMetrics, &row.EchoPredictCPU},
		{own, predict, metrics, &row.PredictCPU},
		{nil, load.Options{}, "", nil},
		{own, observe, metrics, &row.ObserveCPU},
		{echo, observe, b.EchoMetrics, &row.EchoObserveCPU},
		{own, alone, metrics, &row.AloneCPU},
		{echo, alone, b.EchoMetrics, &row.EchoAloneCPU},
	} {
		if run.options.Rate > 0 && !row.Alone {
			continue
		}
		if run.load == nil {
			row.Waiting = row.Measured
			if row.PendingBytes, err = bytesBelow(filepath.Join(dir, "pending")); err != nil {
				return err
			}
			continue
		}
		if *run.to, err = perCall(ctx, run.load, run.options, run.metrics); err != nil {
			return err
		}
	}
	return nil
}

// perCall is the processor time of a call of a load.
func perCall(ctx context.Context, l *load.Load, o load.Options, metrics string) (float64, error) {
	before, err := scrape.Read(ctx, metrics)
	if err != nil {
		return 0, err
	}
	r, err := l.Run(ctx, o)
	if err != nil {
		return 0, err
	}
	if r.Calls == 0 || len(r.Errors) > 0 {
		return 0, fmt.Errorf("%d calls were answered, errors: %v", r.Calls, r.Errors)
	}
	after, err := scrape.Read(ctx, metrics)
	if err != nil {
		return 0, err
	}
	return (after[scrape.CPUSeconds] - before[scrape.CPUSeconds]) / float64(r.Calls), nil
}

// bulk fills the store with rounds, in batches.
func (b *Bench) bulk(ctx context.Context, s *host, models []string, rows []load.Row, row *Row) error {
	for sent := 0; sent < row.Bulk; sent += bulkRows {
		model := s.client.Model(models[sent/bulkRows%len(models)])
		inputs, observations := make([]client.Input, bulkRows), make([]client.Observation, bulkRows)
		for i := range inputs {
			inputs[i] = rows[(sent+i)%len(rows)].Input()
		}
		predictions, err := model.PredictBatch(ctx, inputs)
		if err != nil {
			return err
		}
		for i, p := range predictions {
			observations[i] = client.ByPrediction(p.GetPredictionId(), rows[(sent+i)%len(rows)].Target())
		}
		if _, err := model.ObserveBatch(ctx, observations); err != nil {
			return err
		}
	}
	return nil
}

// sizes reads what the server takes of memory and disk.
func (b *Bench) sizes(ctx context.Context, s *host, models []string, dir string, row *Row) (err error) {
	end, err := s.scrape(ctx)
	if err != nil {
		return err
	}
	row.ModelsBytes, row.ResidentBytes = end["hindsight_models_memory_bytes"], end[scrape.ResidentBytes]
	row.IDs = end["hindsight_store_remembered_ids"]
	snapshots := 0.0
	for _, id := range models {
		stats, err := s.client.Model(id).Stats(ctx, nil)
		if err != nil {
			return err
		}
		row.StateBytes += float64(stats.GetStateBytes()) / float64(len(models))
		kept, err := s.client.Model(id).Snapshots(ctx)
		if err != nil {
			return err
		}
		newest, oldest := uint64(0), uint64(0)
		for i, k := range kept {
			newest = max(newest, k.GetSequence())
			if i == 0 || k.GetSequence() < oldest {
				oldest = k.GetSequence()
			}
			snapshots++
			row.SnapshotBytes += float64(k.GetBytes())
		}
		if len(kept) < 3 {
			oldest = 0 // The log is cut when there are three.
		}
		row.Replayed += float64(stats.GetObservations() - newest)
		row.Logged += float64(stats.GetObservations() - oldest)
	}
	row.SnapshotBytes /= max(1, snapshots)
	row.LogBytes, err = bytesBelow(filepath.Join(dir, "log"))
	return err
}

// bytesBelow is the size of the files below a directory.
func bytesBelow(dir string) (sum float64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return ignoreGone(err)
		}
		info, err := d.Info()
		if err != nil {
			return ignoreGone(err)
		}
		sum += float64(info.Size())
		return nil
	})
	return sum, err
}

// ignoreGone drops the error of a file that the store has removed meanwhile.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
