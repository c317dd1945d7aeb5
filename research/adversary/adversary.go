// Package adversary plays the greedy adversary of the PKAWV experiments (HAL
// 2019, §5, Figure 2; NeurIPS 2019, Appendix G) against the learners. In every
// round the adversary plays the input in [−1,1]^d and the label in [−1,1] that
// raise the learner's regret most.
//
// The regret is against the best function of the whole Gaussian RKHS. It does
// not depend on the space of the learner, so all learners compare:
//
//	regret_t = Σ (y_s − ŷ_s)² − L*_t,  L*_t = min_f [ Σ (y_s − f(x_s))² + λ‖f‖² ]
//
// ŷ_s is the answer of Predict before the round. An adversary cannot know more:
// pkawv_nystrom draws a centre when the label has come.
//
// The package calls the learners directly and not through the API, because the
// adversary tries thousands of rounds before it plays one.
package adversary

import (
	"context"
	"errors"
	"fmt"

	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
)

// ErrSetting is wrapped by the errors of a setting that cannot be played.
var ErrSetting = errors.New("adversary: invalid setting")

const (
	// MaxRounds is the largest number of rounds: the limit of kernel_awv.
	MaxRounds = 4000
	// MaxStarts is the largest number of local searches in a round.
	MaxStarts = 1000

	sigma, lambda = 1.0, 1.0
	papersStep    = 0.001
)

// Setting says what is played.
type Setting struct {
	// Rounds is the number of rounds, Dimension the dimension d of the input.
	Rounds, Dimension int
	// Seed seeds the adversary's search, the random play and the learners.
	Seed uint64
	// Starts is the number of local searches in a round.
	Starts int
}

// Check returns an ErrSetting if the setting cannot be played.
func (s Setting) Check() error {
	for _, v := range []struct {
		name         string
		value, upper int
	}{{"rounds", s.Rounds, MaxRounds}, {"starts", s.Starts, MaxStarts}, {"dimension", s.Dimension, catalog.MaxDimension}} {
		if v.value < 1 || v.value > v.upper {
			return fmt.Errorf("%w: %s %d, want 1 to %d", ErrSetting, v.name, v.value, v.upper)
		}
	}
	for _, e := range Entrants(s) {
		if _, _, err := catalog.Complete(e.Spec); err != nil {
			return fmt.Errorf("%w: dimension %d: %w", ErrSetting, s.Dimension, err)
		}
	}
	return nil
}

// Entrant is a learner that the adversary plays against.
type Entrant struct {
	Name string
	Spec model.Spec
}

// NameKernel is the name of the exact learner.
const NameKernel = "kernel_awv"

// Entrants are the learners, with a Gaussian kernel and σ = λ = 1 as in the
// papers. The other parameters are the server's defaults. FOGD plays twice: with
// the step of the server, and with the step of the papers.
func Entrants(s Setting) []Entrant {
	bandwidth, ridge := sigma, lambda
	of := func() *model.Kernel { return &model.Kernel{Kind: "gaussian", Sigma: &bandwidth} }
	spec := func() model.Spec { return model.Spec{Dimension: s.Dimension, Seed: s.Seed, Scaling: model.Unscaled()} }

	exact := spec()
	exact.KernelAWV = &model.KernelAWV{Kernel: of(), Lambda: &ridge}
	all := []Entrant{{NameKernel, exact}}
	for _, degree := range degrees() {
		taylor := spec()
		taylor.PKAWVTaylor = &model.PKAWVTaylor{Sigma: &bandwidth, Degree: &degree, Lambda: &ridge}
		all = append(all, Entrant{taylorName(degree), taylor})
	}
	nystrom := spec()
	nystrom.PKAWVNystrom = &model.PKAWVNystrom{Kernel: of(), Lambda: &ridge}
	all = append(all, Entrant{"pkawv_nystrom", nystrom})
	step := papersStep
	fogd, slow := spec(), spec()
	fogd.FOGD = &model.FOGD{Kernel: of()}
	slow.FOGD = &model.FOGD{Kernel: of(), FirstOrder: model.FirstOrder{Step: &step}}
	return append(all, Entrant{"fogd", fogd}, Entrant{"fogd step=" + number(step), slow})
}

func taylorName(degree int) string { return fmt.Sprintf("pkawv_taylor M=%d", degree) }

// degrees are the degrees of the Taylor basis in the papers.
func degrees() []int { return []int{2, 3, 4} }

// Move is one round: the adversary's input and label.
type Move struct {
	X []float64
	Y float64
}

// Round is the result of a move.
type Round struct {
	Move
	// Prediction is ŷ, the answer of Predict before the label.
	Prediction float64
	// Regret is the regret after the round.
	Regret float64
	// Accounted is the regret with the losses that Observe answers. It differs
	// from Regret for a dictionary that grows: there Observe predicts after the
	// input has become a centre.
	Accounted float64
	// Certificate and Bound are C and B² log det(A/λ) of exact Kernel-AWV for
	// the same moves.
	Certificate, Bound float64
}

// Course is the rounds of one learner.
type Course struct {
	Name   string
	Rounds []Round
}

// Final returns the last round.
func (c Course) Final() Round { return c.Rounds[len(c.Rounds)-1] }

// Result is the result of a setting.
type Result struct {
	Setting Setting
	// Greedy and Random have one course for each entrant, in the order of
	// Entrants. Every entrant has its own adversary. The random play is the same
	// for all.
	Greedy, Random []Course
}

// Play plays the setting against every entrant. It reports each entrant to say.
func Play(ctx context.Context, s Setting, say func(format string, args ...any)) (*Result, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	r := &Result{Setting: s}
	moves := random(s)
	for _, e := range Entrants(s) {
		greedy, err := Greedy(ctx, s, e)
		if err != nil {
			return nil, err
		}
		oblivious, err := Oblivious(e, moves)
		if err != nil {
			return nil, err
		}
		r.Greedy, r.Random = append(r.Greedy, greedy), append(r.Random, oblivious)
		say("%-18s regret %.3f, under random play %.3f", e.Name, greedy.Final().Regret, oblivious.Final().Regret)
	}
	return r, nil
}

// Greedy plays the adversary against one entrant.
func Greedy(ctx context.Context, s Setting, e Entrant) (Course, error) {
	g, err := NewGame(e.Spec)
	if err != nil {
		return Course{}, err
	}
	search := newSearch(s)
	for range s.Rounds {
		if err := ctx.Err(); err != nil {
			return Course{}, fmt.Errorf("adversary: %w", err)
		}
		m, err := search.worst(g)
		if err != nil {
			return Course{}, err
		}
		if _, err := g.Play(m); err != nil {
			return Course{}, err
		}
	}
	return Course{Name: e.Name, Rounds: g.rounds}, nil
}

// Oblivious plays given moves against one entrant.
func Oblivious(e Entrant, moves []Move) (Course, error) {
	g, err := NewGame(e.Spec)
	if err != nil {
		return Course{}, err
	}
	for _, m := range moves {
		if _, err := g.Play(m); err != nil {
			return Course{}, err
		}
	}
	return Course{Name: e.Name, Rounds: g.rounds}, nil
}
