package main_test

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine/record"
	"hindsight/internal/engine/recovery"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model/catalog"
	"hindsight/internal/store"
)

// run is a run as the checker gets it.
type run struct {
	history  history
	replicas []replica
	serial   map[string]replay
}

// honest is a good run of one model: thirty ids by three clients whose calls overlap, some of
// them without an answer, and reads. Its log has a serial replay.
func honest() *run {
	r := &run{serial: map[string]replay{}, history: history{predicted: map[name]bool{{"m", "w-1"}: true, {"m", "w-2"}: false}}}
	var log []placed
	var answers []string
	for n := range 30 {
		at := int64(10 * n)
		id := fmt.Sprint("o-", n)
		a := attempt{client: n % 3, model: "m", id: id, from: at, until: at + 25}
		first := a
		first.result, first.until = unknown, never
		a.from, a.until = at+15, at+28
		switch {
		case n == 7: // It is never learned.
			r.history.attempts = append(r.history.attempts, first)
			continue
		case n == 13: // It is learned after its client gave up.
			r.history.attempts = append(r.history.attempts, first)
		case n%5 == 1: // The retry finds it.
			a.duplicate = true
			r.history.attempts = append(r.history.attempts, first, a)
		case n%5 == 2: // The first attempt was rejected.
			first.result, first.until = rejected, at+10
			r.history.attempts = append(r.history.attempts, first, a)
		default:
			r.history.attempts = append(r.history.attempts, a)
		}
		log = append(log, placed{uint64(len(log) + 1), id})
		answers = append(answers, fmt.Sprint("loss ", n))
		if last := &r.history.attempts[len(r.history.attempts)-1]; last.result == acknowledged {
			last.sequence, last.answer = uint64(len(log)), answers[len(answers)-1]
		}
		if n%4 == 0 {
			r.history.reads = append(r.history.reads,
				sighting{client: 3, model: "m", from: at + 29, until: at + 31, sequence: uint64(len(log)), current: true},
				sighting{client: 4, model: "m", from: at + 29, until: at + 31, sequence: uint64(len(log) / 2), process: 2})
		}
	}
	r.serial["m"] = replay{"the digest", answers}
	for n := range 3 {
		r.replicas = append(r.replicas, replica{
			fmt.Sprint("server ", n),
			map[string][]placed{"m": slices.Clone(log)},
			map[string]string{"m": "the digest"},
			map[string]map[string]string{"m": {"value": "v", pendingRow + "w-1": "w", "id o-0": "o"}},
		})
	}
	return r
}

// everywhere changes the log of every replica, and the serial replay with it.
func (r *run) everywhere(change func([]placed) []placed) {
	for n := range r.replicas {
		log := change(slices.Clone(r.replicas[n].logs["m"]))
		for k := range log {
			log[k].sequence = uint64(k + 1)
		}
		r.replicas[n].logs["m"] = log
	}
	byID := map[string]string{}
	for _, a := range r.history.attempts {
		if a.result == acknowledged {
			byID[a.id] = a.answer
		}
	}
	var answers []string
	for _, p := range r.replicas[0].logs["m"] {
		answers = append(answers, byID[p.id])
	}
	r.serial["m"] = replay{"the digest", answers}
}

// of returns the acknowledged attempt of an id.
func (r *run) of(id string) *attempt {
	for n := range r.history.attempts {
		if a := &r.history.attempts[n]; a.id == id && a.result == acknowledged {
			return a
		}
	}
	return nil
}

func TestCheckerAcceptsAGoodRun(t *testing.T) {
	r := honest()
	f := check(r.history, r.replicas, r.serial)
	assert.True(t, len(f.problems) == 0 && len(f.lost) == 0 && len(f.twice) == 0, "%+v", f)
	assert.True(t, f.acknowledged == 28 && f.unknown == 2 && f.learnedUnknown == 1 && f.rejected == 0, "counted %+v", f)
}

