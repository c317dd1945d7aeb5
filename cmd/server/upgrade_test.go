package main_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/engine/storage"
	"hindsight/internal/store"
)

// upgradedForAMoment runs a member by the next version, and then by this version again.
func (f *fleet) upgradedForAMoment() {
	f.t.Helper()
	m := f.sample(1)[0]
	f.replaceBy(m, true)
	f.replaceBy(m, false)
}

// formatOf returns the format of a member's directory.
func (f *fleet) formatOf(m *member) (format uint32) {
	f.t.Helper()
	text, err := os.ReadFile(filepath.Join(m.directory(f.group), "format"))
	if err == nil {
		_, err = fmt.Sscan(string(text), &format)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return format
}

// lower marks the directories of stopped servers with the format of this program, which reads the bytes of the next.
func (f *fleet) lower() {
	f.t.Helper()
	for _, m := range f.members {
		for group := range uint32(f.groups + 1) {
			name := filepath.Join(m.directory(group), "format")
			if _, err := os.Stat(name); !m.next || err != nil {
				continue
			}
			require.NoError(f.t, os.WriteFile(name, store.AppendFormat(nil, storage.Format, "v9.8"), 0o600))
		}
	}
}

// replaceBy restarts a member by the next version or by this one, as an operator does or after a kill.
func (f *fleet) replaceBy(m *member, next bool) {
	f.t.Helper()
	if f.rng.IntN(2) == 0 {
		f.kill(m)
	} else {
		f.terminate(m)
	}
	m.next = next
	f.start(m)
	f.awaitVoters()
	f.pause(100, 500)
}

// raised waits until all members have a format.
func (f *fleet) raised(format uint32) {
	f.t.Helper()
	for _, m := range f.members {
		eventually(f.t, fmt.Sprint("server ", m.number, " has format ", format), func() bool { return f.formatOf(m) == format })
	}
}

// rejects checks that this version neither serves the directory of a stopped member of the next version nor changes it.
func (f *fleet) rejects(m *member, want string) {
	f.t.Helper()
	before := contents(f.t, m.dir)
	m.next = false
	p, err := f.try(m)
	if err == nil {
		err = <-p.ended
		p.command = nil
	}
	if m.next = true; err == nil || !strings.Contains(err.Error(), want) {
		f.t.Errorf("the older program on server %d: %v, want %q", m.number, err, want)
	}
	after := contents(f.t, m.dir)
	delete(after, "LOCK")
	for path, sum := range before {
		if path != "LOCK" && after[path] != sum {
			f.t.Errorf("the older program changed %s", path)
		}
	}
}

// While clients learn, servers are upgraded and downgraded one after the other, some by a kill, the owner first or last. The
// format rises once all servers write it. After that an older program ends before it changes anything. What was
// acknowledged is learned once.
func TestRollingUpgrade(t *testing.T) {
	endToEnd(t)
	t.Parallel()
	oldest, newest := storage.Format, storage.Format+1
	f := newFleet(t, *tortureSeed, 3, 1)
	f.batch = *upgradeBatch
	f.load(8, []string{"linear", "named", "running", "taylor"}) // The cheap ones.
	from := f.since()
	for round := range *upgradeRounds {
		first := f.owner()
		if round%2 == 1 {
			first = f.other(first)
		}
		f.replaceBy(first, true)
		second := f.other(first)
		f.replaceBy(second, true)
		f.raised(oldest) // A server writes only the older format yet.
		f.replaceBy(second, false)
		f.replaceBy(first, false)
	}
	for slices.ContainsFunc(f.members, func(m *member) bool { return !m.next }) {
		m := f.owner()
		if m.next {
			m = f.other(m)
		}
		if !m.next {
			f.replaceBy(m, true)
		}
	}
	f.raised(newest)
	f.pauses(fmt.Sprint(*upgradeRounds, " upgrades and downgrades, and an upgrade"), from)
	f.rate(from)
	m := f.other(f.owner())
	f.terminate(m)
	f.rejects(m, "start version")
	if err := errors.Join(os.RemoveAll(m.dir), os.Mkdir(m.dir, 0o700)); err != nil { // A new member.
		t.Fatal(err)
	}
	f.rejects(m, "start version")
	f.start(m)
	f.awaitVoters()
	f.raised(newest)
	f.report(f.finish())
}

var (
	upgradeRounds = flag.Int("upgrade-rounds", 2, "how often a rolling upgrade is begun and taken back")
	upgradeBatch  = flag.Int("upgrade-batch", 4, "most observations of a batch during rolling upgrades, beside the first")
)

// rate logs how many labels a second the cluster acknowledged since a time.
func (f *fleet) rate(from int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	labels := 0
	for _, a := range f.mu.attempts {
		if a.result == acknowledged && !a.duplicate && a.from >= from {
			labels++
		}
	}
	f.t.Logf("%d labels a second", int64(labels)*int64(time.Second)/(f.since()-from))
}

// A server ends by SIGTERM while clients predict and observe, as a pod that is replaced,
// and another one begins with its directory and at its address. Health says NOT_SERVING
// before the connections end. The server exits with 0. Nothing that was acknowledged is
// lost, nothing is learned twice, and labels find the predictions that the first one made.
func TestDrainUnderLoad(t *testing.T) {
	endToEnd(t)
	const clients, each = 4, 100
	dir := t.TempDir()
	p := launch(t, dir, "--grpc-address", freePort(t))
	p.create(t)
	address, connection := p.address(), p.dial(t)
	health := must(healthv1.NewHealthClient(connection).Watch(t.Context(), &healthv1.HealthCheckRequest{}))(t)
	r, err := health.Recv()
	require.True(t, err == nil && r.GetStatus() == healthv1.HealthCheckResponse_SERVING, "health is %v, %v", r, err)
	var learned atomic.Int64
	third := make(chan struct{})
	failures := make(chan error, clients)
	for k := range clients {
		own := p.dial(t)
		go func() {
			failures <- load(t.Context(), hindsightv1.NewPredictionServiceClient(own), k, each, func() {
				if learned.Add(1) == clients*each/3 {
					close(third)
				}
			})
		}()
	}
	select {
	case <-third:
	case err := <-failures:
		t.Fatal(err)
	}
	require.NoError(t, p.command.Process.Signal(syscall.SIGTERM))
	r, err = health.Recv()
	assert.True(t, err == nil && r.GetStatus() == healthv1.HealthCheckResponse_NOT_SERVING, "after SIGTERM health is %v, %v", r, err)
	assert.NoError(t, p.await(t))
	before := learned.Load()
	p = launch(t, dir, "--grpc-address", address)
	assert.GreaterOrEqual(t, int64(p.stats(t).GetObservations()), before)
	for range clients {
		assert.NoError(t, <-failures)
	}
	assert.EqualValues(t, clients*each, p.stats(t).GetObservations())
	p.terminate(t)
}

// dial is a connection of its own to the server.
func (p *process) dial(t *testing.T) *grpc.ClientConn {
	t.Helper()
	connection := must(grpc.NewClient(p.address(), insecureTransport()))(t)
	t.Cleanup(func() { assert.NoError(t, connection.Close()) })
	return connection
}

func insecureTransport() grpc.DialOption {
	return grpc.WithTransportCredentials(insecure.NewCredentials())
}

// retry makes a call until a server answers.
func retry(call func() error) error {
	for {
		if err := call(); status.Code(err) != codes.Unavailable {
			return err
		}
	}
}

// load predicts and observes: every second observation is the label of the prediction
// before.
func load(ctx context.Context, c hindsightv1.PredictionServiceClient, k, n int, learned func()) error {
	last := ""
	for i := range n {
		x := []float64{float64(i % 7), float64(k)}
		var predicted *hindsightv1.PredictResponse
		err := retry(func() (err error) {
			predicted, err = c.Predict(ctx, &hindsightv1.PredictRequest{Model: "m", Features: x})
			return err
		})
		if err != nil {
			return fmt.Errorf("prediction %d: %w", i, err)
		}
		o := &hindsightv1.ObserveRequest{Model: "m", Target: &hindsightv1.ObserveRequest_Label{Label: 1}}
		if i%2 == 1 {
			o.PredictionId = last
		} else {
			o.Features, o.ObservationId = x, fmt.Sprint("o-", k, "-", i)
		}
		err = retry(func() error {
			_, err := c.Observe(ctx, o)
			return err
		})
		if err != nil {
			return fmt.Errorf("observation %d: %w", i, err)
		}
		learned()
		last = predicted.GetPrediction().GetPredictionId()
	}
	return nil
}
