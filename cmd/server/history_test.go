package main_test

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// The checker of histories is a pure function of the answers that clients saw and of the final disks of the servers.

// result is how an attempt ended for its client.
type result int

const (
	// acknowledged: the answer says that the observation was learned.
	acknowledged result = iota
	// rejected: the answer says that nothing was written.
	rejected
	// unknown: no answer, or one that leaves open whether the observation was learned.
	unknown
)

// never is the end of an attempt without an answer.
const never = math.MaxInt64

// attempt is one call of Observe by a client. A retry is another attempt with the same id.
type attempt struct {
	client    int
	model, id string
	// from <= until, in nanoseconds since the run began. until is never for an unknown result:
	// the observation may be learned later.
	from, until int64
	result      result
	// Of an acknowledged attempt.
	sequence  uint64
	duplicate bool
	answer    string
}

// sighting is one answered read of a model's sequence.
type sighting struct {
	client      int
	model       string
	from, until int64
	sequence    uint64
	// current: the request demanded at least every sequence that any client had seen before, by
	// min_sequence. Such reads are linearizable. Others may be stale.
	current bool
	// process is the server process that was asked, unique over restarts, or forwarded.
	process int
}

// forwarded is the process of a read that another process may have answered.
const forwarded = 0

// placed is an id in a log, at its sequence.
type placed struct {
	sequence uint64
	id       string
}

// replica is what the disk of a server has after a run, by model.
type replica struct {
	name    string
	logs    map[string][]placed
	digests map[string]string
	// rows are the value, the pending predictions and the remembered ids of each model, by their names.
	rows map[string]map[string]string
}

// replay has the answers of an embedded server that learns one log serially.
type replay struct {
	digest string
	// answers are the answers of the sequences from 1 on.
	answers []string
}

// history is what clients saw.
type history struct {
	attempts []attempt
	reads    []sighting
	// predicted are the predictions that clients asked the server to remember, true if acknowledged.
	predicted map[name]bool
}

// of is the part of some models.
func (h *history) of(models []string) (part history) {
	for _, a := range h.attempts {
		if slices.Contains(models, a.model) {
			part.attempts = append(part.attempts, a)
		}
	}
	for _, r := range h.reads {
		if slices.Contains(models, r.model) {
			part.reads = append(part.reads, r)
		}
	}
	part.predicted = maps.Clone(h.predicted)
	maps.DeleteFunc(part.predicted, func(n name, _ bool) bool { return !slices.Contains(models, n.model) })
	return part
}

// findings are the outcome of a check. A good run has no problem.
type findings struct {
	// acknowledged, unknown and rejected count ids by their best answer. learnedUnknown are the
	// unknown ids that were learned.
	acknowledged, unknown, rejected, learnedUnknown int
	// lost: acknowledged, and not at the answered sequence of every log. twice: learned at
	// more than one sequence.
	lost, twice map[name]bool
	problems    []string
}

// add joins the findings of other models.
func (f *findings) add(g findings) {
	f.acknowledged, f.unknown, f.rejected, f.learnedUnknown = f.acknowledged+g.acknowledged, f.unknown+g.unknown, f.rejected+g.rejected, f.learnedUnknown+g.learnedUnknown
	if f.lost == nil {
		f.lost, f.twice = map[name]bool{}, map[name]bool{}
	}
	maps.Copy(f.lost, g.lost)
	maps.Copy(f.twice, g.twice)
	f.problems = append(f.problems, g.problems...)
}

func (f *findings) problem(format string, args ...any) {
	f.problems = append(f.problems, fmt.Sprintf(format, args...))
}

// fate is the joint outcome of the attempts of one id.
type fate struct {
	model, id string
	// first is the begin of the first attempt. acked is the end of the first acknowledged one.
	first, acked int64
	best         result
	sequence     uint64
	answer       string
	fresh        int // Acknowledged attempts that were no duplicates.
}

// name is a model and an id.
type name struct{ model, id string }

// check finds what is wrong with a run.
func check(h history, replicas []replica, serial map[string]replay) findings {
	f := findings{lost: map[name]bool{}, twice: map[name]bool{}}
	fates := f.fates(h.attempts)
	logs := f.logs(replicas)
	for _, r := range replicas {
		f.learned(r, fates)
	}
	f.answered(fates, logs, serial)
	f.digests(replicas, serial)
	f.rows(h.predicted, replicas)
	f.stale(h.reads, fates, logs)
	f.linearizable(h, fates, logs)
	slices.Sort(f.problems)
	return f
}