// Each case is a bug of a cluster, planted into the good run.
func TestCheckerFindsPlantedBugs(t *testing.T) {
	for bug, c := range map[string]struct {
		plant       func(r *run)
		says        string
		lost, twice int
	}{
		"acknowledged before the commit": {func(r *run) {
			// The owner answered o-10 and died. The next one gave its sequence to others.
			r.everywhere(func(log []placed) []placed {
				return slices.DeleteFunc(log, func(p placed) bool { return p.id == "o-10" })
			})
			for n := range r.history.attempts {
				if a := &r.history.attempts[n]; a.result == acknowledged && a.sequence > 10 {
					a.sequence--
				}
			}
		}, "o-10 was acknowledged at 10 and is not there", 1, 0},
		"the newest is acknowledged before the commit": {func(r *run) {
			r.everywhere(func(log []placed) []placed { return log[:len(log)-1] })
		}, "o-29 was acknowledged at 29 and is not there", 1, 0},
		"one replica loses the tail of its log": {func(r *run) {
			r.replicas[2].logs["m"] = r.replicas[2].logs["m"][:20]
		}, "server 0 has 29 observations, server 2 has 20", 9, 0},
		"no fence: a stale owner answers from a log of its own": {func(r *run) {
			r.replicas[1].logs["m"][19].id = "stale"
			r.history.attempts = append(r.history.attempts, attempt{model: "m", id: "stale", from: 190, until: 200, sequence: 20})
		}, "server 0 has {20 o-20}, server 1 has {20 stale}", 2, 0},
		"no fence: two owners acknowledge one sequence, one of them wins": {func(r *run) {
			r.history.attempts = append(r.history.attempts, attempt{model: "m", id: "stale", from: 190, until: 200, sequence: 20})
		}, "stale was acknowledged at 20 and is not there", 1, 0},
		"a replica applies an entry twice": {func(r *run) {
			log := slices.Insert(r.replicas[2].logs["m"], 5, r.replicas[2].logs["m"][4])
			for n := range log {
				log[n].sequence = uint64(n + 1)
			}
			r.replicas[2].logs["m"] = log
		}, "o-4 is learned 2 times", 23, 1},
		"a retry is learned again": {func(r *run) {
			r.everywhere(func(log []placed) []placed { return append(log, placed{id: "o-11"}) })
			again := *r.of("o-11")
			again.from, again.until, again.sequence, again.duplicate = 400, 410, 30, false
			r.history.attempts = append(r.history.attempts, again)
		}, "o-11 is learned 2 times", 0, 1},
		"an unknown attempt is learned twice": {func(r *run) {
			r.everywhere(func(log []placed) []placed { return append(log, placed{id: "o-13"}) })
		}, "o-13 is learned 2 times", 0, 1},
		"a retry is answered as new": {func(r *run) { r.of("o-11").duplicate = false; r.dup("o-11", false) }, "o-11 was acknowledged as new 2 times", 0, 1},
		"a retry is answered by another sequence": {func(r *run) {
			again := *r.of("o-11")
			again.from, again.until, again.sequence, again.duplicate = 400, 410, 28, true
			r.history.attempts = append(r.history.attempts, again)
		}, "o-11 was answered", 1, 0},
		"a gap in the sequences": {func(r *run) {
			for n := range r.replicas {
				for k := 12; k < 29; k++ {
					r.replicas[n].logs["m"][k].sequence++
				}
			}
		}, "sequence 14 comes where 13 is due", 0, 0},
		"a rejected observation is learned": {func(r *run) {
			r.history.attempts = append(r.history.attempts, attempt{model: "m", id: "r", from: 400, until: 405, result: rejected})
			r.everywhere(func(log []placed) []placed { return append(log, placed{id: "r"}) })
		}, "r was rejected and is learned", 0, 0},
		"an observation of nobody": {func(r *run) {
			r.everywhere(func(log []placed) []placed { return append(log, placed{id: "ghost"}) })
		}, "nobody sent ghost", 0, 0},
		"one replica learns otherwise": {
			func(r *run) { r.replicas[1].digests["m"] = "another" },
			"m of server 1: digest another", 0, 0,
		},
		"all learn what is not in the log": {func(r *run) {
			for n := range r.replicas {
				r.replicas[n].digests["m"] = "another"
			}
		}, "that of a serial replay is the digest", 0, 0},
		"an answer is not that of the log": {
			func(r *run) { r.of("o-15").answer = "loss 16" },
			"o-15 was answered loss 16, a serial replay answers loss 15", 0, 0,
		},
		"a model is missing":      {func(r *run) { delete(r.replicas[2].logs, "m") }, "server 2 does not have it", 28, 0},
		"a current read is stale": {func(r *run) { r.history.reads[6].sequence -= 5 }, "not linearizable", 0, 0},
		"a current read sees what the next does not": {func(r *run) {
			r.history.reads[4].sequence++
			r.history.reads = append(r.history.reads,
				sighting{client: 3, model: "m", from: r.history.reads[4].until + 1, until: r.history.reads[4].until + 2, sequence: r.history.reads[4].sequence - 1, current: true})
		}, "not linearizable", 0, 0},
		"a read tells of what nobody has sent yet": {func(r *run) { r.history.reads[3].sequence = 29 }, "read at 29 before that was sent", 0, 0},
		"a read tells of more than there is":       {func(r *run) { r.history.reads[3].sequence = 99 }, "read at 99, its log ends at 29", 0, 0},
		"a process forgets":                        {func(r *run) { r.history.reads[5].sequence = 0 }, "went back from", 0, 0},
		"a pending prediction is lost":             {func(r *run) { delete(r.replicas[1].rows["m"], "pending w-1") }, "w-1 was acknowledged and is not pending", 1, 0},
		"a prediction is pending twice over":       {func(r *run) { r.replicas[0].rows["m"]["pending o-3"] = "w" }, "the prediction o-3 is pending: asked for false, learned true", 0, 0},
		"a replica remembers another answer":       {func(r *run) { r.replicas[2].rows["m"]["id o-0"] = "x" }, `server 2 has id o-0 x, server 0 has "o"`, 0, 0},
		"a replica forgets the metadata":           {func(r *run) { delete(r.replicas[2].rows["m"], "value") }, "server 2 has no value", 0, 0},
		"the order of answers is not that of the log": {func(r *run) {
			a, b := r.of("o-3"), r.of("o-23")
			a.sequence, b.sequence, a.answer, b.answer = b.sequence, a.sequence, b.answer, a.answer
			r.everywhere(func(log []placed) []placed {
				log[a.sequence-1].id, log[b.sequence-1].id = "o-3", "o-23"
				return log
			})
		}, "not linearizable", 0, 0},
	} {
		t.Run(bug, func(t *testing.T) {
			r := honest()
			c.plant(r)
			f := check(r.history, r.replicas, r.serial)
			if !slices.ContainsFunc(f.problems, func(p string) bool { return strings.Contains(p, c.says) }) {
				t.Errorf("nothing says %q in\n%s", c.says, strings.Join(f.problems, "\n"))
			}
			assert.True(t, len(f.lost) == c.lost && len(f.twice) == c.twice, "%d lost, %d learned twice, want %d and %d: %q", len(f.lost), len(f.twice), c.lost, c.twice, f.problems)
		})
	}
}

