package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"hindsight/cmd/internal/command"
	"hindsight/cmd/research/adversary"
)

const (
	adversaryRounds    = 80
	adversaryStarts    = 32
	adversaryDimension = 5
)

// newAdversary builds "adversary".
func newAdversary(p *command.Program) *cobra.Command {
	a := &adversaryFlags{}
	cmd := &cobra.Command{
		Use:   "adversary",
		Short: "Play a greedy adversary against the learners",
		Long: `Play the greedy adversary of the PKAWV papers against the learners.
In every round the adversary looks for the input in [-1, 1]^d and the
label in [-1, 1] that raise the learner's regret most. The regret is against the
best function of the whole Gaussian space in hindsight, its penalty included.
A random stream is played for comparison.

The learners run inside this program, without a server: the adversary tries
thousands of rounds before it plays one.

--out receives adversary.csv, the regret of every learner after every round, and
adversary.svg, which draws it. The same flags give the same files. With the defaults
the run takes about half a minute.`,
		Example: `  hindsight-research adversary
  hindsight-research adversary --rounds 40 --dimension 2 --starts 8 --out results`,
		Args: command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.run(cmd.Context(), p) },
	}
	flags := cmd.Flags()
	flags.IntVar(&a.Rounds, "rounds", adversaryRounds, "number of rounds")
	flags.IntVar(&a.Dimension, "dimension", adversaryDimension, "dimension of the input")
	flags.Uint64Var(&a.Seed, "seed", 1, "seed of the search, the random play and the learners")
	flags.IntVar(&a.Starts, "starts", adversaryStarts, "local searches in a round")
	flags.StringVar(&a.out, "out", resultsDirectory(), "directory of the results")
	return cmd
}

// adversaryFlags is what the flags of "adversary" say.
type adversaryFlags struct {
	adversary.Setting
	out string
}

func (a *adversaryFlags) run(ctx context.Context, p *command.Program) error {
	if err := a.Check(); err != nil {
		return &command.UsageError{Err: err}
	}
	r, err := adversary.Play(ctx, a.Setting, p.Say)
	if err != nil {
		return err
	}
	if err := adversary.Save(a.out, r); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	entries := adversaryEntries(r)
	document := struct {
		Entries []adversaryEntry `json:"entries"`
	}{entries}
	return p.Emit(document, func(w *command.Page) {
		w.Printf("learner\tregret\trandom play\n")
		for _, v := range entries {
			w.Printf("%s\t%s\t%s\n", v.Learner, command.Number(float64(v.Regret)), command.Number(float64(v.Random)))
		}
	})
}

// adversaryEntry is the result of one learner, as JSON.
type adversaryEntry struct {
	Learner string         `json:"learner"`
	Regret  command.Finite `json:"regret"`
	Random  command.Finite `json:"randomRegret"`
	// Certificate and Bound belong to exact Kernel-AWV on the same moves.
	Certificate command.Finite `json:"kernelAwvCertificate"`
	Bound       command.Finite `json:"kernelAwvBound"`
}

func adversaryEntries(r *adversary.Result) []adversaryEntry {
	var entries []adversaryEntry
	for i, c := range r.Greedy {
		f := c.Final()
		entries = append(entries, adversaryEntry{
			Learner: c.Name, Regret: command.Finite(f.Regret), Random: command.Finite(r.Random[i].Final().Regret),
			Certificate: command.Finite(f.Certificate), Bound: command.Finite(f.Bound),
		})
	}
	return entries
}
