package engine

import (
	"context"
	"math"
	"time"

	"hindsight/internal/engine/account"
	"hindsight/internal/engine/account/classes"
	"hindsight/internal/engine/account/interval"
	"hindsight/internal/model"
	"hindsight/internal/model/input"
)

// Stats tells how a model is doing, all of one state. Regret, HindsightLoss and
// CertificateOK are solved where the learner does not track them.
type Stats struct {
	Info
	model.Stats
	RegretUnpenalized float64
	// EffectiveDimension is nil unless it was asked for.
	EffectiveDimension *float64
	// HindsightPath is that of Report, nil unless it was asked for. It is to be read
	// only.
	HindsightPath []float64
	// ParametricShare is that of Report.
	ParametricShare *float64
	account.Summary
	// ServedRegret is the regret of what was served, NaN when it is not known.
	ServedRegret float64
	// OutputIntervals are the statistics of the intervals of each output, an entry a
	// level.
	OutputIntervals [][]interval.Statistics
	Experts         []model.Expert
	// Weights are those of Report, FeatureNames the names of the features of named
	// inputs.
	Weights      []model.Weight
	FeatureNames []string
	// Inputs are those of a model with named inputs, ClassAccount that of a
	// classifier, nil for others.
	Inputs       []InputStatistics
	ClassAccount *ClassStatistics
	Pending      uint64
	Digest       [32]byte
	Durability   string
	Snapshot     uint64
}

// InputStatistics is what has been seen of one named input.
type InputStatistics struct {
	Name string
	input.Statistics
}

// ClassStatistics is how a classifier does.
type ClassStatistics struct {
	// Names are the classes by their numbers.
	Names []string
	classes.Summary
}

// named are the statistics of inputs with their names.
func (f *figuresOf) named(s *input.Schema) []InputStatistics {
	if len(f.inputs) == 0 {
		return nil
	}
	all := make([]InputStatistics, len(f.inputs))
	for n := range all {
		all[n] = InputStatistics{Name: s.Name(n), Statistics: f.inputs[n]}
	}
	return all
}

// classified are the statistics of a classifier, nil of another learner.
func (f *figuresOf) classified() *ClassStatistics {
	if f.classes == nil {
		return nil
	}
	return &ClassStatistics{Names: f.names, Summary: *f.classes}
}

// ModelStats tells how a model is doing. What has to be solved for is solved
// over a copy of the state, so that it holds up neither Predict nor Observe, and
// is kept until the model learns again.
func (e *Engine) ModelStats(ctx context.Context, id string, o StatsOptions) (Stats, error) {
	i, err := e.find(ctx, id)
	if err != nil {
		return Stats{}, err
	}
	r, err := i.solve(ctx, o)
	if err != nil {
		return Stats{}, err
	}
	s := i.statistics(r.sequence, &r.figuresOf, r.intervals)
	s.Regret, s.HindsightLoss, s.CertificateOK = r.report.Regret, r.report.HindsightLoss, r.report.CertificateOK
	s.RegretUnpenalized, s.ServedRegret = r.report.RegretUnpenalized, servedRegret(s.Stats, s.Summary)
	s.Experts, s.Weights, s.FeatureNames, s.Digest = r.report.Experts, r.report.Weights, r.features, r.digest
	s.ParametricShare = r.report.ParametricShare
	if o.EffectiveDimension {
		s.EffectiveDimension = &r.report.EffectiveDimension
	}
	if o.HindsightPath {
		s.HindsightPath = r.report.HindsightPath
	}
	return s, nil
}

// statistics are those of a state, without what has to be solved for.
func (i *instance) statistics(sequence uint64, f *figuresOf, intervals [][]interval.Statistics) Stats {
	s := Stats{
		Info:              i.description(),
		Stats:             f.stats,
		RegretUnpenalized: math.NaN(),
		Summary:           f.summary,
		OutputIntervals:   intervals,
		Pending:           uint64(i.waitingLabels()),
		Durability:        i.o.Durability, Snapshot: i.snapshotAt.Load(),
	}
	s.Sequence, s.ServedRegret = sequence, servedRegret(s.Stats, s.Summary)
	s.Inputs, s.ClassAccount = f.named(i.schema), f.classified()
	return s
}

