package performance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/encoding/protojson"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
	"hindsight/cmd/internal/child"
	"hindsight/cmd/research/load"
)

// What the calls are.
const (
	callers   = 64
	batchRows = 128
	batches   = 4               // callers of batches
	history   = 16              // batches that are learned before
	labelTTL  = 2 * time.Second // Predictions without a label do not pile up.
	taylor    = `{"dimension": 10, "pkawv_taylor": {"degree": 2}}`
	auto      = `{"dimension": 10, "auto": {}}`
	classes   = `{"dimension": 10, "auto": {}, "classes": {"max_classes": 4}}`
	keys      = `{"auto": {}, "inputs": [
		{"name": "user", "categorical": {"key": true}}, {"name": "store", "categorical": {"key": true}},
		{"name": "a", "numeric": {}}, {"name": "b", "numeric": {}}, {"name": "c", "numeric": {}}, {"name": "d", "numeric": {}},
		{"name": "e", "numeric": {}}, {"name": "f", "numeric": {}}, {"name": "g", "numeric": {}}, {"name": "h", "numeric": {}}]}`
)

// Bench compares a server with a bare gRPC server, and what it is made of with the machine.
type Bench struct {
	Server, Echo *child.Server
	// Rounds is the number of rounds, and Slice how long calls of one kind are made in one of them.
	Rounds int
	Slice  time.Duration
	// Say reports progress.
	Say func(format string, args ...any)
}

// Measure measures everything.
func (b *Bench) Measure(ctx context.Context) (tables []Table, err error) {
	server, err := dial(b.Server)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	echo, err := dial(b.Echo)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, echo.Close()) }()
	steps := []func() (Table, error){
		func() (Table, error) { return b.calls(ctx, server, echo, "pkawv_taylor of degree 2", taylor) },
		func() (Table, error) { return b.calls(ctx, server, echo, "auto", auto) },
		func() (Table, error) { return b.calls(ctx, server, echo, "auto, of four classes", classes) },
		func() (Table, error) {
			return b.calls(ctx, server, echo, "auto, of two keys beside eight numbers", keys)
		},
		func() (Table, error) { return b.commits(ctx, server) },
		func() (Table, error) { return b.models(ctx, server, echo) },
		b.kernels,
	}
	for _, s := range sweeps() {
		steps = append(steps, func() (Table, error) { return b.grow(s) })
	}
	for n, step := range steps {
		t, err := step()
		if err != nil {
			return nil, err
		}
		b.Say("performance: %s, %d of %d", t.Title, n+1, len(steps))
		tables = append(tables, t)
	}
	return tables, nil
}

// side is a server with its models, and the rows of their calls.
type side struct {
	process *child.Server
	client  *client.Client
	ids     []string
	rows    []load.Row
}

// stream has rows of a spec, and calls of batches of them.
type stream struct {
	spec           *hindsightv1.ModelSpec
	rows           []load.Row
	predict, learn func(context.Context, *client.Model, *load.Row) error
}

func newStream(text string) (s stream, err error) {
	s.spec = &hindsightv1.ModelSpec{}
	err = protojson.Unmarshal([]byte(text), s.spec)
	s.rows = load.Rows(s.spec, rowsDrawn, 1)
	s.predict, s.learn = inBatches(s.rows)
	return s, err
}

func dial(s *child.Server) (*client.Client, error) {
	return client.Dial(s.GRPC, client.WithRetry(client.Retry{}))
}

// figures are what calls of one kind cost: seconds of a processor a call, seconds of waiting, and calls
// a second.
type figures [4]float64

const (
	processor = iota
	p50
	p99
	rate
)

// way makes calls of one kind for a slice of time.
func (b *Bench) way(ctx context.Context, s side, o load.Options) func() (figures, error) {
	o.Callers, o.Duration, o.Seed = cmp.Or(o.Callers, callers), b.Slice, 1
	t := load.Target{Clients: []*client.Client{s.client}, Models: s.ids, Rows: s.rows, LabelTTL: labelTTL}
	return func() (f figures, err error) {
		l := load.New(t)
		r, err := l.Measure(ctx, o, "http://"+s.process.HTTP+"/metrics")
		switch {
		case err != nil:
			return f, err
		case len(r.Errors) > 0 || r.Calls == 0:
			return f, fmt.Errorf("%d calls of %s were answered, others failed: %v", r.Calls, s.process.GRPC, r.Errors)
		}
		f[processor], f[rate] = *r.CPUSecondsPerCall, r.CallsPerSecond
		for _, kind := range r.Operations {
			f[p50], f[p99] = max(f[p50], kind.Latency.P50), max(f[p99], kind.Latency.P99)
		}
		return f, nil
	}
}

// create creates models that have learned so many batches of a stream.
func create(ctx context.Context, c *client.Client, prefix string, of stream, count, learned int) (ids []string, err error) {
	var group errgroup.Group
	group.SetLimit(callers)
	for n := range count {
		m := c.Model(fmt.Sprint(prefix, n))
		ids = append(ids, m.ID())
		group.Go(func() error {
			_, err := m.Create(ctx, of.spec)
			for n := 0; n < learned && err == nil; n++ {
				err = of.learn(ctx, m, nil)
			}
			return err
		})
	}
	return ids, group.Wait()
}

