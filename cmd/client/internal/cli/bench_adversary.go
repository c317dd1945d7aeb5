package cli

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"hindsight/cmd/client/internal/adversary"
)

const (
	adversaryRounds = 80
	adversaryStarts = 32
)

// newBenchAdversary builds "bench adversary".
func newBenchAdversary(e *env) *cobra.Command {
	b := &benchAdversary{}
	cmd := &cobra.Command{
		Use:   "adversary",
		Short: "Play a greedy adversary against the learners, write a report",
		Long: `Play the greedy adversary of the PKAWV papers against the learners and write a
report: in every round the input and the label, in [-1, 1]^d and [-1, 1], that
raise the learner's regret most. The regret is against the best function of the
whole Gaussian space in hindsight, its penalty included. A random stream is
played for contrast.

No server is asked: the adversary considers thousands of rounds before it plays
one, so the learners run in the client.

--out receives adversary.md, the report; adversary.csv, the regret of every
learner after every round; adversary.svg, the same drawn. The same flags give
the same files. The defaults take about half a minute.`,
		Example: `  hindsight bench adversary
  hindsight bench adversary --rounds 40 --dimension 2 --starts 8 --out results`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return b.run(cmd.Context(), e) },
	}
	flags := cmd.Flags()
	flags.IntVar(&b.Rounds, "rounds", adversaryRounds, "number of rounds")
	flags.IntVar(&b.Dimension, "dimension", defaultDimension, "dimension of the input")
	flags.Uint64Var(&b.Seed, "seed", 1, "seed of the search, the random play and the learners")
	flags.IntVar(&b.Starts, "starts", adversaryStarts, "local searches in a round")
	flags.StringVar(&b.out, "out", filepath.FromSlash("docs/results"), "directory of the results")
	return cmd
}

// benchAdversary is what the flags of "bench adversary" say.
type benchAdversary struct {
	adversary.Setting
	out string
}

func (b *benchAdversary) run(ctx context.Context, e *env) error {
	if err := b.Check(); err != nil {
		return &usageError{err}
	}
	r, err := adversary.Play(ctx, b.Setting, e.say)
	if err != nil {
		return err
	}
	if err := adversary.Save(b.out, r); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	entries := adversaryEntries(r)
	document := struct {
		Entries []adversaryEntry `json:"entries"`
	}{entries}
	return e.emit(document, func(w *page) {
		w.printf("learner\tregret\trandom play\n")
		for _, v := range entries {
			w.printf("%s\t%s\t%s\n", v.Learner, number(float64(v.Regret)), number(float64(v.Random)))
		}
	})
}

// adversaryEntry is what one learner came to, as JSON.
type adversaryEntry struct {
	Learner string `json:"learner"`
	Regret  finite `json:"regret"`
	Random  finite `json:"randomRegret"`
	// Certificate and Bound are exact Kernel-AWV's for the same moves.
	Certificate finite `json:"kernelAwvCertificate"`
	Bound       finite `json:"kernelAwvBound"`
}

func adversaryEntries(r *adversary.Result) []adversaryEntry {
	var entries []adversaryEntry
	for i, c := range r.Greedy {
		f := c.Final()
		entries = append(entries, adversaryEntry{
			Learner: c.Name, Regret: finite(f.Regret), Random: finite(r.Random[i].Final().Regret),
			Certificate: finite(f.Certificate), Bound: finite(f.Bound),
		})
	}
	return entries
}
