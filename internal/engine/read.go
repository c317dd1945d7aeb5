package engine

import (
	"context"

	"hindsight/internal/engine/figures"
	"hindsight/internal/engine/hosted"
	"hindsight/internal/engine/watch"
	"hindsight/internal/model/input"
)

// GetModel describes a model. It loads a model that has learned named inputs or classes.
func (e *Engine) GetModel(ctx context.Context, id string) (Info, error) {
	m, err := e.find(ctx, id)
	if err != nil {
		return Info{}, err
	}
	info, err := figures.DescribeLearned(ctx, m.Model)
	info.Aliases = e.aliases.Of(m.Ref())
	return info, err
}

// ListModels returns a page of models: see figures.Reporter.List.
func (e *Engine) ListModels(ctx context.Context, o ListOptions) (Page, error) {
	return e.reporter.List(ctx, &e.table, o)
}

// ModelStats returns the statistics of a model. A report is solved on a copy of the state, so that it holds up neither
// Predict nor Observe, and serves until the model learns again.
func (e *Engine) ModelStats(ctx context.Context, id string, o StatsOptions) (Stats, error) {
	m, err := e.find(ctx, id)
	if err != nil {
		return Stats{}, err
	}
	return m.reader.Stats(ctx, o)
}

// ModelHistory returns the history of a model. It loads the model.
func (e *Engine) ModelHistory(ctx context.Context, id string) (History, error) {
	m, err := e.find(ctx, id)
	if err != nil {
		return History{}, err
	}
	return figures.HistoryOf(ctx, m.Model)
}

// Watcher reports what a model learns, and how it does.
type Watcher struct {
	*watch.Watcher
	model *hostedModel
}

// Statistics returns the statistics of the model without a report: see figures.Reader.CheapStats.
func (w *Watcher) Statistics(ctx context.Context) (Stats, error) {
	return w.model.reader.CheapStats(ctx)
}

// Levels are the coverages of the model's intervals.
func (w *Watcher) Levels() []float64 { return w.model.Spec().Coverage }

// Schema is what the named inputs are read by, nil of a model without them.
func (w *Watcher) Schema() *input.Schema { return w.model.Schema() }

// Watch begins to watch a model. The watcher holds the newest room observations: the model never waits for it.
func (e *Engine) Watch(ctx context.Context, id string, room int) (*Watcher, error) {
	m, err := e.find(ctx, id)
	if err != nil {
		return nil, err
	}
	w, err := e.watchers.Watch(ctx, m.Model, &m.watchers, room)
	if err != nil {
		return nil, err
	}
	return &Watcher{w, m}, nil
}

// Each calls f with the live statistics of every model that was in memory since the start, or that is broken.
// The statistics of a model that has left memory are as they were then. The pointer is valid during the
// call. Each costs O(r) a model.
func (e *Engine) Each(f func(*Live)) {
	var live Live
	for _, m := range e.table.live() {
		if m.reader.Live(&live) {
			live.Behind = e.behind(m)
			f(&live)
		}
	}
}

// Totals are figures over all models.
type Totals struct {
	*hosted.Counters
	*figures.ReportCounters
	*StartCounters
	Models        int
	ResidentBytes int64
	Pending       int64
}

// Totals counts over all models. It costs O(models).
func (e *Engine) Totals() Totals {
	t := Totals{
		Counters: &e.env.Counters, ReportCounters: &e.reporter.Counters, StartCounters: &e.start,
		ResidentBytes: e.env.Memory.Resident(),
	}
	models := e.table.live()
	t.Models = len(models)
	for _, m := range models {
		t.Pending += m.Pending()
	}
	return t
}
