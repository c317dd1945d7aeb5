package main_test

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// network carries all connections of a test: between its servers, and from its clients to them.
// Each end has a number. Bytes from one end to another pass a gate, which delays or holds them.
// The gate delivers held bytes later, as after a real partition.
type network struct {
	t     *testing.T
	mu    sync.Mutex
	gates map[[2]int]*gate
	links []*link
}

func newNetwork(t *testing.T) *network {
	t.Helper()
	n := &network{t: t, gates: map[[2]int]*gate{}}
	t.Cleanup(func() {
		n.heal()
		n.mu.Lock()
		defer n.mu.Unlock()
		for _, l := range n.links {
			l.close()
		}
	})
	return n
}

// gate is that of the bytes from one end to another.
func (n *network) gate(from, to int) *gate {
	n.mu.Lock()
	defer n.mu.Unlock()
	g := n.gates[[2]int{from, to}]
	if g == nil {
		g = &gate{opened: make(chan struct{})}
		close(g.opened)
		n.gates[[2]int{from, to}] = g
	}
	return g
}

// link returns the address at which an end reaches the address of another.
func (n *network) link(from, to int, address string) string {
	n.t.Helper()
	listener, err := new(net.ListenConfig).Listen(n.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		n.t.Fatal(err)
	}
	l := &link{listener: listener, to: address, forth: n.gate(from, to), back: n.gate(to, from), ended: make(chan struct{})}
	l.running.Go(l.accept)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.links = append(n.links, l)
	return listener.Addr().String()
}

// all changes every gate that a condition chooses.
func (n *network) all(chosen func(from, to int) bool, change func(*gate)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for ends, g := range n.gates {
		if chosen(ends[0], ends[1]) {
			change(g)
		}
	}
}

// heal opens every gate, and ends every delay and every bound of the rate.
func (n *network) heal() {
	n.all(func(int, int) bool { return true }, func(g *gate) {
		g.set(false, 0)
		g.limit(0)
	})
}

// gate delays or holds bytes of one direction.
type gate struct {
	mu     sync.Mutex
	shut   bool
	delay  time.Duration
	opened chan struct{} // Closed while the gate is open.
	// rate bounds the bytes a second of all connections together, unless 0. The last byte passes at free.
	rate int
	free time.Time
}

// queued is the time of the bytes that a gate with a rate takes ahead, as the queue of a router does.
const queued = 50 * time.Millisecond

// limit bounds the bytes a second.
func (g *gate) limit(rate int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rate = rate
}

// reserve returns when n bytes have passed a gate with a rate, and how long the sender must wait before it sends more.
func (g *gate) reserve(now time.Time, n int) (due time.Time, wait time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.rate == 0 {
		return now, 0
	}
	if g.free.Before(now) {
		g.free = now
	}
	g.free = g.free.Add(time.Duration(n) * time.Second / time.Duration(g.rate))
	return g.free, g.free.Sub(now) - queued
}

func (g *gate) set(shut bool, delay time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.delay = delay
	switch {
	case shut && !g.shut:
		g.opened = make(chan struct{})
	case !shut && g.shut:
		close(g.opened)
	}
	g.shut = shut
}

func (g *gate) state() (delay time.Duration, opened chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.delay, g.opened
}

// link accepts connections at its own address and continues them to another.
type link struct {
	listener    net.Listener
	to          string
	forth, back *gate
	running     sync.WaitGroup
	ended       chan struct{}
}

func (l *link) close() {
	close(l.ended)
	_ = l.listener.Close() // Its goroutine ends with it.
	l.running.Wait()
}

func (l *link) accept() {
	for {
		near, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.running.Go(func() { l.carry(near) })
	}
}

// carry continues one connection. Whoever dials through a shut gate hears nothing until it opens.
func (l *link) carry(near net.Conn) {
	defer func() { _ = near.Close() }()
	for _, g := range []*gate{l.forth, l.back} {
		if _, opened := g.state(); !l.wait(opened) {
			return
		}
	}
	far, err := new(net.Dialer).Dial("tcp", l.to)
	if err != nil {
		return
	}
	defer func() { _ = far.Close() }()
	var ways sync.WaitGroup
	stop := make(chan struct{})
	ways.Go(func() { l.pass(near, far, l.forth) })
	ways.Go(func() { l.pass(far, near, l.back) })
	go func() {
		ways.Wait()
		close(stop)
	}()
	select {
	case <-stop:
	case <-l.ended:
		_ = errors.Join(near.Close(), far.Close()) // Both ways end.
		<-stop
	}
}

