package sizing_test

import (
	"math"
	"strings"
	"testing"
	"time"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/research/sizing"
)

// model is one of a spec with so many inputs, of a learner with so many features.
func model(d int32, r uint64) *sizing.Model {
	return sizing.Of(&hindsightv1.ValidateSpecResponse{
		Spec: &hindsightv1.ModelSpec{Dimension: d, Coverage: []float64{0.9}}, Features: int32(r),
		StateBytes: 4 * r * r, PredictFlops: r * r / 2, ObserveFlops: 2 * r * r,
	})
}

func load() sizing.Load { return sizing.Load{Rate: 50, Models: 4, LabelDelay: time.Hour} }

// same compares to rounding.
func same(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*math.Abs(want) {
		t.Errorf("%s: %g, want %g", what, got, want)
	}
}

// What is counted by the round is linear in the rate.
func TestLinearInRate(t *testing.T) {
	m, one, three := model(10, 100), load(), load()
	three.Rate *= 3
	a, b := sizing.Estimate(m, one, sizing.Defaults()), sizing.Estimate(m, three, sizing.Defaults())
	for what, of := range map[string]func(*sizing.Answer) float64{
		"cores":         func(a *sizing.Answer) float64 { return a.CPU.Cores },
		"cores, alone":  func(a *sizing.Answer) float64 { return a.CPU.Alone },
		"busiest model": func(a *sizing.Answer) float64 { return a.CPU.BusiestModel },
		"ids":           func(a *sizing.Answer) float64 { return a.Disk.IDs },
		"waiting":       func(a *sizing.Answer) float64 { return a.Disk.Pending },
		"rows a day":    func(a *sizing.Answer) float64 { return a.Disk.RowsPerDay },
	} {
		same(t, what, of(&b), 3*of(&a))
	}
	same(t, "memory", b.Memory.Process, a.Memory.Process)
	same(t, "snapshots", b.Disk.Snapshots, a.Disk.Snapshots)
}

// Three models cost what one costs of three times the rate, but for memory, snapshots and
// recovery, which each model has by itself, and for processors: models share no commit.
func TestModels(t *testing.T) {
	m, one, three := model(10, 100), load(), load()
	one.Rate, three.Models = 3*one.Rate, 3*one.Models
	a, b := sizing.Estimate(m, one, sizing.Defaults()), sizing.Estimate(m, three, sizing.Defaults())
	if b.CPU.Cores < a.CPU.Cores {
		t.Errorf("the rounds of several models take %g cores, those of one %g", b.CPU.Cores, a.CPU.Cores)
	}
	same(t, "ids", b.Disk.IDs, a.Disk.IDs)
	same(t, "waiting", b.Disk.Pending, a.Disk.Pending)
	same(t, "rows a day", b.Disk.RowsPerDay, a.Disk.RowsPerDay)
	same(t, "states", b.Memory.States, 3*a.Memory.States)
	same(t, "snapshots", b.Disk.Snapshots, 3*a.Disk.Snapshots)
	same(t, "busiest model", a.CPU.BusiestModel, 3*b.CPU.BusiestModel)
	same(t, "recovery", b.Recovery.All, float64(three.Models)*b.Recovery.Model)
}

// Nothing becomes less where there are more features, inputs, rounds, models, or later
// labels. The log is an exception of the first: a learner that takes longer gets its
// snapshots after fewer observations.
func TestMonotone(t *testing.T) {
	figures := func(a *sizing.Answer) map[string]float64 {
		return map[string]float64{
			"memory": a.Memory.Process, "limit": a.Memory.Limit, "model": a.Memory.PerModel,
			"ids": a.Disk.IDs, "waiting": a.Disk.Pending, "snapshots": a.Disk.Snapshots, "rows a day": a.Disk.RowsPerDay,
			"snapshots a day": a.Disk.SnapshotsPerDay, "predict": a.CPU.Predict, "observe": a.CPU.Observe, "cores": a.CPU.Cores,
			"alone": a.CPU.Alone, "busiest": a.CPU.BusiestModel, "start": a.Recovery.Start, "recovery": a.Recovery.All,
		}
	}
	for axis, at := range map[string]func(n int) sizing.Answer{
		"features": func(n int) sizing.Answer { return sizing.Estimate(model(10, uint64(10*n)), load(), sizing.Defaults()) },
		"inputs":   func(n int) sizing.Answer { return sizing.Estimate(model(int32(10*n), 100), load(), sizing.Defaults()) },
		"rate": func(n int) sizing.Answer {
			return sizing.Estimate(model(10, 100), sizing.Load{Rate: float64(n), Models: 2}, sizing.Defaults())
		},
		"models": func(n int) sizing.Answer {
			return sizing.Estimate(model(10, 100), sizing.Load{Rate: 1, Models: n}, sizing.Defaults())
		},
		"delay": func(n int) sizing.Answer {
			return sizing.Estimate(model(10, 100), sizing.Load{Rate: 1, Models: 1, LabelDelay: time.Duration(n) * time.Hour}, sizing.Defaults())
		},
	} {
		before := at(1)
		for n := 2; n <= 60; n++ {
			now := at(n)
			old := figures(&before)
			for name, v := range figures(&now) {
				if v < old[name] {
					t.Errorf("%s %d: %s falls from %g to %g", axis, n, name, old[name], v)
				}
			}
			if axis != "features" && now.Disk.Total < before.Disk.Total {
				t.Errorf("%s %d: the disk falls from %g to %g", axis, n, before.Disk.Total, now.Disk.Total)
			}
			before = now
		}
	}
}

