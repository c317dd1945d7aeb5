// Package sizing estimates what models need of a machine: memory, disk, processors, and the time
// of a recovery. The server reports the memory and the multiply-adds of a learner by
// ValidateSpec; docs/format has the bytes of a row on disk; the rest are measured constants, see
// research/sizing/README.md. Every figure is of the long run, without a limit of the server's memory.
package sizing

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Load is the load of the models. A round is a Predict, whose prediction is remembered, and the
// Observe of its label.
type Load struct {
	Rate       float64 // rounds a second of each model
	Models     int
	LabelDelay time.Duration // how long a prediction is pending
}

// Settings are settings of the server, by the names of its flags.
type Settings struct {
	IDWindow       time.Duration
	IDWindowMin    int
	SnapshotsKept  int
	SnapshotReplay time.Duration
}

// Defaults are the server's own settings.
func Defaults() Settings {
	return Settings{
		IDWindow: 24 * time.Hour, IDWindowMin: 1_000_000,
		SnapshotsKept: 3, SnapshotReplay: 250 * time.Millisecond,
	}
}

// Answer is what models need. Figures are of all models together unless a name says otherwise.
type Answer struct {
	Memory   Memory   `json:"memory"`
	Disk     Disk     `json:"disk"`
	CPU      CPU      `json:"cpu"`
	Recovery Recovery `json:"recovery"`
	Notes    []string `json:"notes"` // what does not fit
}

// Memory is in bytes.
type Memory struct {
	// PerModel is the state of a model and its figures, with a full history.
	PerModel float64 `json:"perModelBytes"`
	States   float64 `json:"statesBytes"` // of all models
	// Process is the resident memory of the process without a limit: the garbage collector
	// lets the heap grow to twice what is used.
	Process float64 `json:"processBytes"`
	// Limit is the smallest --memory-limit with which all models stay in memory.
	Limit float64 `json:"memoryLimitBytes"`
}

// Disk is in bytes.
type Disk struct {
	Log       float64 `json:"logBytes"`     // observations since the oldest snapshot
	IDs       float64 `json:"idsBytes"`     // remembered ids
	Pending   float64 `json:"waitingBytes"` // predictions without a label
	Snapshots float64 `json:"snapshotsBytes"`
	// Overhead are the write-ahead logs, and deleted rows that are not compacted yet.
	Overhead float64 `json:"overheadBytes"`
	Total    float64 `json:"totalBytes"`
	// RowsPerDay are the bytes of observations, ids and predictions written in a day. The store
	// writes a row several times.
	RowsPerDay      float64 `json:"rowsPerDayBytes"`
	SnapshotsPerDay float64 `json:"snapshotsPerDayBytes"`
}

// CPU is in seconds of one processor.
type CPU struct {
	// Of one call, on a busy server.
	Predict float64 `json:"predictSeconds"`
	Observe float64 `json:"observeSeconds"`
	// Cores is how many processors the rounds keep busy on a busy server, Alone if every call
	// comes to an idle server. The truth is in between: near Alone at few calls a second.
	Cores float64 `json:"cores"`
	Alone float64 `json:"coresAlone"`
	// BusiestModel is the part of a processor that learning takes of a model. It has to stay
	// below 1, because a model learns on one processor.
	BusiestModel float64 `json:"busiestModel"`
}

// Recovery is in seconds.
type Recovery struct {
	// Start is until the server serves: it counts ids and predictions.
	Start float64 `json:"startSeconds"`
	// Model is how long the first use of a model takes after a crash: the server reads its
	// snapshot and replays the log behind the snapshot.
	Model float64 `json:"modelSeconds"`
	// All is the same for all models, one after the other.
	All float64 `json:"allSeconds"`
	// Replayed is how many observations of a model are replayed at most.
	Replayed float64 `json:"replayedObservations"`
}

// Check returns the first mistake of a load and settings.
func Check(l Load, s Settings) error {
	switch {
	case !(l.Rate >= 0) || math.IsInf(l.Rate, 0):
		return fmt.Errorf("a rate of %g rounds a second", l.Rate)
	case l.Models < 1:
		return fmt.Errorf("%d models", l.Models)
	case l.LabelDelay < 0:
		return fmt.Errorf("labels that come %v late", l.LabelDelay)
	case s.SnapshotsKept < 1 || s.SnapshotReplay <= 0 || s.IDWindow < 0 || s.IDWindowMin < 0:
		return errors.New("settings that the server rejects")
	}
	return nil
}

