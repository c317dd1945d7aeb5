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
	"hindsight/cmd/internal/child"
	"hindsight/cmd/research/load"
	"hindsight/cmd/research/scrape"
)

// Case is a kind of model that is measured.
type Case struct {
	Name string `csv:"case"`
	Spec string
	// Models is the number of models.
	Models int `csv:"models"`
	// Bulk is the number of observations that are learned in batches at the end, which fill
	// the memory tables of the store. Without them the memory of the process is not that of
	// the long run, and is not compared.
	Bulk int `csv:"bulk"`
	// Calls is the number of measured calls of a kind; 0 is as many as take some seconds.
	Calls int
	// Alone says that calls to an idle server are measured too.
	Alone bool
	// Unseen cases were not looked at when the constants of package sizing were first chosen. Those of a call
	// were chosen again with all cases in view.
	Unseen bool `csv:"unseen"`
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
		{Name: "auto, d 10, 40 models", Spec: `{"dimension": 10}`, Models: 40, Bulk: 80000},
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

// Row is what was measured of a case. CPU is in seconds of one processor a call. A tag names
// the column of a field in the table.
type Row struct {
	Case

	// Validated is the answer of ValidateSpec, as JSON.
	Validated string `csv:"validated"`
	// Measured is the number of measured calls of a kind.
	Measured float64 `csv:"calls"`
	// PredictCPU and ObserveCPU are those of 16 callers, EchoPredictCPU and EchoObserveCPU
	// those of the bare gRPC server. AloneCPU and EchoAloneCPU are those at 100 calls a second.
	PredictCPU     float64 `csv:"predict_cpu_seconds"`
	ObserveCPU     float64 `csv:"observe_cpu_seconds"`
	EchoPredictCPU float64 `csv:"echo_predict_cpu_seconds"`
	EchoObserveCPU float64 `csv:"echo_observe_cpu_seconds"`
	AloneCPU       float64 `csv:"alone_cpu_seconds"`
	EchoAloneCPU   float64 `csv:"echo_alone_cpu_seconds"`
	// StateBytes is what a model reports of its state, ModelsBytes what the server reports of
	// all models.
	StateBytes  float64 `csv:"state_bytes"`
	ModelsBytes float64 `csv:"models_bytes"`
	// EmptyBytes is the resident memory without models, ResidentBytes that at the end.
	EmptyBytes    float64 `csv:"empty_resident_bytes"`
	ResidentBytes float64 `csv:"resident_bytes"`
	// LogBytes is the database log at the end, with IDs remembered and Logged observations.
	// PendingBytes is the database pending after Pending predictions.
	LogBytes     float64 `csv:"log_bytes"`
	Logged       float64 `csv:"logged_observations"`
	IDs          float64 `csv:"ids"`
	PendingBytes float64 `csv:"pending_bytes"`
	Pending      float64 `csv:"waiting_predictions"`
	// SnapshotBytes is the mean size of a snapshot.
	SnapshotBytes float64 `csv:"snapshot_bytes"`
	// StartSeconds is the time until a killed server serves again. RecoveryCPU is the
	// processor time until all its models are loaded, with Replayed observations after their
	// snapshots. Other processes of the machine do not change RecoveryCPU.
	StartSeconds float64 `csv:"start_seconds"`
	RecoveryCPU  float64 `csv:"recovery_cpu_seconds"`
	Replayed     float64 `csv:"replayed_observations"`
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
	validated, err := s.client.Validate(ctx, spec)
	if err != nil {
		return err
	}
	text, err := protojson.Marshal(validated)
	if err != nil {
		return fmt.Errorf("write the spec: %w", err)
	}
	row.Validated = string(text)
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
	rows := load.Rows(validated.GetSpec(), drawn, 1)
	row.Measured = float64(row.Calls)
	if row.Calls == 0 {
		row.Measured = math.Round(min(mostCalls, max(leastCalls, flopsOfCall/float64(validated.GetObserveFlops()))))
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
	beside, err := client.Dial(b.Echo, client.WithRetry(client.Retry{}), client.WithTimeout(longestWait))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, beside.Close()) }()
	own := load.New(load.Target{Clients: []*client.Client{s.client}, Models: models, Rows: rows})
	echo := load.New(load.Target{Clients: []*client.Client{beside}, Models: models, Rows: rows})
	warm := load.Options{Mix: load.Mix{Observe: 1}, Callers: callers, Calls: max(warmup, 4*int64(len(models)))}
	if row.Measured < mostCalls {
		warm.Calls = int64(row.Measured) / 2
	}
	if _, err := own.Run(ctx, warm); err != nil {
		return err
	}
	measure := func(mix load.Mix, rate float64, server, bare *float64) error {
		o := load.Options{Mix: mix, Rate: rate, Callers: callers, Calls: int64(row.Measured)}
		if rate > 0 {
			o.Calls, o.Duration = 0, aloneTime
		}
		*server, err = perCall(ctx, own, o, "http://"+s.server.HTTP+"/metrics")
		if err == nil {
			*bare, err = perCall(ctx, echo, o, b.EchoMetrics)
		}
		return err
	}
	if err := measure(load.Mix{Predict: 1}, 0, &row.PredictCPU, &row.EchoPredictCPU); err != nil {
		return err
	}
	row.Pending = row.Measured
	if row.PendingBytes, err = bytesBelow(filepath.Join(dir, "pending")); err != nil {
		return err
	}
	if err := measure(load.Mix{Observe: 1}, 0, &row.ObserveCPU, &row.EchoObserveCPU); err != nil || !row.Alone {
		return err
	}
	return measure(load.Mix{Predict: 1, Observe: 1}, aloneRate, &row.AloneCPU, &row.EchoAloneCPU)
}

// perCall returns the processor time of a call of a load.
func perCall(ctx context.Context, l *load.Load, o load.Options, metrics string) (float64, error) {
	r, err := l.Measure(ctx, o, metrics)
	if err != nil {
		return 0, err
	}
	if r.Calls == 0 || len(r.Errors) > 0 {
		return 0, fmt.Errorf("%d calls were answered, errors: %v", r.Calls, r.Errors)
	}
	return *r.CPUSecondsPerCall, nil
}

// bulk fills the store with rounds, in batches.
func (b *Bench) bulk(ctx context.Context, s *host, models []string, rows []load.Row, row *Row) error {
	for sent := 0; sent < row.Bulk; sent += bulkRows {
		model := s.client.Model(models[sent/bulkRows%len(models)])
		batch, observations := new(hindsightv1.PredictBatchRequest), make([]*hindsightv1.ObserveRequest, bulkRows)
		for i := range bulkRows {
			if r := &rows[(sent+i)%len(rows)]; r.Inputs != nil {
				batch.Inputs = append(batch.Inputs, r.Inputs)
			} else {
				batch.Rows = append(batch.Rows, &hindsightv1.Row{Features: r.Features})
			}
		}
		predictions, err := model.PredictBatch(ctx, batch)
		if err != nil {
			return err
		}
		for i, p := range predictions {
			observations[i] = rows[(sent+i)%len(rows)].Observation(p.GetPredictionId())
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