// servedRegret is the regret of what was served. A learner that forgets counts the
// past less, which the account does not.
func servedRegret(s model.Stats, a account.Summary) float64 {
	if s.Discounted {
		return math.NaN()
	}
	return s.Regret + a.Excess
}

// Live is what a scrape reads of a model.
type Live struct {
	ID, Learner string
	model.Stats
	// RegretAge is how many observations were learned since the regret was
	// solved; 0 of a learner that tracks it.
	RegretAge                     uint64
	Predictions, Pending, Expired uint64
	account.Summary
	// ServedRegret is the regret of what was served, NaN when it is not known.
	ServedRegret float64
	// Inputs and ClassAccount are those of Stats.
	Inputs       []InputStatistics
	ClassAccount *ClassStatistics
	ReadOnly     bool
	// Duplicates counts the observations since the start that came again under their
	// id, Conflicts those that were refused because it stands for another one.
	Duplicates, Conflicts uint64
	// Queued observations wait for the model's turn, Pending has PendingLimit.
	Queued       int
	PendingLimit int64
	// SnapshotMade is when the newest snapshot was made, or when the server took the
	// model up if that is later. SnapshotBytes is 0 if that is not known. The log has
	// Unsnapshotted observations that it does not have, in about Replay.
	SnapshotMade  time.Time
	SnapshotBytes int64
	Unsnapshotted uint64
	Replay        time.Duration
	// Behind is how many observations of the model that it follows it has not learned,
	// -1 of a model that follows none, and where it is not known.
	Behind int64
}

// Each calls f with the live statistics of every model that was in memory since
// the start, or that cannot be recovered. Those of a model that has left memory
// are as they were then. It costs O(r) a model.
func (e *Engine) Each(f func(Live)) {
	for _, i := range e.instances() {
		if live, known := i.live(); known {
			live.Behind = e.behindOf(i)
			f(live)
		}
	}
}

// behindOf is Live.Behind. It costs O(1).
func (e *Engine) behindOf(i *instance) int64 {
	f := i.follows()
	if f == nil {
		return -1
	}
	leader, err := e.leaderOf(f)
	if err != nil {
		return -1
	}
	n, err := i.behind(f, leader)
	if err != nil {
		return -1
	}
	return int64(n)
}

// live reads the statistics of a model.
func (i *instance) live() (Live, bool) {
	figures, known, broken := i.read()
	stats := figures.stats
	live := Live{
		ID: i.id, Learner: i.name(), Stats: stats, Summary: figures.summary, ReadOnly: broken,
		Predictions: i.predictions.Load(), Expired: i.expired.Load(), Pending: uint64(i.waitingLabels()),
		Duplicates: i.duplicates.Load(), Conflicts: i.conflicts.Load(), Queued: i.box.Rows(), PendingLimit: i.pendingLimit(i.entry.Load().MaxPending),
		SnapshotMade: entryTime(i.snapshotMade.Load()), SnapshotBytes: i.snapshotBytes.Load(),
		Unsnapshotted: stats.Observations - min(i.snapshotAt.Load(), stats.Observations), Replay: time.Duration(i.replay.Load()),
	}
	told := figures.summary
	if s := i.solved.Load(); s != nil && math.IsNaN(stats.Regret) {
		// Both parts of the served regret are of one state.
		told = s.summary
		live.Regret, live.HindsightLoss = s.report.Regret, s.report.HindsightLoss
		live.CertificateOK = stats.CertificateOK && s.report.CertificateOK
		live.RegretAge = stats.Observations - min(s.stats.Observations, stats.Observations)
	}
	live.ServedRegret = servedRegret(live.Stats, told)
	live.Inputs, live.ClassAccount = figures.named(i.schema), figures.classified()
	return live, known
}

func (i *instance) read() (f figuresOf, known, broken bool) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if i.mu.last != nil {
		f = *i.mu.last
	}
	broken = i.mu.broken != nil
	if m := i.mu.machine; m != nil {
		if now, err := m.Stats(); err == nil {
			f.stats = now
		}
		f = figuresNow(m, f.stats)
	}
	return f, i.mu.known || broken, broken
}

