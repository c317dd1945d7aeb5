package engine_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"hindsight/internal/engine"
	"hindsight/internal/engine/account"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model"
)

var (
	metaSeed       = flag.Uint64("seed", 0, "the one seed of the metamorphic test; 0 is a list")
	metaOperations = flag.Int("operations", 0, "operations a seed of the metamorphic test")
)

// Random operations on an engine, and the same on a plain model of it in
// memory, answer the same: through retries, restarts, crashes, restores, disk
// faults and hibernation.
func TestMetamorphic(t *testing.T) {
	seeds, operations := []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 400
	if !isLong() {
		seeds = seeds[:5]
	}
	if testing.Short() {
		seeds, operations = seeds[:4], 250
	}
	if *metaSeed != 0 {
		seeds = []uint64{*metaSeed}
	}
	if *metaOperations > 0 {
		operations = *metaOperations
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			m := newMeta(t, seed)
			for n := range operations {
				m.step(n)
				if n%20 == 19 {
					m.compareAll()
				}
			}
			m.compareAll()
			m.host.stop(t)
		})
	}
}

// meta is an engine beside its plain model.
type meta struct {
	t       *testing.T
	rng     *rand.Rand
	clock   *clock
	mem     *vfs.MemFS
	failing *atomic.Bool
	// appends is what happens to the next append.
	appends *fate
	watch   *watch
	host    *host
	models  map[string]*plainModel
	// deleted are those that can be brought back.
	deleted map[string]*plainModel
	// followers follow one of the models, and alias is "live", nil until it is set.
	followers map[string]*plainFollower
	alias     *plainAlias
	created   int
	trace     []string
}

// plainModel is what a model has acknowledged.
type plainModel struct {
	spec model.Spec
	// metadata are those of the model.
	metadata engine.Metadata
	learned  []plainRow
	ids      map[string]int // Places in learned.
	// before are the ids that an imported model brought along.
	before  map[string]plainRow
	waiting map[string]plainWaiting
	learner model.Learner
	// base is the sequence that it began with, when it was imported; whole is
	// the state that it began with then.
	base  int
	whole []byte
	// history is what was learned from the first sequence on.
	history []plainRow
}

type plainRow struct {
	observation engine.Observation
	answer      engine.Answer
	// waited is the prediction that it answers, nil if there is none.
	waited *plainWaiting
	// told are the losses of what the client was told and of the baselines then.
	told account.Figures
	// at is when it was learned.
	at int64
}

type plainWaiting struct {
	features []float64
	said     engine.Prediction
	expiry   time.Time
	// means and last are the baselines of the moment.
	means, last []float64
	// maybe says that a crash may have lost it.
	maybe bool
}

func newMeta(t *testing.T, seed uint64) *meta {
	t.Helper()
	m := &meta{t: t, rng: rand.New(rand.NewPCG(seed, 1)), clock: newClock(), models: map[string]*plainModel{}, deleted: map[string]*plainModel{}, followers: map[string]*plainFollower{}}
	m.open(newFS())
	return m
}

// open starts a process on a disk.
func (m *meta) open(fs *vfs.MemFS) {
	m.mem, m.failing, m.appends = fs, &atomic.Bool{}, &fate{}
	m.watch = &watch{}
	m.clock.advance(time.Second) // No start takes less, and a model is told by when it was created.
	failing, appends, watch := m.failing, m.appends, m.watch
	d := wrapped{files{errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
			return nil
		}
		if failing.Load() {
			return syscall.ENOSPC
		}
		watch.write()
		return nil
	}))}, func(s storage.Store) storage.Store { return &faulty{Store: s, appends: appends, failing: failing} }}
	m.host = start(m.t, d, m.clock, func(o *engine.Options) {
		if isLong() {
			o.Sweep = time.Millisecond // Beside the operations, not between them alone.
		}
		after(5 + m.rng.IntN(40))(o)
		o.SnapshotsKept = 1 + m.rng.IntN(3)
		o.IDWindowMin, o.PendingLimit = 1_000_000, 100_000
		o.DeletedKept = 1000 * time.Hour
		o.PendingTotalLimit, o.ModelMemory = 100_000, int64(160_000+m.rng.IntN(200_000))
	})
}

func (m *meta) fatalf(format string, args ...any) {
	m.t.Helper()
	m.t.Fatalf("after\n  %s\n%s", strings.Join(m.trace[max(0, len(m.trace)-30):], "\n  "), fmt.Sprintf(format, args...))
}

