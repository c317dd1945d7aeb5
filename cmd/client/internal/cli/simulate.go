package cli

import (
	"context"
	"fmt"
	"strings"

	"hindsight/client"
	"hindsight/cmd/client/internal/stream"
	"hindsight/cmd/internal/command"
)

const (
	defaultRounds    = 2000
	defaultDimension = 5
)

// simulate builds "simulate".
func (e *env) simulate() verb {
	s := &simulate{}
	return verb{
		use:   "simulate --stream KIND --model ID",
		short: "Take a built-in stream through a model",
		long: fmt.Sprintf(`Take a built-in stream through a model: predict, then observe, round by round.
The same parameters and seed give the same stream.

stationary   One random function of norm 2 in the space of a Gaussian kernel
             with sigma^2 = d/3, at uniform inputs in [-1, 1]^d, plus noise of
             standard deviation 0.1.
switching    The synthetic data of the AdaRaker paper (JMLR 2019, Section 5.1):
             y_t = sum over s <= t of a_s k_s(x_t, x_s), standard Gaussian
             inputs, a_s = 1 + N(0, 0.01^2), Gaussian kernels. Their sigma^2
             changes over the intervals of Table 1 (Dataset 2); after 6500
             rounds the table starts again. The sum covers the newest %d
             rounds, in the paper all rounds. Inputs and labels are scaled to
             [0, 1] over the whole stream, as in the paper. Therefore the
             stream depends on --rounds.
drifting     A random function of this kind, part of which turns slowly into
             other functions: a full turn takes 4000 rounds.
adversarial  Four inputs in turn. Each label is 1 or -1, and its sign is not
             the sign of the prediction. No learner can do well; the guarantee
             holds.
`, stream.MaxCentres) + roundsHelp,
		example: `  hindsight simulate --stream drifting --rounds 8000 --model drift \
      --create '{"dimension": 4}'`,
		flags: func(f *flagSet) {
			s.flags(f)
			f.StringVar(&s.kind, "stream", "", strings.Join(stream.Kinds(), ", ")+" (required)")
			f.fixed("stream", stream.Kinds())
			f.IntVar(&s.total, "rounds", defaultRounds, "number of rounds")
			f.IntVar(&s.dimension, "dimension", 0, "dimension of the input; 0: that of the model")
			f.Uint64Var(&s.seed, "seed", 1, "seed of the stream")
		},
		before: func(*call) error { return s.check() },
		run: func(c *call) error {
			if err := s.begin(c.ctx(), e, c.client); err != nil {
				return err
			}
			source, err := stream.New(stream.Kind(s.kind), s.total, s.dimension, s.seed)
			if err != nil {
				return &command.UsageError{Err: err}
			}
			return s.take(c.ctx(), e, c.client, source)
		},
	}
}

// simulate has the flags of "simulate".
type simulate struct {
	rounds
	kind      string
	dimension int
	seed      uint64
}

// check finds mistakes before the first call.
func (s *simulate) check() error {
	if s.kind == "" {
		return command.Usagef("--stream is missing: one of %s", strings.Join(stream.Kinds(), ", "))
	}
	if err := s.rounds.check(); err != nil {
		return err
	}
	if _, err := stream.New(stream.Kind(s.kind), min(s.total, 0), max(s.dimension, 1), s.seed); err != nil {
		return &command.UsageError{Err: err}
	}
	if s.dimension < 0 {
		return command.Usagef("--dimension %d is negative", s.dimension)
	}
	s.title = s.kind
	return nil
}

// begin creates the model if the flags say so, and sets the dimension.
func (s *simulate) begin(ctx context.Context, e *env, c *client.Client) error {
	if s.create != "" {
		spec, err := e.createSpec(s.create)
		if err != nil {
			return err
		}
		if s.dimension == 0 {
			s.dimension = int(spec.GetDimension())
		}
		if s.dimension == 0 {
			s.dimension = defaultDimension
		}
		return startModel(ctx, c, s.model, spec, s.dimension, 1)
	}
	if s.dimension > 0 {
		return nil
	}
	m, err := c.Model(s.model).Get(ctx)
	if err != nil {
		return err
	}
	s.dimension = int(m.GetSpec().GetDimension())
	return nil
}