func (l *link) wait(opened chan struct{}) bool {
	select {
	case <-opened:
		return true
	case <-l.ended:
		return false
	}
}

// chunk is bytes, and when they are due.
type chunk struct {
	bytes []byte
	due   time.Time
}

// pass copies one direction. The reader goes on while bytes are delayed.
func (l *link) pass(from, to net.Conn, g *gate) {
	const chunks, size = 256, 16 << 10
	queue := make(chan chunk, chunks)
	var writer sync.WaitGroup
	writer.Go(func() {
		broken := false
		for c := range queue { // After an error the rest is dropped, so that the reader ends.
			broken = broken || !l.deliver(to, c, g)
		}
		if half, ok := to.(*net.TCPConn); ok && !broken {
			_ = half.CloseWrite() // The other side may have gone.
			return
		}
		_ = errors.Join(from.Close(), to.Close())
	})
	for {
		b := make([]byte, size)
		n, err := from.Read(b)
		if n > 0 {
			delay, _ := g.state()
			due, wait := g.reserve(time.Now(), n)
			queue <- chunk{b[:n], due.Add(delay)}
			if wait > 0 {
				time.Sleep(wait) // The sender waits for its share of the rate.
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) { // A reset: nothing more of either direction counts.
				_ = to.Close()
			}
			break
		}
	}
	close(queue)
	writer.Wait()
}

func (l *link) deliver(to net.Conn, c chunk, g *gate) bool {
	if wait := time.Until(c.due); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-l.ended:
			return false
		}
	}
	if _, opened := g.state(); !l.wait(opened) {
		return false
	}
	_, err := to.Write(c.bytes)
	return err == nil
}

var (
	importSize  = flag.Int("import", 4, "megabytes of a model that is imported")
	importRate  = flag.Int("import-rate", 2000, "kilobytes a second of each link during an import")
	importKills = flag.Int("import-kills", 3, "owners killed during an import")
)

// exported returns the export of a model whose state has about the given number of bytes, and the digest of the state.
func exported(t *testing.T, bytes int) (out []byte, digest string) {
	t.Helper()
	dimension := 1
	for 4*dimension*dimension < bytes { // Half of a symmetric matrix.
		dimension++
	}
	p := launch(t, t.TempDir())
	_, err := p.models.CreateModel(t.Context(), &hindsightv1.CreateModelRequest{Id: "large", Spec: &hindsightv1.ModelSpec{
		Dimension: int32(dimension), Scaling: unscaled(), Learner: &hindsightv1.ModelSpec_LinearAwv{LinearAwv: &hindsightv1.LinearAwv{}},
	}})
	require.NoError(t, err)
	digest = p.digest(t, "large")
	stream, err := p.models.ExportModel(t.Context(), &hindsightv1.ExportModelRequest{Model: "large"})
	require.NoError(t, err)
	for len(out) == 0 || err == nil {
		var part *hindsightv1.ExportModelResponse
		part, err = stream.Recv()
		out = append(out, part.GetChunk()...)
	}
	p.terminate(t)
	return out, digest
}

// imports sends a model to a server.
func (p *process) imports(t *testing.T, id string, data []byte) error {
	t.Helper()
	stream, err := p.models.ImportModel(t.Context())
	if err != nil {
		return err
	}
	for part := range slices.Chunk(data, 256<<10) {
		if stream.Send(&hindsightv1.ImportModelRequest{Id: id, Chunk: part}) != nil {
			break // CloseAndRecv returns the error.
		}
	}
	_, err = stream.CloseAndRecv()
	return err
}

// insistImport imports a model until a server has it.
func (f *fleet) insistImport(id string, data []byte) (attempts int) {
	f.t.Helper()
	for late := time.Now().Add(patience + time.Duration(len(data))*8*time.Microsecond); ; { // An eighth of a megabyte a second.
		attempts++
		err := f.owner().process.imports(f.t, id, data)
		switch status.Code(err) {
		case codes.OK, codes.AlreadyExists:
			return attempts
		case codes.Unavailable: // Another owner, or an unknown outcome.
			f.t.Logf("attempt %d of an import: %v", attempts, err)
		default:
			f.t.Fatal(err)
		}
		if time.Now().After(late) {
			f.t.Fatalf("%d attempts of an import", attempts)
		}
	}
}

// limit bounds the bytes a second of each link among the servers.
func (f *fleet) limit(rate int) {
	f.net.all(func(from, to int) bool { return from != clientsEnd && to != clientsEnd }, func(g *gate) { g.limit(rate) })
}

