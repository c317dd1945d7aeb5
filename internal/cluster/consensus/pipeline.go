package consensus

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// pipelines are the open pipelines of a transport.
type pipelines struct {
	sync.Mutex
	closed bool
	open   map[*pipeline]struct{}
}

// pipeline sends entries to one server without waiting for each answer. In the library a pipeline without a reader
// of answers blocks its sender for ever: the reader leaves after an answer that the sender has not seen yet. So a sender
// that waits for longer than any answer takes closes the pipeline, and the library begins another.
type pipeline struct {
	raft.AppendPipeline
	of *pipelines
}

// AppendEntriesPipeline implements raft.Transport.
func (t *transport) AppendEntriesPipeline(id raft.ServerID, to raft.ServerAddress) (raft.AppendPipeline, error) {
	inner, err := t.NetworkTransport.AppendEntriesPipeline(id, to)
	if err != nil {
		return nil, err
	}
	p := &pipeline{inner, &t.pipelines}
	t.pipelines.Lock()
	defer t.pipelines.Unlock()
	if t.pipelines.closed {
		_ = inner.Close() // It never fails.
		return nil, raft.ErrPipelineReplicationNotSupported
	}
	if t.pipelines.open == nil {
		t.pipelines.open = map[*pipeline]struct{}{}
	}
	t.pipelines.open[p] = struct{}{}
	return p, nil
}

// AppendEntries implements raft.AppendPipeline.
func (p *pipeline) AppendEntries(args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	stuck := time.AfterFunc(rpcTimeout, func() { _ = p.AppendPipeline.Close() }) // It never fails.
	defer stuck.Stop()
	return p.AppendPipeline.AppendEntries(args, resp)
}

// Close implements raft.AppendPipeline.
func (p *pipeline) Close() error {
	p.of.Lock()
	defer p.of.Unlock()
	delete(p.of.open, p)
	return p.AppendPipeline.Close()
}

// abort closes the open pipelines, whose leader has gone. If the transport ends, there are no more.
func (p *pipelines) abort(end bool) {
	p.Lock()
	defer p.Unlock()
	p.closed = p.closed || end
	for one := range p.open {
		_ = one.AppendPipeline.Close() // It never fails.
	}
}
