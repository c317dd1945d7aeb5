package replica

import (
	"context"
	"fmt"
	"math"

	"hindsight/internal/engine/account/confidence"
	"hindsight/internal/engine/hosted"
	"hindsight/internal/engine/record"
)

// Difference is the mean loss of a model minus the mean loss of the model that it is compared with, of classifiers the
// error rates.
type Difference struct {
	confidence.Interval
	// Paired: both models predicted the same observations, and the losses are prequential. Otherwise chance
	// assigned each observation to one of the models, and the losses are served ones.
	Paired bool
	// Observations counts the observations of the model, First the observations of the other model.
	Observations, First float64
}

func (s *sums) paired() *Difference {
	i, ok := confidence.Paired(s.pairs)
	if !ok {
		return nil
	}
	return &Difference{Interval: i, Paired: true, Observations: s.pairs.Count, First: s.pairs.Count}
}

func (s *sums) moments(classifier bool) confidence.Moments {
	if n := s.classes.Served.Errors; classifier {
		return confidence.Moments{Count: s.classes.Observations, Sum: n, Squares: n, Absolute: n}
	}
	n := s.whole.Served.Loss
	return confidence.Moments{Count: s.whole.Observations, Sum: n, Squares: s.squares, Absolute: n}
}

// Base loads a model, and returns the present point in its life.
func Base(ctx context.Context, m *hosted.Model) (b record.Base, err error) {
	for {
		if err := m.Load(ctx); err != nil {
			return b, err
		}
		if s, err := sumsOf(m); err != nil || s.known {
			epoch := m.Registered().Restored.Epoch
			return record.Base{Sequence: s.sequence, Epoch: epoch, Squares: s.squares, Sums: string(s.encode())}, err
		}
		// The model has left memory again.
	}
}

// since returns the losses of a model since a point in its life. They are not known if a restore has undone
// the point.
func since(m *hosted.Model, b *record.Base) (s sums, known bool, err error) {
	restored := m.Registered().Restored
	if s, err = sumsOf(m); err != nil {
		return s, false, err
	}
	from, err := decodeSums([]byte(b.Sums))
	if err != nil {
		return s, false, fmt.Errorf("engine: read the figures that a share began with of model %q: %w: %w", m.ID(), hosted.ErrCorrupt, err)
	}
	if s.sequence < b.Sequence || restored.Epoch > b.Epoch+1 || restored.Epoch == b.Epoch+1 && restored.Sequence < b.Sequence {
		return sums{}, false, nil
	}
	s.sequence -= b.Sequence
	s.whole.Sub(from.whole)
	s.classes.Sub(from.classes)
	s.squares = math.Max(0, s.squares-b.Squares)
	return s, s.known, nil
}

// CompareShare compares two models in memory that each learn what they predicted, since their share began.
func CompareShare(first, second *hosted.Model, share *record.Share) ([]Comparison, error) {
	out := make([]Comparison, 2)
	var figures [2]sums
	all := true
	for n, m := range []*hosted.Model{first, second} {
		s, known, err := since(m, []*record.Base{&share.First, &share.Second}[n])
		if err != nil {
			return nil, err
		}
		all = all && known
		figures[n] = s
		out[n] = Comparison{ID: m.ID(), Learner: m.Learner(), Observations: s.sequence, Own: s.whole}
		if m.Spec().Classes != nil {
			out[n].OwnClasses = &figures[n].classes
		}
	}
	a, b := figures[1].moments(out[1].OwnClasses != nil), figures[0].moments(out[0].OwnClasses != nil)
	if i, ok := confidence.Independent(a, b); ok && all {
		out[1].Difference = &Difference{Interval: i, Observations: a.Count, First: b.Count}
	}
	return out, nil
}
