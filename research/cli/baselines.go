package cli

import (
	"context"
	"fmt"
	"math"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"hindsight/cmd/internal/command"
	"hindsight/cmd/research/baselines"
	"hindsight/cmd/research/comparison"
	"hindsight/cmd/research/papers"
)

// newBaselines builds "papers baselines".
func newBaselines(p *command.Program) *cobra.Command {
	f := &papersFlags{}
	cmd := &cobra.Command{
		Use:   "baselines [--data DIR]",
		Short: "Take published streams through the baselines of the papers",
		Long: `Take published streams through the methods that the papers compare their
learners with, and compare with what the papers print. "papers" does so
too, if it is given no --learners. This command needs no server.

The cost of a round of most of these methods grows with the number of rounds
before it. Therefore the first ` + strconv.Itoa(baselines.MaxRounds) + ` rounds of a stream are taken, or
--rows if that is less. A stream of this length takes half a minute.

--out receives the directory ` + comparison.Directory + `: NAME.csv has one row for each method and step,
summary.csv the numbers beside those that the paper prints; NAME.svg has the loss over
the rounds, NAME_regret.svg the regret of learners of the server, curves/NAME.csv the
points of both. With --streams the summary covers only these: choose another --out.`,
		Example: `  hindsight-research papers baselines --data streams
  hindsight-research papers baselines --streams air --rows 2000 --out /tmp/results`,
		Args: command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			plan, err := f.plan()
			if err != nil {
				return err
			}
			if missing := plan.Missing(); missing != nil {
				return p.Emit(baselinesDocument(nil), func(w *command.Page) { w.Printf("%s", papers.Absent(plan, missing)) })
			}
			results, err := f.compare(cmd.Context(), p, plan)
			if err != nil {
				return err
			}
			return p.Emit(baselinesDocument(results), func(w *command.Page) { writeBaselines(w, results) })
		},
	}
	data := streamsDirectory
	if dir := os.Getenv(papers.StreamsEnv); dir != "" {
		data = dir
	}
	flags := cmd.Flags()
	flags.StringVar(&f.data, "data", data, "directory of the streams; the environment variable "+papers.StreamsEnv+" changes the default")
	flags.StringVar(&f.out, "out", resultsDirectory(), "directory of the results")
	flags.IntVar(&f.rows, "rows", 0, "use at most this many rows of a stream")
	flags.StringSliceVar(&f.streams, "streams", nil, "only these streams, with commas between them")
	return cmd
}

// compare takes the streams of the plan through the baselines and writes the results.
// The files of a stream are written as soon as it is finished.
func (f *papersFlags) compare(ctx context.Context, p *command.Program, plan papers.Plan) ([]*comparison.Result, error) {
	bench := &comparison.Bench{Data: plan.Data, Rows: plan.Rows, Say: p.Say}
	var results []*comparison.Result
	for _, s := range plan.Streams {
		r, err := bench.Stream(ctx, s)
		if err != nil {
			return nil, err
		}
		if r == nil {
			continue
		}
		if err := comparison.Save(f.out, r); err != nil {
			return nil, fmt.Errorf("--out: %w", err)
		}
		results = append(results, r)
	}
	if err := comparison.SaveSummary(f.out, results); err != nil {
		return nil, fmt.Errorf("--out: %w", err)
	}
	return results, nil
}

// baselinesEntry is the result of one baseline with one step, as JSON.
type baselinesEntry struct {
	Stream    string         `json:"stream"`
	Method    string         `json:"method"`
	Factor    command.Finite `json:"factor"`
	Rounds    int            `json:"rounds"`
	MeanLoss  command.Finite `json:"meanLoss"`
	ErrorRate command.Finite `json:"errorRate"`
}

// baselinesDocument is the JSON of a run.
func baselinesDocument(results []*comparison.Result) any {
	entries := []baselinesEntry{}
	for _, r := range results {
		for _, c := range r.Courses {
			step, wrong := math.NaN(), math.NaN()
			if c.Step != baselines.NoStep {
				step = baselines.Factor(c.Step)
			}
			if r.Stream.Signs {
				wrong = c.ErrorRate
			}
			entries = append(entries, baselinesEntry{
				Stream: r.Stream.Name, Method: c.Method, Factor: command.Finite(step), Rounds: r.Rounds,
				MeanLoss: command.Finite(c.MeanLoss), ErrorRate: command.Finite(wrong),
			})
		}
	}
	return struct {
		Entries []baselinesEntry `json:"entries"`
	}{entries}
}

// writeBaselines writes the losses with the stated step for people.
func writeBaselines(w *command.Page, results []*comparison.Result) {
	w.Printf("stream\tmethod\trounds\tloss\terrors\n")
	for _, r := range results {
		for _, c := range r.Courses {
			if c.Step != baselines.NoStep && c.Step != baselines.Stated {
				continue
			}
			wrong := ""
			if r.Stream.Signs {
				wrong = fmt.Sprintf("%.2f %%", 100*c.ErrorRate)
			}
			w.Printf("%s\t%s\t%d\t%s\t%s\n", r.Stream.Name, c.Method, r.Rounds, command.Number(c.MeanLoss), wrong)
		}
	}
}