// The log is bounded by the interval of snapshots and by the time of a replay, whichever is
// reached first, and so is the recovery.
func TestSnapshots(t *testing.T) {
	m, s := model(10, 300), sizing.Defaults()
	slow := sizing.Estimate(m, sizing.Load{Rate: 0.1, Models: 1}, s)
	same(t, "replayed at a low rate", slow.Recovery.Replayed, 0.1*5*60)
	fast, faster := sizing.Estimate(m, sizing.Load{Rate: 1000, Models: 1}, s), sizing.Estimate(m, sizing.Load{Rate: 2000, Models: 1}, s)
	same(t, "replayed at a high rate", faster.Recovery.Replayed, fast.Recovery.Replayed)
	same(t, "log at a high rate", faster.Disk.Log, fast.Disk.Log)
	if fast.Recovery.Model < s.SnapshotReplay.Seconds() || fast.Recovery.Model > s.SnapshotReplay.Seconds()+0.1 {
		t.Errorf("recovery %g s, want --snapshot-replay and the time of reading", fast.Recovery.Model)
	}
	s.SnapshotsKept *= 2
	twice := sizing.Estimate(m, sizing.Load{Rate: 1000, Models: 1}, s)
	same(t, "log of three snapshots more", 10*twice.Disk.Log, 13*fast.Disk.Log)
	same(t, "twice the snapshots", twice.Disk.Snapshots, 2*fast.Disk.Snapshots)
}

// Ids are kept for their window, and at least so many.
func TestIDs(t *testing.T) {
	m, s := model(10, 10), sizing.Defaults()
	few := sizing.Estimate(m, sizing.Load{Rate: 0.01, Models: 1}, s)
	least := sizing.Estimate(m, sizing.Load{Rate: float64(s.IDWindowMin) / s.IDWindow.Seconds(), Models: 1}, s)
	same(t, "ids at a low rate", few.Disk.IDs, least.Disk.IDs)
	none := sizing.Estimate(m, sizing.Load{Models: 1}, s)
	same(t, "ids without a round", none.Disk.IDs, 0)
	same(t, "cores without a round", none.CPU.Cores, 0)
	s.IDWindowMin, s.IDWindow = 0, time.Hour
	short := sizing.Estimate(m, sizing.Load{Rate: 10, Models: 1}, s)
	s.IDWindow = 2 * time.Hour
	long := sizing.Estimate(m, sizing.Load{Rate: 10, Models: 1}, s)
	same(t, "ids of twice the window", long.Disk.IDs, 2*short.Disk.IDs)
}

// The sum of the disk is that of its parts, and what does not fit is told.
func TestNotes(t *testing.T) {
	a := sizing.Estimate(model(10, 1000), sizing.Load{Rate: 5000, Models: 1, LabelDelay: time.Hour}, sizing.Defaults())
	same(t, "disk", a.Disk.Total, a.Disk.Log+a.Disk.IDs+a.Disk.Pending+a.Disk.Snapshots+a.Disk.Overhead)
	if len(a.Notes) != 2 || !strings.Contains(a.Notes[0], "--max-pending") || !strings.Contains(a.Notes[1], "one core") {
		t.Errorf("notes %q", a.Notes)
	}
	if a := sizing.Estimate(model(10, 10), load(), sizing.Defaults()); len(a.Notes) != 0 {
		t.Errorf("notes %q", a.Notes)
	}
}

func TestCheck(t *testing.T) {
	if err := sizing.Check(load(), sizing.Defaults()); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*sizing.Load, *sizing.Settings){
		"rate":      func(l *sizing.Load, _ *sizing.Settings) { l.Rate = -1 },
		"no rate":   func(l *sizing.Load, _ *sizing.Settings) { l.Rate = math.NaN() },
		"models":    func(l *sizing.Load, _ *sizing.Settings) { l.Models = 0 },
		"delay":     func(l *sizing.Load, _ *sizing.Settings) { l.LabelDelay = -1 },
		"snapshots": func(_ *sizing.Load, s *sizing.Settings) { s.SnapshotsKept = 0 },
	} {
		l, s := load(), sizing.Defaults()
		spoil(&l, &s)
		if sizing.Check(l, s) == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// TestClustered: a small load takes three servers with one group, a large one more servers and groups, never fewer for
// more load, and a loss of two servers one group of five members.
func TestClustered(t *testing.T) {
	t.Parallel()
	m := model(10, 300)
	few := 0
	for _, rate := range []float64{1, 100, 1000, 3000} {
		c, err := sizing.Clustered(m, sizing.Load{Rate: rate, Models: 100}, 1, 8)
		if err != nil || c.Servers < few || c.Cores > 8 || c.Cores <= 0 || c.Memory <= 0 {
			t.Errorf("%g rounds a second: %+v, %v", rate, c, err)
		}
		if few = c.Servers; rate == 1 && (c.Servers != 3 || c.Groups != 1 || c.Replicas != "warm") {
			t.Errorf("a small load takes %+v", c)
		}
		t.Logf("%g: %+v", rate, c)
	}
	if few <= 3 {
		t.Errorf("a large load takes %d servers", few)
	}
	if c, err := sizing.Clustered(m, sizing.Load{Rate: 1, Models: 100}, 2, 8); err != nil || c.Servers != 5 || c.Groups != 1 {
		t.Errorf("two losses: %+v, %v", c, err)
	}
	for lost := 1; lost <= 2; lost++ {
		if c, err := sizing.Clustered(m, sizing.Load{Rate: 1e6, Models: 1000}, lost, 8); err == nil {
			t.Errorf("no cluster suffices, got %+v", c)
		}
	}
}
