package cluster

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	clusterv1 "hindsight/api/proto/hindsight/cluster/v1"
	"hindsight/internal/clock"
	"hindsight/internal/cluster/consensus"
	"hindsight/internal/engine/storage"
)

const (
	// A server asks the voters for their digests up to compareAttempts times, because they may not have applied the entry or
	// learned the sequence yet. While no server differs, it asks up to checkAttempts times.
	compareAttempts = 10
	checkAttempts   = 3
	compareRetry    = time.Second
	// At most pendingChecks checks wait for the comparison of another one.
	pendingChecks = 16
	// The time between two repairs of a group doubles from minRepairPause to maxRepairPause. It begins anew after twice
	// that time, and at least maxRepairPause, without a repair.
	minRepairPause = 10 * time.Minute
	maxRepairPause = 24 * time.Hour
)

// check is a digest of this server's copy of a model after an entry of the log.
type check struct {
	model  string
	index  uint64
	digest storage.Digest
}

// repairs limits how often this server replaces its store of a group. A difference may return, for example because the
// servers' processors differ.
type repairs struct {
	mu   sync.Mutex
	last time.Time
	// pause is the smallest time after last until the next repair.
	pause time.Duration
}

// begin begins a repair, or returns when the next repair may begin.
func (r *repairs) begin(now time.Time) (next time.Time, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch since := now.Sub(r.last); {
	case r.pause == 0, since >= max(2*r.pause, maxRepairPause):
		r.pause = minRepairPause
	case since < r.pause:
		return r.last.Add(r.pause), false
	default:
		r.pause = min(2*r.pause, maxRepairPause)
	}
	r.last = now
	return now.Add(r.pause), true
}

// Compare compares the digest of this server's copy of a model after an entry with the digests of the voters. They decide
// which server is wrong: if a majority agrees, a server that differs replaces its store, and an owner that differs first
// hands the ownership on. Without a majority no store is replaced. Compare does not wait.
func (n *Node) Compare(model string, index uint64, digest storage.Digest) {
	select {
	case n.checks <- check{model, index, digest}:
	default: // Other comparisons are pending. A difference that lasts shows again at the next digest.
	}
}

// Lost replaces the store of this server, unless it is the owner's, because this server cannot recover a model. Lost does
// not wait.
func (n *Node) Lost(model string) {
	if l := n.consensus.Load(); l != nil && !l.Owns() {
		n.repair(n.log.With(zap.String("model", model)), l, "this server cannot recover a model")
	}
}

func (n *Node) compareAll(ctx context.Context) {
	var compared []uint64 // The newest entries, the oldest first.
	for {
		select {
		case c := <-n.checks:
			if l := n.consensus.Load(); l != nil && !slices.Contains(compared, c.index) { // Several servers report the same difference.
				compared = append(compared[max(0, len(compared)-pendingChecks):], c.index)
				n.compare(ctx, l, c)
			}
		case <-ctx.Done():
			return
		}
	}
}

// compare asks the voters for their digests, and repairs this server if it is wrong.
func (n *Node) compare(ctx context.Context, l *consensus.Log, c check) {
	log := n.log.With(zap.String("model", c.model), zap.Uint64("entry", c.index))
	split := false
	for attempt := 1; attempt <= compareAttempts && (split || attempt <= checkAttempts); attempt++ {
		said, voters, unheard := n.vote(ctx, l, c)
		open := false
		for _, part := range []func(storage.Digest) string{
			func(d storage.Digest) string { return d.Rows }, func(d storage.Digest) string { return d.State },
		} {
			v := count(said, voters, part)
			split = split || v.split
			switch n.decide(ctx, log, l, v, part(c.digest), unheard) {
			case repaired:
				return
			case undecided:
				open = true
			case decided:
			}
		}
		if !open || !clock.Sleep(ctx, compareRetry) {
			return
		}
	}
	if split {
		log.Error("the servers have different copies of a model, and too few servers answer to tell which is wrong: no server replaces its store")
	}
}

type verdict int

const (
	// decided: no server differs, or another server repairs itself, or no server can be repaired.
	decided verdict = iota
	// undecided: more servers may answer the next question.
	undecided
	// repaired: this server replaces its store, if it may.
	repaired
)