// fates joins the attempts of each id.
func (f *findings) fates(attempts []attempt) map[name]*fate {
	fates := map[name]*fate{}
	for _, a := range attempts {
		k := name{a.model, a.id}
		x := fates[k]
		if x == nil {
			x = &fate{model: a.model, id: a.id, first: a.from, acked: never, best: rejected}
			fates[k] = x
		}
		x.first = min(x.first, a.from)
		switch {
		case a.result == unknown && x.best == rejected:
			x.best = unknown
		case a.result == acknowledged:
			if x.best == acknowledged && (x.sequence != a.sequence || x.answer != a.answer) {
				f.problem("%s: %s was answered %d %s and %d %s", a.model, a.id, x.sequence, x.answer, a.sequence, a.answer)
			}
			x.best, x.sequence, x.answer, x.acked = acknowledged, a.sequence, a.answer, min(x.acked, a.until)
			if !a.duplicate {
				x.fresh++
			}
		}
	}
	for _, x := range fates {
		switch x.best {
		case acknowledged:
			f.acknowledged++
		case unknown:
			f.unknown++
		default:
			f.rejected++
		}
		if x.fresh > 1 {
			f.twice[name{x.model, x.id}] = true
			f.problem("%s: %s was acknowledged as new %d times", x.model, x.id, x.fresh)
		}
	}
	return fates
}

// logs returns the log of each model, and checks that the replicas agree on it.
func (f *findings) logs(replicas []replica) map[string][]placed {
	logs := map[string][]placed{}
	from := map[string]string{}
	for _, r := range replicas {
		for model, log := range r.logs {
			for n, p := range log {
				if p.sequence != uint64(n+1) {
					f.problem("%s of %s: sequence %d comes where %d is due", model, r.name, p.sequence, n+1)
					break
				}
			}
			first, known := logs[model]
			if !known {
				logs[model], from[model] = log, r.name
				continue
			}
			if len(first) != len(log) {
				f.problem("%s: %s has %d observations, %s has %d", model, from[model], len(first), r.name, len(log))
			}
			for n := range min(len(first), len(log)) {
				if first[n] != log[n] {
					f.problem("%s: %s has %v, %s has %v", model, from[model], first[n], r.name, log[n])
					break
				}
			}
		}
	}
	for model := range logs {
		for _, r := range replicas {
			if _, ok := r.logs[model]; !ok {
				f.problem("%s: %s does not have it", model, r.name)
			}
		}
	}
	return logs
}

// learned checks the log of one replica against what clients sent.
func (f *findings) learned(r replica, fates map[name]*fate) {
	for model, log := range r.logs {
		times := map[string]int{}
		for _, p := range log {
			times[p.id]++
			x := fates[name{model, p.id}]
			switch {
			case x == nil:
				f.problem("%s of %s: nobody sent %s", model, r.name, p.id)
			case x.best == rejected:
				f.problem("%s of %s: %s was rejected and is learned", model, r.name, p.id)
			}
		}
		for id, n := range times {
			if n > 1 {
				f.twice[name{model, id}] = true
				f.problem("%s of %s: %s is learned %d times", model, r.name, id, n)
			}
		}
	}
	for k, x := range fates {
		if x.best != acknowledged {
			continue
		}
		log := r.logs[k.model]
		at := int(x.sequence) - 1
		if at < 0 || at >= len(log) || log[at].id != x.id {
			f.lost[k] = true
			f.problem("%s of %s: %s was acknowledged at %d and is not there", k.model, r.name, x.id, x.sequence)
		}
	}
}

// answered checks the answers against a serial replay of the log.
func (f *findings) answered(fates map[name]*fate, logs map[string][]placed, serial map[string]replay) {
	for model, log := range logs {
		answers := serial[model].answers
		if len(answers) != len(log) {
			f.problem("%s: %d observations, a serial replay has %d", model, len(log), len(answers))
			continue
		}
		for n, p := range log {
			x := fates[name{model, p.id}]
			switch {
			case x == nil:
			case x.best == unknown:
				f.learnedUnknown++
			case x.best == acknowledged && x.answer != answers[n]:
				f.problem("%s: %s was answered %s, a serial replay answers %s", model, p.id, x.answer, answers[n])
			}
		}
	}
}

// digests checks that every replica has the state of a serial replay.
func (f *findings) digests(replicas []replica, serial map[string]replay) {
	for _, r := range replicas {
		for model, s := range serial {
			if r.digests[model] != s.digest {
				f.problem("%s of %s: digest %s, that of a serial replay is %s", model, r.name, r.digests[model], s.digest)
			}
		}
	}
}