func (m *meta) step(n int) {
	operations := []struct {
		name   string
		weight int
		do     func() string
	}{
		{"create", 3, m.create},
		{"delete", 1, m.delete},
		{"describe", 3, m.describe},
		{"delete for a time", 2, m.hide},
		{"bring back", 3, m.bringBack},
		{"cut describe", 1, m.cutDescribe},
		{"cut bring back", 1, m.cutBringBack},
		{"predict", 20, m.predict},
		{"observe", 25, m.observe},
		{"answer", 20, m.answer},
		{"retry", 12, m.retry},
		{"conflict", 4, m.conflict},
		{"invalid", 4, m.invalid},
		{"unknown", 2, m.unknown},
		{"burst", 3, m.burst},
		{"snapshot", 4, m.snapshot},
		{"restore", 3, m.restore},
		{"move", 1, m.move},
		{"restart", 2, m.restart},
		{"crash", 3, m.crash},
		{"fault", 2, m.fault},
		{"unknown append", 3, m.unknownAppend},
		{"give up", 3, m.giveUp},
		{"repeated ids", 3, m.repeatedIDs},
		{"cut restore", 1, m.cutRestore},
		{"cut delete", 1, m.cutDelete},
		{"cut import", 1, m.cutImport},
		{"follow", 4, m.follow},
		{"delete a follower, or bring it back", 6, m.hideFollower},
		{"set the alias", 3, m.setLive},
		{"observe by the alias", 12, m.observeLive},
		{"replace the alias's previous model", 2, m.replacePrevious},
		{"time", 4, m.pass},
	}
	total := 0
	for _, o := range operations {
		total += o.weight
	}
	at := m.rng.IntN(total)
	m.host.Sweep()
	for _, o := range operations {
		if at -= o.weight; at < 0 {
			m.trace = append(m.trace, fmt.Sprintf("%d %s", n, o.name))
			m.trace[len(m.trace)-1] += " " + o.do()
			return
		}
	}
}