// decide decides by a count of digests, and repairs this server if it is wrong.
func (n *Node) decide(ctx context.Context, log *zap.Logger, l *consensus.Log, v ballot, digest string, unheard int) verdict {
	owner, known := l.Owner()
	switch {
	case digest == "":
	case !v.split:
		if len(v.of)+unheard < v.voters {
			return undecided
		}
	case v.winner == digest && known && v.of[owner.ID] != "":
		if v.of[owner.ID] != digest { // The owner has received the question, and compares too.
			log.Warn("a majority of the servers has this server's copy of a model, and the owner differs")
		}
	case v.winner != "" && v.winner != digest && l.Owns():
		n.yield(ctx, log, l, v)
		return undecided
	case v.winner != "" && v.winner != digest && known && v.of[owner.ID] == v.winner:
		n.repair(log, l, "a majority of the servers has another copy of a model")
		return repaired
	case v.winner == "" && len(v.of) == v.voters:
		log.Error("the servers have different copies of a model, and no majority agrees: no server replaces its store")
	default:
		return undecided
	}
	return decided
}

// ballot has the digests of the voters that know them, by their ids.
type ballot struct {
	of     map[string]string
	voters int
	// split: the digests differ.
	split bool
	// winner is the digest of a majority of the voters, empty if there is none.
	winner string
}

func count(said map[string]storage.Digest, voters int, part func(storage.Digest) string) ballot {
	v := ballot{of: map[string]string{}, voters: voters}
	votes := map[string]int{}
	for id, d := range said {
		digest := part(d)
		if digest == "" {
			continue
		}
		v.of[id] = digest
		if votes[digest]++; 2*votes[digest] > voters {
			v.winner = digest
		}
	}
	v.split = len(votes) > 1
	return v
}

// vote asks the voters for their digests, and counts those that do not answer.
func (n *Node) vote(ctx context.Context, l *consensus.Log, c check) (said map[string]storage.Digest, voters, unheard int) {
	said = map[string]storage.Digest{n.self.ID: c.digest}
	var asking sync.WaitGroup
	var mu sync.Mutex
	for _, m := range l.Members() {
		if !m.Voter {
			continue
		}
		voters++
		if m.ID == n.self.ID {
			continue
		}
		asking.Go(func() {
			digest, err := n.ask(ctx, m, c)
			mu.Lock()
			defer mu.Unlock()
			if said[m.ID] = digest; err != nil {
				unheard++
				n.log.Debug("a server does not tell the digest of a model", zap.String("address", m.Address), zap.Error(err))
			}
		})
	}
	asking.Wait()
	return said, voters, unheard
}

func (n *Node) ask(ctx context.Context, m Member, c check) (storage.Digest, error) {
	client, err := n.host.client(m.Address)
	if err != nil {
		return storage.Digest{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	said, err := client.Digest(ctx, &clusterv1.DigestRequest{
		Group: n.number, Model: c.model, Index: c.index, Rows: c.digest.Rows, State: c.digest.State,
	})
	return storage.Digest{Rows: said.GetRows(), State: said.GetState()}, err
}

// yield hands the ownership to a server with the digest of the majority. This server is wrong, and every other server
// would take over what it has.
func (n *Node) yield(ctx context.Context, log *zap.Logger, l *consensus.Log, v ballot) {
	log.Error("the owner's copy of a model differs from the copy of a majority of the servers: the owner hands the ownership on")
	for _, m := range l.Members() {
		if v.of[m.ID] != v.winner {
			continue
		}
		err := n.Move(ctx, m.ID)
		if err == nil || !l.Owns() {
			return
		}
		log.Warn("the owner cannot hand the ownership on", zap.String("to", m.Address), zap.Error(err))
	}
}

// repair requests the owner's store as a replacement for the store of this server. Restart closes when the
// replacement has arrived. Repairs of a group become rarer.
func (n *Node) repair(log *zap.Logger, l *consensus.Log, why string) {
	next, ok := n.host.groups[n.number].repairs.begin(n.o.Now())
	if !ok {
		log.Error(why+": this server has replaced its store before, and does so again not before a pause", zap.Time("next", next))
		return
	}
	log.Error(why+": this server fetches the owner's store", zap.Time("next", next))
	n.isBehind(l.Applied())
}

func (s memberServer) Digest(ctx context.Context, r *clusterv1.DigestRequest) (*clusterv1.DigestResponse, error) {
	n, _, _, done, err := s.joined(ctx, r.GetGroup(), false)
	if err != nil {
		return nil, err
	}
	defer done()
	theirs := storage.Digest{Rows: r.GetRows(), State: r.GetState()}
	here := n.digest(r.GetModel(), r.GetIndex(), theirs)
	if here.Differs(theirs) {
		n.Compare(r.GetModel(), r.GetIndex(), here)
	}
	return &clusterv1.DigestResponse{Rows: here.Rows, State: here.State}, nil
}