// Estimate returns what models of one kind need under a load.
func Estimate(m *Model, l Load, s Settings) Answer {
	rate := l.Rate * float64(l.Models) // Of all models.
	learn := float64(m.ObserveFlops) * observeFlopSeconds
	between := snapshotEvery(l.Rate, learn, s) // Observations of a model between two snapshots.
	var a Answer
	a.Memory.PerModel = float64(m.StateBytes) + m.figures()
	a.Memory.States = float64(l.Models) * a.Memory.PerModel
	a.Memory.Process = processBytes + collectorFactor*a.Memory.States
	a.Memory.Limit = max(leastLimit, a.Memory.States/statesShare)

	pending := rate * l.LabelDelay.Seconds()
	ids := 0.0
	if rate > 0 {
		ids = max(rate*s.IDWindow.Seconds(), float64(s.IDWindowMin))
	}
	a.Disk = m.Disk(Held{
		Observations: float64(l.Models) * between * float64(s.SnapshotsKept+unchecked), IDs: ids, Pending: pending,
		Learned: rate * long, Predicted: rate * long,
	})
	a.Disk.Snapshots = a.Memory.States * float64(s.SnapshotsKept)
	a.Disk.Total += a.Disk.Snapshots
	a.Disk.RowsPerDay = rate * day * (m.logRow() + m.idRows() + m.pendingRows())
	if between > 0 {
		a.Disk.SnapshotsPerDay = rate * day / between * a.Memory.PerModel
	}

	a.CPU = m.cpu(l)

	a.Recovery.Start = Start(ids + pending)
	a.Recovery.Replayed = between
	a.Recovery.Model = m.Recover(between)
	a.Recovery.All = float64(l.Models) * a.Recovery.Model
	a.Notes = notes(l, pending, &a)
	return a
}

// cpu is what calls take of processors.
func (m *Model) cpu(l Load) CPU {
	models, d := float64(l.Models), float64(m.Dimension)
	apart := 1 - 1/models
	learn := float64(m.ObserveFlops) * observeFlopSeconds
	c := CPU{
		Predict: predictSeconds + d*predictDimensionSeconds + float64(m.PredictFlops)*predictFlopSeconds +
			apart*predictApartSeconds,
		Observe: observeSeconds + d*observeDimensionSeconds + learn + apart*observeApartSeconds,
	}
	rate := l.Rate * models
	c.Cores = rate * (c.Predict + c.Observe)
	c.Alone = c.Cores + rate*aloneSeconds
	c.BusiestModel = l.Rate * (replaySeconds + learn)
	return c
}

// notes say what does not fit.
func notes(l Load, pending float64, a *Answer) []string {
	all := []string{}
	if pending > maxPending*float64(l.Models) || pending > maxPendingTotal {
		all = append(all, fmt.Sprintf("%.3g predictions wait for labels: raise --max-pending, or shorten --label-ttl", pending))
	}
	if a.CPU.BusiestModel >= 1 {
		all = append(all, "a model cannot learn so fast: it takes its observations in turn, on one core")
	}
	return all
}

// snapshotEvery is how many observations of a model are learned between two snapshots: those of
// the interval, or fewer if their replay would take longer than allowed.
func snapshotEvery(rate, learn float64, s Settings) float64 {
	return min(rate*snapshotInterval, s.SnapshotReplay.Seconds()/(replaySeconds+learn))
}

// Held is the content of a store.
type Held struct {
	Observations, IDs, Pending float64 // in the store
	Learned, Predicted         float64 // since the start
}

// Disk is what a store takes on disk, without snapshots.
func (m *Model) Disk(h Held) Disk {
	d := Disk{Log: h.Observations * m.logRow(), IDs: h.IDs * m.idRows(), Pending: h.Pending * m.pendingRows()}
	d.Overhead = overhead(d.Log+d.IDs, h.Learned*(m.logRow()+m.idRows()), logMemTable) +
		overhead(d.Pending, h.Predicted*m.pendingRows(), pendingMemTable)
	d.Total = d.Log + d.IDs + d.Pending + d.Overhead
	return d
}

// overhead is what a database takes beside its rows, after so many written bytes. The first
// memory table is in the write-ahead log alone; later rows are in tables too. The logs of the
// last memory tables stay.
func overhead(rows, written, memTable float64) float64 {
	logs := min(written, keptLogs*memTable)
	if written < memTable {
		return max(0, logs-rows)
	}
	return logs + rows*compactionShare
}

// Recover is how many seconds the first use of a model takes after a crash, with so many
// observations in the log behind its newest snapshot.
func (m *Model) Recover(observations float64) float64 {
	return openSeconds + (float64(m.StateBytes)+m.figures())*readSeconds + observations*(replaySeconds+float64(m.ObserveFlops)*observeFlopSeconds)
}

// Start is how many seconds a server takes until it serves, with so many remembered ids and
// pending predictions together.
func Start(rows float64) float64 { return startSeconds + rows*countSeconds }
