package cluster

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	clusterv1 "hindsight/api/proto/hindsight/cluster/v1"
	"hindsight/internal/cluster/consensus"
)

const (
	// A server asks the voters for their digests up to compareAttempts times, because they may not have learned the
	// sequence yet.
	compareAttempts = 10
	compareRetry    = time.Second
	// The time between two repairs of a group doubles from minRepairPause to maxRepairPause. It begins anew after twice
	// that time, and at least maxRepairPause, without a repair.
	minRepairPause = 10 * time.Minute
	maxRepairPause = 24 * time.Hour
)

// difference is a state of a model that differs from another server's. The digest is empty if this server cannot
// recover the state.
type difference struct {
	model    string
	sequence uint64
	digest   string
}

// repairs limits how often this server replaces its store of a group. A difference may return, for example because the
// servers' processors differ.
type repairs struct {
	mu   sync.Mutex
	last time.Time
	// pause is the least time after last until the next repair.
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

// Differs reports a state of this server that differs from the owner's. The digests of the voters decide which server is
// wrong: if a majority agrees, a server that differs replaces its store, and an owner that differs first hands the
// ownership on. Without a majority no store is replaced. An empty digest says that this server cannot recover the
// state. Differs does not wait.
func (n *Node) Differs(model string, sequence uint64, digest string) {
	select {
	case n.differing <- difference{model, sequence, digest}:
	default: // Another comparison is pending. A difference that lasts is found again.
	}
}

// compareWhenDiffering compares digests until ctx ends.
func (n *Node) compareWhenDiffering(ctx context.Context) {
	var last difference
	for {
		select {
		case d := <-n.differing:
			l := n.consensus.Load()
			if l == nil || d == last && d.digest != "" {
				continue // Several servers report the same difference.
			}
			last = d
			n.compare(ctx, l, d)
		case <-ctx.Done():
			return
		}
	}
}

// compare asks the voters for their digests, and repairs this server if it is wrong.
func (n *Node) compare(ctx context.Context, l *consensus.Log, d difference) {
	log := n.log.With(zap.String("model", d.model), zap.Uint64("sequence", d.sequence))
	if d.digest == "" {
		if !l.Owns() {
			n.repair(log, l, "this server cannot recover a model")
		}
		return
	}
	for range compareAttempts {
		v := n.vote(ctx, l, d)
		owner, known := l.Owner()
		switch {
		case v.winner == d.digest && known && v.of[owner.ID] != "":
			if v.of[owner.ID] != d.digest { // The owner has received the question, and compares too.
				log.Warn("a majority of the servers has this server's state of a model, and the owner differs")
			}
			return
		case v.winner != "" && l.Owns():
			n.yield(ctx, log, l, v)
		case v.winner != "" && known && v.of[owner.ID] == v.winner:
			n.repair(log, l, "a majority of the servers has another state of a model")
			return
		case v.winner == "" && len(v.of) == v.voters:
			log.Error("the servers have different states of a model, and no majority agrees: no server replaces its store")
			return
		}
		if pause(ctx, compareRetry) != nil {
			return
		}
	}
	log.Error("the servers have different states of a model, and too few servers answer to tell which is wrong: no server replaces its store")
}

// ballot has the digests of the voters, by their ids.
type ballot struct {
	of     map[string]string
	voters int
	// winner is the digest of a majority of the voters, empty if there is none.
	winner string
}

// vote asks the voters for their digests of a state.
func (n *Node) vote(ctx context.Context, l *consensus.Log, d difference) ballot {
	v := ballot{of: map[string]string{}}
	var asking sync.WaitGroup
	var mu sync.Mutex
	for _, m := range l.Members() {
		if !m.Voter {
			continue
		}
		v.voters++
		if m.ID == n.self.ID {
			mu.Lock()
			v.of[m.ID] = d.digest
			mu.Unlock()
			continue
		}
		asking.Go(func() {
			if digest := n.ask(ctx, m, d); digest != "" {
				mu.Lock()
				defer mu.Unlock()
				v.of[m.ID] = digest
			}
		})
	}
	asking.Wait()
	count := map[string]int{}
	for _, digest := range v.of {
		if count[digest]++; 2*count[digest] > v.voters {
			v.winner = digest
		}
	}
	return v
}

// ask returns a member's digest of a state, empty if it is not known.
func (n *Node) ask(ctx context.Context, m Member, d difference) string {
	client, err := n.host.client(m.Address)
	if err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	said, err := client.Digest(ctx, &clusterv1.DigestRequest{Group: n.number, Model: d.model, Sequence: d.sequence, Digest: d.digest})
	if err != nil {
		n.log.Debug("a server does not tell the digest of a state", zap.String("address", m.Address), zap.Error(err))
		return ""
	}
	return said.GetDigest()
}

// yield hands the ownership to a server with the state of the majority. This server is wrong, and every other server
// would take over its state.
func (n *Node) yield(ctx context.Context, log *zap.Logger, l *consensus.Log, v ballot) {
	log.Error("the owner's state of a model differs from the state of a majority of the servers: the owner hands the ownership on")
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

// Digest implements clusterv1.MemberServiceServer.
func (s memberServer) Digest(ctx context.Context, r *clusterv1.DigestRequest) (*clusterv1.DigestResponse, error) {
	n, _, _, done, err := s.joined(ctx, r.GetGroup(), false)
	if err != nil {
		return nil, err
	}
	defer done()
	digest := n.digest(r.GetModel(), r.GetSequence())
	if digest != "" && digest != r.GetDigest() {
		n.Differs(r.GetModel(), r.GetSequence(), digest)
	}
	return &clusterv1.DigestResponse{Digest: digest}, nil
}