// any is a model, nil while there is none.
func (m *meta) any() (string, *plainModel) {
	var names []string
	for n := range m.created {
		if name := fmt.Sprint("m", n); m.models[name] != nil {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "", nil
	}
	name := names[m.rng.IntN(len(names))]
	return name, m.models[name]
}

func (m *meta) create() string {
	if len(m.models) > 5 {
		return "no more"
	}
	name := m.freeName()
	spec := m.newModel(name)
	return name + " " + spec.Name()
}

// newModel creates a model of a random spec.
func (m *meta) newModel(name string) model.Spec {
	few := ptr(2)
	specs := []model.Spec{
		{Dimension: 2, Auto: &model.Auto{Frequencies: few, MaxMicroseconds: ptr(40.0)}},
		{Dimension: 2, Seed: 5, Auto: &model.Auto{Frequencies: few, Lags: ptr(1), MaxMicroseconds: ptr(40.0)}, Coverage: []float64{0.8, 0.99}},
		{Dimension: 2, Seed: 6, Auto: &model.Auto{Frequencies: few, Lags: ptr(0), MaxMicroseconds: ptr(1.0)}},
		{Dimension: 2, Outputs: 2, Auto: &model.Auto{Frequencies: few, MaxMicroseconds: ptr(5.0)}},
		linear(2), taylor(2, 2),
		{Dimension: 2, Seed: 1, Scaling: model.Unscaled(), PKAWVNystrom: &model.PKAWVNystrom{Mu: ptr(0.5), History: model.HistoryFull, MaxDictionary: ptr(20)}},
		{Dimension: 2, Outputs: 2, Scaling: model.Unscaled(), LinearAWV: &model.LinearAWV{Forgetting: ptr(0.9)}, Coverage: []float64{0.9}},
		{Dimension: 2, Seed: 3, Scaling: model.Unscaled(), AdaRaker: &model.AdaRaker{Raker: model.Raker{FirstOrder: model.FirstOrder{Frequencies: few}}}},
		{Dimension: 2, Scaling: &model.Scaling{Warmup: &model.WarmupScaling{Observations: 7}}, LinearAWV: &model.LinearAWV{}},
		{Dimension: 2, Outputs: 2, FourierAWV: &model.FourierAWV{Frequencies: few}}, // Behind a running scaling.
	}
	spec := specs[m.rng.IntN(len(specs))]
	m.host.create(m.t, name, spec)
	m.host.create(m.t, name, spec) // There already.
	if _, err := m.host.CreateModel(context.Background(), name, linear(9)); !errors.Is(err, engine.ErrModelExists) {
		m.fatalf("created twice: %v", err)
	}
	info, err := m.host.GetModel(context.Background(), name)
	if err != nil {
		m.fatalf("%v", err)
	}
	p := &plainModel{spec: info.Spec, ids: map[string]int{}, before: map[string]plainRow{}, waiting: map[string]plainWaiting{}}
	m.models[name] = p
	m.relearn(p)
	return spec
}

// freeName is the name of a model that was removed, or a new one.
func (m *meta) freeName() string {
	for n := range m.created {
		name := fmt.Sprint("m", n)
		if m.models[name] == nil && m.deleted[name] == nil && m.rng.IntN(2) == 0 {
			return name
		}
	}
	m.created++
	return fmt.Sprint("m", m.created-1)
}

func (m *meta) delete() string {
	name, p := m.any()
	if name == "" || m.rng.IntN(3) > 0 || m.aliased(name) {
		return "spared"
	}
	m.release(p)
	m.purge(name)
	delete(m.models, name)
	return name
}

// purge removes a model for good.
func (m *meta) purge(name string) {
	if _, err := m.host.Engine.DeleteModel(context.Background(), name, engine.DeleteOptions{Purge: true}); err != nil {
		m.fatalf("remove %s: %v", name, err)
	}
}

func (m *meta) input() []float64 { return []float64{m.rng.NormFloat64(), m.rng.NormFloat64()} }

func (m *meta) observation(p *plainModel, id string) engine.Observation {
	o := engine.Observation{Features: m.input(), ObservationID: id, Weight: 1}
	for range p.spec.Outputs {
		o.Labels = append(o.Labels, m.rng.NormFloat64())
	}
	if m.rng.IntN(4) == 0 {
		o.Weight = 0.5
	}
	return o
}

func (m *meta) newID(kind string) string { return fmt.Sprintf("%s-%d", kind, m.rng.Uint64()) }

func (m *meta) predict() string {
	name, p := m.any()
	if p == nil {
		return ""
	}
	x, ttl := m.input(), time.Duration(1+m.rng.IntN(90))*time.Minute
	o := engine.PredictOptions{Remember: m.rng.IntN(4) > 0, TTL: ttl}
	if m.rng.IntN(2) == 0 {
		o.IDs = []string{m.newID("p")}
	}
	now := m.clock.now()
	said, err := m.host.Predict(context.Background(), name, vectors(x), o)
	if err != nil {
		m.fatalf("predict %s: %v", name, err)
	}
	var want model.Prediction
	if err := p.learner.Predict(&want, x); err != nil {
		m.fatalf("%v", err)
	}
	if !reflect.DeepEqual(said[0].Prediction, want) || said[0].Sequence != uint64(p.sequence()) {
		m.fatalf("%s predicts %+v, want %+v at %d", name, said[0], want, p.sequence())
	}
	if o.Remember {
		p.wait(x, said[0], now.Add(ttl))
	}
	return name
}

func (p *plainModel) sequence() int { return p.base + len(p.learned) }

// observe sends one to four observations by their features, with an id or
// without, some of them twice in one call.
func (m *meta) observe() string {
	name, p := m.any()
	if p == nil {
		return ""
	}
	var call []engine.Observation
	var want []engine.Answer
	for range 1 + m.rng.IntN(4) {
		id := ""
		if m.rng.IntN(3) > 0 {
			id = m.newID("o")
		}
		o := m.observation(p, id)
		call, want = append(call, o), append(want, m.learnedAs(p, id, o, nil))
		if id != "" && m.rng.IntN(4) == 0 {
			again := want[len(want)-1]
			again.Duplicate = true
			call, want = append(call, o), append(want, again)
		}
	}
	got, err := m.host.Observe(context.Background(), name, call)
	if err != nil {
		m.fatalf("observe %s: %v", name, err)
	}
	for n := range want {
		m.same(got[n], want[n], name)
	}
	return fmt.Sprintf("%s, %d", name, len(call))
}

// answer gives the label of a prediction that waits, or has expired.
func (m *meta) answer() string {
	name, p := m.any()
	if p == nil || len(p.waiting) == 0 {
		return "nothing"
	}
	var ids []string
	for id := range p.waiting {
		ids = append(ids, id)
	}
	// The order of a map is not the seed's.
	id := ids[0]
	for _, other := range ids {
		if other < id {
			id = other
		}
	}
	w := p.waiting[id]
	delete(p.waiting, id)
	o := m.observation(p, "")
	expired := !w.expiry.After(m.clock.now())
	byFeatures := m.rng.IntN(4) == 0
	if byFeatures {
		o.Features, o.ObservationID = w.features, id
	} else {
		o.Features, o.PredictionID = nil, id
	}
	got, err := m.host.Observe(context.Background(), name, []engine.Observation{o})
	o.Features = w.features
	switch {
	case errors.Is(err, engine.ErrPredictionNotFound) && !byFeatures && (expired || w.maybe):
		return name + " not there"
	case err != nil:
		m.fatalf("answer %s of %s, expired %v, maybe %v: %v", id, name, expired, w.maybe, err)
	case expired && !byFeatures:
		m.fatalf("%s of %s was answered after it had expired", id, name)
	}
	served := &w
	if expired || !got[0].Served && w.maybe {
		served = nil
	}
	m.same(got[0], m.learnedAs(p, id, o, served), name)
	return name
}

func (m *meta) known(p *plainModel) (string, *plainRow) {
	if len(p.before) > 0 && m.rng.IntN(3) == 0 {
		id := slices.Min(slices.Collect(maps.Keys(p.before))) // The order of a map is not the seed's.
		r := p.before[id]
		return id, &r
	}
	if len(p.learned) == 0 {
		return "", nil
	}
	from := m.rng.IntN(len(p.learned))
	for n := range p.learned {
		place := (from + n) % len(p.learned)
		for _, id := range []string{p.learned[place].observation.ObservationID, p.learned[place].observation.PredictionID} {
			if id != "" && p.ids[id] == place {
				return id, &p.learned[place]
			}
		}
	}
	return "", nil
}

// retry sends again what was learned before: by its features, or as it was.
func (m *meta) retry() string {
	name, p := m.any()
	if p == nil {
		return ""
	}
	id, row := m.known(p)
	if row == nil {
		return "nothing"
	}
	o := row.observation
	o.ObservationID, o.PredictionID = id, ""
	if m.rng.IntN(2) == 0 {
		o.ObservationID, o.PredictionID, o.Features = "", id, nil
	}
	got, err := m.host.Observe(context.Background(), name, []engine.Observation{o})
	if err != nil {
		m.fatalf("retry %s of %s: %v", id, name, err)
	}
	want := row.answer
	want.Duplicate = true
	m.same(got[0], want, "retry "+id)
	return name
}

func (m *meta) conflict() string {
	name, p := m.any()
	if p == nil {
		return ""
	}
	id, row := m.known(p)
	if row == nil {
		return "nothing"
	}
	o := row.observation
	o.ObservationID, o.PredictionID = id, ""
	o.Labels = append([]float64{o.Labels[0] + 1}, o.Labels[1:]...)
	fresh := m.observation(p, m.newID("o"))
	// All of the call or nothing.
	if _, err := m.host.Observe(context.Background(), name, []engine.Observation{fresh, o}); !errors.Is(err, engine.ErrConflict) {
		m.fatalf("another label for %s of %s: %v", id, name, err)
	}
	return name
}

func (m *meta) invalid() string {
	name, p := m.any()
	if p == nil {
		return ""
	}
	o := m.observation(p, m.newID("o"))
	bad := o
	bad.Features = bad.Features[:1]
	if _, err := m.host.Observe(context.Background(), name, []engine.Observation{o, bad}); !errors.Is(err, model.ErrDimensionMismatch) {
		m.fatalf("a short input of %s: %v", name, err)
	}
	return name
}

func (m *meta) unknown() string {
	name, p := m.any()
	if p == nil {
		return ""
	}
	o := m.observation(p, "")
	o.Features, o.PredictionID = nil, m.newID("unknown")
	if _, err := m.host.Observe(context.Background(), name, []engine.Observation{o}); !errors.Is(err, engine.ErrPredictionNotFound) {
		m.fatalf("the label of an unknown prediction of %s: %v", name, err)
	}
	return name
}

// burst sends one id many times at once: it is learned once, and everybody
// gets the same answer.
func (m *meta) burst() string {
	name, p := m.any()
	if p == nil {
		return ""
	}
	id := m.newID("b")
	o := m.observation(p, id)
	want := m.learnedAs(p, id, o, nil)
	var group sync.WaitGroup
	var answers [16]engine.Answer
	var failures [16]error
	for n := range answers {
		group.Go(func() {
			got, err := m.host.Observe(context.Background(), name, []engine.Observation{o})
			if failures[n] = err; err == nil {
				answers[n] = got[0]
			}
		})
	}
	group.Wait()
	first := 0
	for n, a := range answers {
		if failures[n] != nil {
			m.fatalf("burst: %v", failures[n])
		}
		if !a.Duplicate {
			first++
		}
		a.Duplicate = false
		m.same(a, want, "burst")
	}
	if first != 1 {
		m.fatalf("%d of 16 were the first", first)
	}
	return name
}