// pulse observes a model again and again, and keeps how long each call took.
type pulse struct {
	mu    sync.Mutex
	times []time.Duration
	odd   map[codes.Code]int
	stop  chan struct{}
	ended sync.WaitGroup
}

func newPulse(t *testing.T, p *process, model string) *pulse {
	t.Helper()
	out := &pulse{odd: map[codes.Code]int{}, stop: make(chan struct{})}
	out.ended.Go(func() {
		rng := rand.New(rand.NewPCG(1, 2))
		for n := 0; ; n++ {
			select {
			case <-out.stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
			_, r := draw(rng, model)
			r.Features = []float64{1, 2}
			r.ObservationId = fmt.Sprint("pulse-", n)
			began := time.Now()
			_, err := p.predictor.Observe(t.Context(), r)
			took := time.Since(began)
			out.mu.Lock()
			out.times = append(out.times, took)
			out.odd[status.Code(err)]++
			out.mu.Unlock()
		}
	})
	return out
}

// take describes the calls since the last take, and returns their 99th percentile.
func (p *pulse) take() (text string, high time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	times := p.times
	p.times = nil
	slices.Sort(times)
	if len(times) == 0 {
		return "no observations", 0
	}
	high = times[len(times)*99/100]
	return fmt.Sprintf("%d observations, median %v, p99 %v, at most %v", len(times), times[len(times)/2], high, times[len(times)-1]), high
}

// A large import passes slow links among the servers. No server ends, and the observations of others hardly wait.
func TestALargeImportPassesSlowLinks(t *testing.T) {
	endToEnd(t)
	data, digest := exported(t, *importSize*1_000_000)
	f := newFleet(t, 1, 3, 1)
	f.limit(*importRate * 1000)
	p := newPulse(t, f.owner().process, "linear")
	<-time.After(time.Second)
	p.take()
	<-time.After(3*time.Second + time.Duration(len(data))*100*time.Nanosecond)
	usual, before := p.take()
	began := time.Now()
	attempts := f.insistImport("large", data)
	took := time.Since(began)
	during, high := p.take()
	t.Logf("%d bytes in %v, %d attempts\nbefore: %s\nduring: %s", len(data), took, attempts, usual, during)
	close(p.stop)
	p.ended.Wait()
	t.Logf("codes: %v", p.odd)
	assert.LessOrEqual(t, high, max(took/2, 20*before), "an import delays other observations by %v", high)
	f.limit(0)
	f.hasEverywhere("large", digest)
	for _, m := range f.members {
		m.process.terminate(t)
	}
}

// hasEverywhere waits until every server has a model with a state.
func (f *fleet) hasEverywhere(model, digest string) {
	f.t.Helper()
	for _, m := range f.members {
		eventually(f.t, fmt.Sprintf("server %d has %s", m.number, model), func() bool {
			r, err := m.process.models.GetModelStats(f.t.Context(), &hindsightv1.GetModelStatsRequest{Model: model})
			return err == nil && r.GetStats().GetStateDigest() == digest
		})
	}
}

// An owner that is killed in the middle of an import leaves the whole model or none, and the observations of others are
// learned once.
func TestOwnersEndInTheMiddleOfAnImport(t *testing.T) {
	endToEnd(t)
	t.Parallel()
	data, digest := exported(t, *importSize*1_000_000)
	f := newFleet(t, uint64(time.Now().UnixNano()), 3, 1)
	f.brief = true
	f.limit(*importRate * 1000)
	f.load(*tortureClients)
	whole := 0
	for n := range *importKills {
		model := fmt.Sprint("large-", n)
		owner := f.owner()
		ended := make(chan error, 1)
		go func() { ended <- owner.process.imports(t, model, data) }()
		f.pause(1, *importSize*1_000_000/(*importRate)*5/4)
		f.killed(owner)
		if err := <-ended; err == nil {
			whole++
		} else if status.Code(err) != codes.Unavailable && status.Code(err) != codes.Canceled { // The kill closes the connection.
			t.Errorf("import %d: %v", n, err)
		}
		f.awaitVoters()
		f.insistImport(model, data)
		f.hasEverywhere(model, digest)
		_, err := f.owner().process.models.DeleteModel(t.Context(), &hindsightv1.DeleteModelRequest{Model: model})
		assert.True(t, err == nil || status.Code(err) == codes.Unavailable, err)
	}
	f.limit(0)
	t.Logf("%d kills, %d after the import", *importKills, whole)
	f.report(f.finish())
}
