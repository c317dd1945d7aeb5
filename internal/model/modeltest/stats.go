package modeltest

import (
	"bytes"
	"fmt"
	"math"
	"sync"
	"testing"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
)

// stats: at every stage of a learner, Stats and Size do what model.Learner promises.
func (s Subject) stats(t *testing.T) {
	samples := Samples(9, s.Dimension, max(80, min(s.Warm, 200)))
	l := s.New()
	for n := range samples {
		if !RaceDetector && (n < 3 || n%16 == 0) {
			if err := CheckStats(l); err != nil {
				t.Fatalf("after %d observations: %v", n, err)
			}
			if err := CheckReport(l); err != nil {
				t.Fatalf("after %d observations: %v", n, err)
			}
			if err := CheckWeights(l); err != nil {
				t.Fatalf("after %d observations: %v", n, err)
			}
		}
		s.learn(t, l, samples[n:n+1])
	}
	s.readers(t, l, samples[0].X)
}

// CheckWeights fails unless the weights of a model.Mixing learner are in [0, 1], have names,
// allocate nothing when dst has room, and are the means over the outputs of the weights of
// the experts in Report, if any.
func CheckWeights(l model.Learner) error {
	mixing, ok := model.As[model.Mixing](l)
	if !ok {
		return nil
	}
	const before = 7
	weights, names, experts := mixing.AppendWeights([]float64{before})[1:], mixing.WeightNames(), l.Report(model.ReportOptions{}).Experts
	if len(names) < len(weights) {
		return fmt.Errorf("%d weights of %d names", len(weights), len(names))
	}
	room := make([]float64, 1, 1+2*len(weights))
	if got := testing.AllocsPerRun(10, func() { room = mixing.AppendWeights(room[:1]) }); got != 0 && !RaceDetector {
		return fmt.Errorf("AppendWeights allocates %g times", got)
	}
	for k, w := range weights {
		if !(w >= 0 && w <= 1+1e-9) {
			return fmt.Errorf("%s weighs %g", names[k], w)
		}
		sum := 0.0
		for j := k; j < len(experts); j += len(weights) {
			sum += experts[j].Weight
		}
		if mean := sum * float64(len(weights)) / float64(len(experts)); len(experts) > 0 && math.Abs(w-mean) > 1e-12 {
			return fmt.Errorf("%s weighs %g, Report says %g", names[k], w, mean)
		}
	}
	return nil
}

// CheckStats fails unless Stats and Size allocate nothing and agree about the memory of the
// state, and codec.Append allocates only its Visitor when dst has capacity. Stats that solves a dense
// system allocates memory, and fails.
func CheckStats(l model.Learner) error {
	stats := l.Stats()
	if size := l.Size(); size != stats.StateBytes || (size == 0 && stats.Observations > 0) {
		return fmt.Errorf("the size is %d bytes, Stats says %d", size, stats.StateBytes)
	}
	room, err := codec.Append(nil, l.Visit)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	for _, call := range []struct {
		name    string
		allowed float64
		f       func()
	}{
		{"Stats", 0, func() { _ = l.Stats() }},
		{"Size", 0, func() { _ = l.Size() }},
		{"Append with capacity", 2, func() { room, _ = codec.Append(room[:0], l.Visit) }}, // It has not failed above.
	} {
		if n := testing.AllocsPerRun(20, call.f); n > call.allowed {
			return fmt.Errorf("%s allocates %g times", call.name, n)
		}
	}
	return nil
}

// CheckReport fails unless the figures that both Stats and Report know are equal.
func CheckReport(l model.Learner) error {
	s, r := l.Stats(), l.Report(model.ReportOptions{EffectiveDimension: true})
	if math.IsNaN(s.Regret) != math.IsNaN(s.HindsightLoss) {
		return fmt.Errorf("of regret %g and hindsight loss %g one is known", s.Regret, s.HindsightLoss)
	}
	if math.IsNaN(r.Regret) != math.IsNaN(r.HindsightLoss) || math.IsNaN(r.Regret) != math.IsNaN(r.RegretUnpenalized) {
		return fmt.Errorf("a part of the regret is known: %+v", r)
	}
	if solved := math.IsNaN(s.Regret) && !math.IsNaN(r.Regret); solved != (s.ReportFlops > 0) {
		return fmt.Errorf("regret %g, reported %g at %d multiply-adds", s.Regret, r.Regret, s.ReportFlops)
	}
	if !math.IsNaN(s.Regret) && (s.Regret != r.Regret || s.HindsightLoss != r.HindsightLoss || s.CertificateOK != r.CertificateOK) {
		return fmt.Errorf("stats %+v, report %+v", s, r)
	}
	if r.CertificateOK && !s.CertificateOK {
		return fmt.Errorf("the certificate fails in stats alone: %+v, %+v", s, r)
	}
	if r.RegretUnpenalized < r.Regret {
		return fmt.Errorf("the penalty is %g", r.RegretUnpenalized-r.Regret)
	}
	if d := r.EffectiveDimension; !math.IsNaN(d) && !(d >= -1e-9 && d <= float64(s.Features)+1e-9) {
		return fmt.Errorf("an effective dimension of %g in %d features", d, s.Features)
	}
	if r = l.Report(model.ReportOptions{}); !math.IsNaN(r.EffectiveDimension) {
		return fmt.Errorf("an effective dimension of %g, not asked for", r.EffectiveDimension)
	}
	return nil
}

// readers: calls that only read may run concurrently, with equal answers.
func (s Subject) readers(t *testing.T, l model.Learner, x []float64) {
	t.Helper()
	wantStats, wantState, wantValue := fmt.Sprint(l.Stats()), State(t, l.Visit), predict(t, l, x)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			var p model.Prediction
			for range 8 {
				if got := fmt.Sprint(l.Stats()); got != wantStats {
					t.Errorf("%s, alone %s", got, wantStats)
				}
				if got, err := codec.Append(nil, l.Visit); err != nil || !bytes.Equal(got, wantState) {
					t.Errorf("another state beside other readers (%v)", err)
				}
				if err := l.Predict(&p, x); err != nil || fmt.Sprint(p) != fmt.Sprint(wantValue) {
					t.Errorf("%v, %v, alone %v", p, err, wantValue)
				}
				_ = l.Size()
			}
		})
	}
	group.Wait()
}

// Growth is the factor by which r grows in StatsGrowth.
const Growth = 16

// StatsGrowth measures how the cost of Stats grows with r, given a learner of r and one of
// Growth·r features. The benchmark fails if the cost grows by more than four times the growth
// of r: O(r) stays below, and O(r²) is four times above. The shortest of many measurements
// counts, and more of them are taken before a failure, because other work on the machine
// disturbs them.
func StatsGrowth(b *testing.B, small, large model.Learner) {
	b.Helper()
	measure := func(l model.Learner) float64 {
		before := b.Elapsed()
		for range 4 {
			_ = l.Stats()
		}
		return (b.Elapsed() - before).Seconds()
	}
	least, most := math.Inf(1), math.Inf(1)
	for b.Loop() {
		for n := 0; n < 10 || (n < 100 && most > 4*Growth*least); n++ {
			least, most = min(least, measure(small)), min(most, measure(large))
		}
		if most > 4*Growth*least {
			b.Fatalf("Stats costs %.0f times as much with %d times the features", most/least, Growth)
		}
	}
	b.ReportMetric(most/least, "growth")
	b.ReportMetric(0, "ns/op") // Of no meaning.
}