// dup adds an acknowledged attempt of an id that has one.
func (r *run) dup(id string, duplicate bool) {
	again := *r.of(id)
	again.from, again.until, again.duplicate = 400, 410, duplicate
	r.history.attempts = append(r.history.attempts, again)
}

func TestGap(t *testing.T) {
	var attempts []attempt
	ms := int64(time.Millisecond)
	for _, end := range []int64{10, 500, 990, 1010, 1030, 3400, 3410, 4000, 4450, 9000} {
		attempts = append(attempts, attempt{until: end * ms})
	}
	attempts = append(attempts, attempt{until: never, result: unknown})
	for fault, want := range map[int64]time.Duration{
		1000: 2370 * time.Millisecond, // A call in flight was still answered.
		3405: 590 * time.Millisecond,  // What came later is no part of it.
		9001: 0,
	} {
		assert.Equal(t, want, gap(attempts, fault*ms), fault)
	}
	median, worst := spread([]time.Duration{5, 1, 9})
	assert.True(t, median == 5 && worst == 9, "median %d, worst %d", median, worst)
}

// readDisk reads the logs and the rows of all models of a directory that no server has open. The remembered ids replace
// records that a snapshot has cut off the log.
func readDisk(t *testing.T, dir string) (logs map[string][]placed, rows map[string]map[string]string) {
	t.Helper()
	disk, pending, err := store.Inspect(dir, store.Options{})
	require.True(t, err == nil && pending == nil, "%s: %v, %v", dir, err, pending)
	logs, rows = map[string][]placed{}, map[string]map[string]string{}
	err = disk.Models(t.Context(), func(e storage.RegistryEntry) error {
		log, err := readLog(t, e)
		logs[e.Name] = log
		if err == nil {
			rows[e.Name], err = readRows(t, e)
		}
		return err
	})
	require.NoError(t, errors.Join(err, disk.Close()), dir)
	return logs, rows
}