// observe is an Observe of an observation with its features.
func observe() load.Options { return load.Options{Mix: load.Mix{Observe: 1}} }

// unremembered is a Predict that the server does not remember.
func unremembered(ctx context.Context, m *client.Model, row *load.Row) error {
	_, err := m.Predict(ctx, &hindsightv1.PredictRequest{Features: row.Features, Inputs: row.Inputs, Remember: new(bool)})
	return err
}

// inBatches makes calls of so many rows in turn.
func inBatches(rows []load.Row) (predict, learn func(context.Context, *client.Model, *load.Row) error) {
	var inputs []*hindsightv1.PredictBatchRequest
	var observations [][]*hindsightv1.ObserveRequest
	for chunk := range slices.Chunk(rows, batchRows) {
		x := &hindsightv1.PredictBatchRequest{Remember: new(bool)}
		var o []*hindsightv1.ObserveRequest
		for _, row := range chunk {
			o = append(o, row.Observation(""))
			if row.Inputs != nil {
				x.Inputs = append(x.Inputs, row.Inputs)
			} else {
				x.Rows = append(x.Rows, &hindsightv1.Row{Features: row.Features})
			}
		}
		inputs, observations = append(inputs, x), append(observations, o)
	}
	var next atomic.Int64
	predict = func(ctx context.Context, m *client.Model, _ *load.Row) error {
		_, err := m.PredictBatch(ctx, inputs[int(next.Add(1))%len(inputs)])
		return err
	}
	learn = func(ctx context.Context, m *client.Model, _ *load.Row) error {
		_, err := m.ObserveBatch(ctx, observations[int(next.Add(1))%len(observations)])
		return err
	}
	return predict, learn
}

// calls compares every kind of call with the bare gRPC server.
func (b *Bench) calls(ctx context.Context, c, bare *client.Client, name, spec string) (Table, error) {
	t := Table{
		Title: "Calls of " + name,
		Text: fmt.Sprintf("Each figure is that of a call beside the same call of a bare gRPC server that answers at once, for a model of %d observations "+
			"and %d callers of one connection; a batch has %d rows and %d callers, and a caller of JSON a connection.", history*batchRows, callers, batchRows, batches),
		Columns: []string{"call", "processor", "p50", "p99", "calls a second"},
	}
	rows, err := newStream(spec)
	if err != nil {
		return t, err
	}
	ids, err := create(ctx, c, "calls-"+uuid.NewString(), rows, 1, history)
	if err != nil {
		return t, err
	}
	server, echo := side{b.Server, c, ids, rows.rows}, side{b.Echo, bare, ids, rows.rows}
	web := newWeb(b.Server.HTTP)
	defer web.close()
	remember, overJSON := load.Options{Mix: load.Mix{Predict: 1}}, load.Options{Call: web.predict}
	pb, ob := load.Options{Call: rows.predict, Callers: batches}, load.Options{Call: rows.learn, Callers: batches}
	for _, k := range []struct {
		name          string
		made, against load.Options
		beside        side
	}{
		{"Predict, remembered", remember, remember, echo},
		{"Predict, not remembered", load.Options{Call: unremembered}, load.Options{Call: unremembered}, echo},
		{"Observe, durable", observe(), observe(), echo},
		{"PredictBatch", pb, pb, echo},
		{"ObserveBatch", ob, ob, echo},
		{"JSON Predict beside gRPC of the bare server", overJSON, remember, echo},
		{"JSON Predict beside gRPC of this server", overJSON, remember, server},
	} {
		f, err := Alternate(b.Rounds, b.way(ctx, server, k.made), b.way(ctx, k.beside, k.against))
		if err != nil {
			return t, fmt.Errorf("%s: %w", k.name, err)
		}
		row := Row{Name: k.name}
		for of := range len(figures{}) {
			row.Ratios = append(row.Ratios, Paired(each(f[0], of), each(f[1], of)))
		}
		t.Rows = append(t.Rows, row)
	}
	return t, nil
}

// each is one figure of all rounds.
func each(all []figures, of int) []float64 {
	out := make([]float64, len(all))
	for n, f := range all {
		out[n] = f[of]
	}
	return out
}

// models compares calls of one and of many models.
func (b *Bench) models(ctx context.Context, c, bare *client.Client) (Table, error) {
	rows, err := newStream(taylor)
	if err != nil {
		return Table{}, err
	}
	ids, err := create(ctx, c, "models-", rows, 1024, 1)
	if err != nil {
		return Table{}, err
	}
	x, costs := []float64{1, 32, 1024}, make([][]Ratio, 2)
	for _, count := range x {
		server, echo := side{b.Server, c, ids[:int(count)], rows.rows}, side{b.Echo, bare, ids[:1], rows.rows}
		for n, o := range []load.Options{{Call: unremembered}, observe()} {
			f, err := Alternate(b.Rounds, b.way(ctx, server, o), b.way(ctx, echo, o))
			if err != nil {
				return Table{}, err
			}
			costs[n] = append(costs[n], Paired(each(f[0], processor), each(f[1], processor)))
		}
	}
	return growth("Cost against models", fmt.Sprintf("Each figure is the processor time of a call of a random one of so many models, `pkawv_taylor` of degree 2, beside the same call of the bare gRPC server, for %d callers.", callers),
		[]string{"models", "Predict, not remembered", "Observe, durable"}, 0, x, costs...), nil
}