// Totals are figures over all models.
type Totals struct {
	Models           int     `metric:"hindsight_models" help:"Models that the server holds."`
	Loaded           int     `metric:"hindsight_models_loaded" help:"Models whose state is in memory."`
	Deleted          int     `metric:"hindsight_models_deleted" help:"Deleted models that can be brought back."`
	ResidentBytes    int64   `metric:"hindsight_models_memory_bytes" help:"Memory that the states of all models take."`
	Aliases          int     `metric:"hindsight_aliases" help:"Aliases."`
	Followers        int     `metric:"hindsight_followers" help:"Models that follow another one."`
	Watchers         int     `metric:"hindsight_watchers" help:"Streams that watch a model."`
	Wakes            int64   `metric:"hindsight_model_wakes_total" help:"Models that were loaded, because they were used."`
	WakeSeconds      float64 `metric:"hindsight_model_wake_seconds_total" help:"Time spent loading models."`
	Hibernations     int64   `metric:"hindsight_model_hibernations_total" help:"Models whose state left memory, because others needed the room."`
	Reloads          int64   `metric:"hindsight_model_reloads_total" help:"Models that were loaded again because the outcome of an append was not known."`
	Pending          int64   `metric:"hindsight_pending_labels_all" help:"Predictions of all models that wait for their label."`
	BadSnapshots     int64   `metric:"hindsight_bad_snapshots_total" help:"Snapshots that could not be used, so that an older one or the log was."`
	SnapshotFailures int64   `metric:"hindsight_snapshot_failures_total" help:"Snapshots that could not be written. What they would have had is in the log."`
	Reports          int64   `metric:"hindsight_reports_total" help:"Reports that were solved."`
	ReportSeconds    float64 `metric:"hindsight_report_seconds_total" help:"Time spent solving reports."`
	Panics           int64   `metric:"hindsight_learner_panics_total" help:"Panics of learners; one that learned has stopped its model, the others ended one call."`
	Starting         int64   `metric:"hindsight_recovery_models" help:"Models that the start loads in the background, at most 1000. The others are loaded when they are used."`
	Started          int64   `metric:"hindsight_recovery_models_loaded" help:"Models of hindsight_recovery_models that are loaded."`
	StartFailed      int64   `metric:"hindsight_recovery_models_failed" help:"Models of hindsight_recovery_models that could not be loaded."`
	StartDone        bool    `metric:"hindsight_recovery_done" help:"1 once the start has loaded its models, or as many as there is room for; else 0."`
	Replayed         int64   `metric:"hindsight_replayed_observations_total" help:"Observations that were learned again from logs, when models were loaded."`
	Replaying        int64   `metric:"hindsight_replaying_observations" help:"Observations that the models which are being loaded have still to learn again."`
}

// Totals counts over all models.
func (e *Engine) Totals() Totals {
	t := Totals{
		ResidentBytes: e.resident.Load(),
		Wakes:         e.wakes.Load(), Hibernations: e.hibernations.Load(), BadSnapshots: e.badSnapshots.Load(),
		Reloads: e.reloads.Load(), Panics: e.panics.Load(), Reports: e.reports.Load(),
		WakeSeconds:   time.Duration(e.wakeNanoseconds.Load()).Seconds(),
		ReportSeconds: time.Duration(e.reportNanoseconds.Load()).Seconds(),
		Followers:     int(e.followers.Load()), Watchers: int(e.watching.Load()), SnapshotFailures: e.snapshotFailures.Load(),
		Starting: e.starting.Load(), Started: e.started.Load(), StartFailed: e.startFailed.Load(), StartDone: e.startDone.Load(),
		Replayed: e.replayed.Load(), Replaying: e.replaying.Load(),
	}
	e.mu.RLock()
	t.Deleted, t.Aliases = e.mu.deleted, len(e.mu.aliases)
	e.mu.RUnlock()
	for _, i := range e.instances() {
		t.Models++
		t.Pending += i.waitingLabels()
		if i.bytes.Load() > 0 {
			t.Loaded++
		}
	}
	return t
}