// readRows reads the value, the pending predictions and the remembered ids of a model. A server may derive the ids of the
// last record from its log, so they are left out.
func readRows(t *testing.T, e storage.RegistryEntry) (rows map[string]string, err error) {
	t.Helper()
	last, err := e.Model.Last()
	through := uint64(math.MaxUint64)
	if err == nil && last > 0 {
		err = e.Model.Replay(t.Context(), last-1, func(r storage.Record) error {
			through = r.First - 1
			return nil
		})
	}
	if err != nil {
		return nil, err
	}
	rows = map[string]string{"value": fmt.Sprintf("%x", sha256.Sum256(e.Value))}
	err = e.Model.EachPending(t.Context(), func(p storage.Prediction) error {
		rows[pendingRow+p.ID] = fmt.Sprintf("until %v: %x", p.Expiry, sha256.Sum256(p.Value))
		return nil
	})
	if err != nil {
		return nil, err
	}
	after := recovery.Undone(through)
	return rows, e.Model.EachID(t.Context(), func(id storage.ID) error {
		if !after(id.Value) {
			rows["id "+id.ID] = fmt.Sprintf("at %v: %x", id.At, sha256.Sum256(id.Value))
		}
		return nil
	})
}

// pendingRow begins the names of the pending predictions among the rows of a model.
const pendingRow = "pending "

func readLog(t *testing.T, e storage.RegistryEntry) (log []placed, err error) {
	t.Helper()
	from, _, err := recovery.DecodeRegistryEntry(e, catalog.New)
	if err != nil {
		return nil, err
	}
	first, err := e.Model.First()
	if err != nil || first == 0 {
		return nil, err
	}
	inLog := map[string]uint64{}
	err = e.Model.Replay(t.Context(), first-1, func(logged storage.Record) error {
		r, err := record.Decode(logged.Data)
		if err != nil {
			return err
		}
		if logged.Last-logged.First+1 != uint64(len(r.Observations)) {
			return fmt.Errorf("%d observations in the record from %d to %d", len(r.Observations), logged.First, logged.Last)
		}
		for n, o := range r.Observations {
			log = append(log, placed{logged.First + uint64(n), o.ID})
			inLog[o.ID] = logged.First + uint64(n)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = e.Model.EachID(t.Context(), func(id storage.ID) error {
		seen, err := record.DecodeSeen(id.Value, max(1, from.Spec.Outputs))
		at := seen.Answer.Sequence
		if at < first {
			log = append(log, placed{at, id.ID})
		} else if err == nil && inLog[id.ID] != at {
			err = fmt.Errorf("the id %s is remembered at %d, and in the log at %d", id.ID, at, inLog[id.ID])
		}
		return err
	})
	slices.SortStableFunc(log, func(a, b placed) int { return cmp.Compare(a.sequence, b.sequence) })
	return log, err
}