// rows checks that all replicas have the same rows, that each acknowledged prediction is pending unless its label was
// learned, and that nothing else is pending.
func (f *findings) rows(predicted map[name]bool, replicas []replica) {
	for _, r := range replicas {
		for model, rows := range r.rows {
			learned := map[string]bool{}
			for _, p := range r.logs[model] {
				learned[p.id] = true
			}
			first := replicas[0]
			for row, value := range rows {
				if other := first.rows[model][row]; other != value {
					f.problem("%s: %s has %s %s, %s has %q", model, r.name, row, value, first.name, other)
				}
				if id, pending := strings.CutPrefix(row, pendingRow); pending {
					if _, asked := predicted[name{model, id}]; !asked || learned[id] {
						f.problem("%s of %s: the prediction %s is pending: asked for %v, learned %v", model, r.name, id, asked, learned[id])
					}
				}
			}
			for row := range first.rows[model] {
				if _, ok := rows[row]; !ok {
					f.problem("%s: %s has no %s, %s has it", model, r.name, row, first.name)
				}
			}
			for n, acknowledged := range predicted {
				if _, ok := rows[pendingRow+n.id]; n.model == model && acknowledged && !ok && !learned[n.id] {
					f.lost[n] = true
					f.problem("%s of %s: the prediction %s was acknowledged and is not pending", model, r.name, n.id)
				}
			}
		}
	}
}

// stale checks every read: a read shows no observation before a client has sent it, and a process never goes back.
func (f *findings) stale(reads []sighting, fates map[name]*fate, logs map[string][]placed) {
	type seen struct {
		process int
		model   string
	}
	newest := map[seen]sighting{}
	for _, r := range slices.SortedFunc(slices.Values(reads), func(a, b sighting) int { return cmp.Compare(a.from, b.from) }) {
		log := logs[r.model]
		if r.sequence > uint64(len(log)) {
			f.problem("%s was read at %d, its log ends at %d", r.model, r.sequence, len(log))
			continue
		}
		if r.sequence > 0 {
			if x := fates[name{r.model, log[r.sequence-1].id}]; x != nil && x.first > r.until {
				f.problem("%s was read at %d before that was sent", r.model, r.sequence)
			}
		}
		if r.current || r.process == forwarded { // Another process may have answered.
			continue
		}
		k := seen{r.process, r.model}
		if before, ok := newest[k]; ok && before.until < r.from && before.sequence > r.sequence {
			f.problem("%s went back from %d to %d in one process", r.model, before.sequence, r.sequence)
		}
		if before, ok := newest[k]; !ok || before.sequence < r.sequence {
			newest[k] = r
		}
	}
}

// linearizable checks observations and current reads. The log decides observations of unknown outcome: learned at
// some time after they were sent, or never.
func (f *findings) linearizable(h history, fates map[name]*fate, logs map[string][]placed) {
	var operations []porcupine.Operation
	add := func(client int, from, until int64, e event) {
		operations = append(operations, porcupine.Operation{ClientId: client, Input: e, Call: from, Return: until})
	}
	for model, log := range logs {
		for n, p := range log {
			if x := fates[name{model, p.id}]; x != nil && x.best != rejected {
				add(0, x.first, x.acked, event{model, 'l', uint64(n + 1)})
			}
		}
	}
	for _, a := range h.attempts {
		if x := fates[name{a.model, a.id}]; a.result == acknowledged && a.until > x.acked {
			add(a.client, a.from, a.until, event{a.model, 'd', a.sequence})
		}
	}
	for _, r := range h.reads {
		if r.current {
			add(r.client, r.from, r.until, event{r.model, 'r', r.sequence})
		}
	}
	if got := porcupine.CheckOperationsTimeout(sequences(), operations, time.Minute); got != porcupine.Ok {
		f.problem("what %d calls saw is not linearizable: %v", len(operations), got)
		f.behind(h.reads, fates)
	}
}

// behind returns the current reads that saw fewer observations than were acknowledged before they began.
func (f *findings) behind(reads []sighting, fates map[name]*fate) {
	for _, r := range reads {
		for _, x := range fates {
			if r.current && x.model == r.model && x.best == acknowledged && x.acked < r.from && x.sequence > r.sequence {
				f.problem("%s was read at %d from %d ns on, %d was acknowledged at %d ns", r.model, r.sequence, r.from, x.sequence, x.acked)
			}
		}
	}
}

// gap is the longest time without an acknowledgement that begins within a second after a fault.
func gap(attempts []attempt, fault int64) time.Duration {
	return pauseIn(attempts, fault, fault+int64(time.Second))
}

// pauseIn is the longest time without an acknowledgement that begins between two times.
func pauseIn(attempts []attempt, from, until int64) time.Duration {
	var ends []int64
	for _, a := range attempts {
		if a.result == acknowledged && a.until >= from {
			ends = append(ends, a.until)
		}
	}
	slices.Sort(ends)
	longest, last := int64(0), from
	for _, end := range ends {
		if last > until {
			break
		}
		longest, last = max(longest, end-last), end
	}
	return time.Duration(longest)
}

// spread is the median and the greatest of durations, 0 of none.
func spread(all []time.Duration) (median, worst time.Duration) {
	if len(all) == 0 {
		return 0, 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2], sorted[len(sorted)-1]
}
