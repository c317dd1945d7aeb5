package main_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

var ratios = flag.Duration("ratios", 0, "compare a cluster with one server, so long for each figure")

// rate is how many observations a second so many clients get acknowledged. Each of 64 models has
// clients of its own.
func rate(t *testing.T, run string, clients int, predictors ...hindsightv1.PredictionServiceClient) float64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), *ratios)
	defer cancel()
	var answered atomic.Int64
	var calling sync.WaitGroup
	begin := time.Now()
	for c := range clients {
		calling.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(c), 7))
			p := predictors[c%len(predictors)]
			for n := 0; ctx.Err() == nil; n++ {
				_, err := p.Observe(ctx, &hindsightv1.ObserveRequest{
					Model: fmt.Sprint("ratio-", c%64), Features: []float64{rng.NormFloat64(), rng.NormFloat64()},
					ObservationId: fmt.Sprint(run, "-", c, "-", n), Target: &hindsightv1.ObserveRequest_Label{Label: rng.NormFloat64()},
				})
				switch {
				case err == nil:
					answered.Add(1)
				case ctx.Err() == nil && status.Code(err) != codes.DeadlineExceeded:
					t.Errorf("%s: %v", run, err)
					return
				}
			}
		})
	}
	calling.Wait()
	return float64(answered.Load()) / time.Since(begin).Seconds()
}

// compared returns the rate of one set of connections over the rate of another. The sets take turns, so that other
// load of the machine affects both.
func compared(t *testing.T, run string, clients int, base, other []hindsightv1.PredictionServiceClient) float64 {
	t.Helper()
	const turns = 3
	var sums [2]float64
	for turn := range turns {
		sums[0] += rate(t, fmt.Sprint(run, "-base-", turn), clients, base...)
		sums[1] += rate(t, fmt.Sprint(run, "-other-", turn), clients, other...)
	}
	return sums[1] / sums[0]
}

func createRatios(t *testing.T, p *process) {
	t.Helper()
	for n := range 64 {
		spec := &hindsightv1.ModelSpec{Dimension: 2, Scaling: unscaled(), Learner: &hindsightv1.ModelSpec_LinearAwv{LinearAwv: &hindsightv1.LinearAwv{}}}
		if _, err := p.models.CreateModel(t.Context(), &hindsightv1.CreateModelRequest{Id: fmt.Sprint("ratio-", n), Spec: spec}); err != nil {
			t.Fatal(err)
		}
	}
}

// connections opens several connections to one address, so that no single connection limits the rate.
func connections(t *testing.T, address string) (predictors []hindsightv1.PredictionServiceClient) {
	t.Helper()
	for range 4 {
		connection, err := grpc.NewClient(address, insecureTransport())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = connection.Close() }) // It may have broken.
		predictors = append(predictors, hindsightv1.NewPredictionServiceClient(connection))
	}
	return predictors
}

// TestRatios compares three servers with one on the same machine at the same time. It prints
// ratios, and times of a planned move.
func TestRatios(t *testing.T) {
	if *ratios == 0 {
		t.Skip("make cluster-ratios runs it")
	}
	one := launch(t, t.TempDir())
	createRatios(t, one)
	f := newFleet(t, 1, 3, 1)
	owner := f.owner()
	createRatios(t, owner.process)
	alone, straight, through := connections(t, one.address()), connections(t, owner.grpc), connections(t, f.other(owner).grpc)
	rate(t, "warm", 16, alone...)
	rate(t, "warm", 16, straight...)
	for _, c := range []struct {
		clients int
		bar     float64
	}{{1, 0.6}, {16, 0.4}, {64, 0.3}, {256, 0.2}} {
		got := compared(t, fmt.Sprint("appends-", c.clients), c.clients, alone, straight)
		t.Logf("durable observations, %3d clients: three servers / one = %.2f (bar %.1f)", c.clients, got, c.bar)
	}
	t.Logf("observations, 64 clients: through another server / straight = %.2f (bar 0.8)", compared(t, "through", 64, straight, through))
	f.ages(through[0])
	f.moves()
}

// ages measures how old a replica is under load.
func (f *fleet) ages(at hindsightv1.PredictionServiceClient) {
	f.t.Helper()
	load := connections(f.t, f.owner().grpc)
	done := make(chan struct{})
	go func() {
		defer close(done)
		rate(f.t, "aged", 16, load...)
	}()
	var ages []int
	for busy := true; busy; {
		select {
		case <-done:
			busy = false
		case <-time.After(time.Millisecond):
			var trailer metadata.MD
			_, err := at.Predict(f.t.Context(), &hindsightv1.PredictRequest{
				Model: "ratio-0", Features: []float64{1, 1}, Remember: proto.Bool(false),
			}, grpc.Trailer(&trailer))
			age, bad := strconv.Atoi(strings.Join(trailer.Get("hindsight-age-ms"), ""))
			if err != nil || bad != nil {
				f.t.Fatalf("age %q, %v", trailer, err)
			}
			ages = append(ages, age)
		}
	}
	slices.Sort(ages)
	f.t.Logf("age of a replica under load: median %d ms, p99 %d ms of %d (bar 100 ms)", ages[len(ages)/2], ages[len(ages)*99/100], len(ages))
}

// moves measures how long no observation is acknowledged while the owner is moved.
func (f *fleet) moves() {
	f.t.Helper()
	f.load(8)
	var gaps []time.Duration
	var begins []int64
	for range 20 {
		f.settle()
		f.pause(300, 600)
		f.owner()
		begins = append(begins, f.since())
		f.moved()
	}
	f.pause(1000, 1100)
	f.end()
	for _, at := range begins {
		gaps = append(gaps, gap(f.mu.attempts, at))
	}
	slices.Sort(gaps)
	f.t.Logf("planned moves: no acknowledgement for %d ms in the median, %d ms in the 95th percentile, %d ms at worst of %d (bar 100 ms)",
		gaps[len(gaps)/2].Milliseconds(), gaps[len(gaps)*95/100].Milliseconds(), gaps[len(gaps)-1].Milliseconds(), len(gaps))
}
