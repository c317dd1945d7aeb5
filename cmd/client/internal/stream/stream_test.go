package stream_test

import (
	"errors"
	"io"
	"math"
	"slices"
	"testing"

	"hindsight/cmd/client/internal/stream"
)

type taken struct {
	x     []float64
	label float64
}

func take(t *testing.T, kind stream.Kind, rounds, dimension int, seed uint64) []taken {
	t.Helper()
	s, err := stream.New(kind, rounds, dimension, seed)
	if err != nil {
		t.Fatal(err)
	}
	var out []taken
	for {
		r, err := s.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, taken{r.Features, r.Labels([]float64{0.5})[0]})
	}
}

func TestStreamsAreThoseOfTheirSeed(t *testing.T) {
	for _, name := range stream.Kinds() {
		kind := stream.Kind(name)
		a, b, c := take(t, kind, 300, 3, 1), take(t, kind, 300, 3, 1), take(t, kind, 300, 3, 2)
		equal := func(p, q taken) bool { return slices.Equal(p.x, q.x) && p.label == q.label }
		if len(a) != 300 || !slices.EqualFunc(a, b, equal) || slices.EqualFunc(a, c, equal) {
			t.Errorf("%s is not the stream of its seed", kind)
		}
		for n, r := range a {
			for _, v := range append(slices.Clone(r.x), r.label) {
				if len(r.x) != 3 || math.IsNaN(v) || math.Abs(v) > 100 {
					t.Fatalf("%s, round %d: %+v", kind, n, r)
				}
			}
		}
	}
}

// Section 5.1: inputs and labels are normalised to [0, 1], and both ends are
// reached.
func TestSwitchingIsNormalised_JMLR_Section51(t *testing.T) {
	low, high := math.Inf(1), math.Inf(-1)
	for _, r := range take(t, stream.Switching, 2500, 2, 3) {
		low, high = math.Min(low, r.label), math.Max(high, r.label)
		for _, v := range r.x {
			if v < 0 || v > 1 {
				t.Fatalf("input %v", r.x)
			}
		}
	}
	if low != 0 || high != 1 {
		t.Errorf("labels from %g to %g", low, high)
	}
}

func TestAdversaryOpposes(t *testing.T) {
	s, err := stream.New(stream.Adversarial, 10, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Next()
	if err != nil {
		t.Fatal(err)
	}
	for served, want := range map[float64]float64{0.1: -1, -0.1: 1, 0: 1} {
		if got := r.Labels([]float64{served}); len(got) != 1 || got[0] != want {
			t.Errorf("%g is answered with %v", served, got)
		}
	}
}

func TestBadParameters(t *testing.T) {
	if _, err := stream.New("sinking", 1, 1, 1); !errors.Is(err, stream.ErrUnknown) {
		t.Errorf("unknown: %v", err)
	}
	for _, c := range [][2]int{{-1, 1}, {1, 0}, {1, stream.MaxDimension + 1}} {
		if _, err := stream.New(stream.Stationary, c[0], c[1], 1); !errors.Is(err, stream.ErrParameter) {
			t.Errorf("%v: %v", c, err)
		}
	}
}
