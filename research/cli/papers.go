package cli

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"hindsight/cmd/internal/command"
	"hindsight/cmd/research/papers"
	"hindsight/cmd/research/remote"
)

// newPapers builds "papers".
func newPapers(p *command.Program) *cobra.Command {
	f := &papersFlags{}
	cmd := &cobra.Command{
		Use:   "papers [--server PATH] [--data DIR]",
		Short: "Take published streams through every learner, write tables",
		Long: `Take published streams through every learner and write tables of
losses, skills, prediction intervals, regrets and rates.

For every stream and learner a model is created, the rows are observed in their
order, and the model is deleted. Every row is predicted before it is learned. Some
streams are also taken through auto with labels 1, 10 and 100 rounds late.
With --server the program starts a server on free ports of 127.0.0.1 with a
temporary directory. Without it the server at --address is used.

The streams are files NAME.csv.gz with the columns x1, x2, ... and y. They are in
the directory --data, by default ` + streamsDirectory + `. The names are
  ` + names(papers.Streams(), streamName) + `
A stream without a file is left out, and the report lists it. If there is none,
the command says where to get them and ends with exit code 0. The learners are
  ` + names(papers.Learners(), learnerName) + `

--out receives README.md, the tables; NAME.csv, one row for each learner;
NAME.svg and NAME_steps.svg, the loss over the rounds of the learners after
Azoury, Warmuth and Vovk, and of those by gradient or Newton steps;
curves/NAME.csv, the points of both; late/NAME.csv, what auto served with late
labels, of some streams. Without --learners it also receives what "papers
baselines" writes. With --streams or --learners the report covers only these:
choose another --out.

Standard output shows the losses, or all numbers with --json. All streams and
learners take some minutes. A call may take two minutes, or --timeout if that is
longer.`,
		Example: `  hindsight-research papers --server bin/hindsight-server --data streams
  hindsight-research papers --server bin/hindsight-server --streams air,bike --rows 2000 --out /tmp/results`,
		Args: command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			plan, err := f.plan()
			if err != nil {
				return err
			}
			return f.run(cmd.Context(), p, plan)
		},
	}
	f.add(p, cmd)
	cmd.AddCommand(newBaselines(p))
	flags := cmd.Flags()
	flags.IntVar(&f.rows, "rows", 0, "use at most this many rows of a stream; 0: all")
	flags.StringSliceVar(&f.streams, "streams", nil, "only these streams, with commas between them")
	flags.StringSliceVar(&f.learners, "learners", nil, "only these learners, with commas between them")
	return cmd
}

// papersFlags is what the flags of "papers" say.
type papersFlags struct {
	measurement
	rows              int
	streams, learners []string
}

func streamName(s papers.Stream) string   { return s.Name }
func learnerName(l papers.Learner) string { return l.Name }

// names lists names on lines of a readable length.
func names[T any](all []T, name func(T) string) string {
	var b strings.Builder
	width := 0
	for i, v := range all {
		word := name(v)
		if i < len(all)-1 {
			word += ","
		}
		switch {
		case width == 0:
		case width+len(word) > 74:
			b.WriteString("\n  ")
			width = 0
		default:
			b.WriteByte(' ')
		}
		b.WriteString(word)
		width += len(word) + 1
	}
	return b.String()
}

// plan checks the flags that are its own.
func (f *papersFlags) plan() (papers.Plan, error) {
	p := papers.Plan{Data: f.data, Rows: f.rows, Baselines: len(f.learners) == 0}
	if f.rows < 0 {
		return p, command.Usagef("--rows %d is negative", f.rows)
	}
	var err error
	if p.Streams, err = chosen("--streams", f.streams, papers.Streams(), streamName); err != nil {
		return p, err
	}
	p.Learners, err = chosen("--learners", f.learners, papers.Learners(), learnerName)
	return p, err
}

// chosen returns the values with the wanted names in the order of all, or all
// if no name is given.
func chosen[T any](flag string, wanted []string, all []T, name func(T) string) ([]T, error) {
	if len(wanted) == 0 {
		return all, nil
	}
	for _, w := range wanted {
		if !slices.ContainsFunc(all, func(v T) bool { return name(v) == w }) {
			return nil, command.Usagef("%s: there is no %q; there are %s", flag, w, strings.Join(strings.Fields(names(all, name)), " "))
		}
	}
	return slices.DeleteFunc(all, func(v T) bool { return !slices.Contains(wanted, name(v)) }), nil
}

// run runs the plan on the server that the flags name. Without a stream it
// needs no server and writes no report.
func (f *papersFlags) run(ctx context.Context, p *command.Program, plan papers.Plan) error {
	if missing := plan.Missing(); missing != nil {
		return p.Emit(papersDocument(missing), func(w *command.Page) { w.Printf("%s", papers.Absent(plan, missing)) })
	}
	var results []*papers.Result
	err := f.measure(ctx, p, "papers", func(ctx context.Context, s *remote.Server) (err error) {
		results, err = f.results(ctx, p, s, plan)
		return err
	})
	if err != nil {
		return err
	}
	if err := papers.SaveReport(f.out, plan, results); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	p.Say("the report is %s", filepath.Join(f.out, "README.md"))
	if plan.Baselines {
		if _, err := f.compare(ctx, p, plan); err != nil {
			return err
		}
	}
	return p.Emit(papersDocument(results), func(w *command.Page) { writeLosses(w, results) })
}

// results takes one stream after another. It writes the files of each as soon
// as the stream is finished.
func (f *papersFlags) results(ctx context.Context, p *command.Program, s *remote.Server, plan papers.Plan) ([]*papers.Result, error) {
	bench := &papers.Bench{Server: s}
	var results []*papers.Result
	for _, s := range plan.Streams {
		r, err := bench.Stream(ctx, plan, s)
		if err != nil {
			return nil, err
		}
		if r.Skipped != "" {
			p.Say("%-18s skipped: %s", s.Name, r.Skipped)
		}
		if err := papers.Save(f.out, r); err != nil {
			return nil, fmt.Errorf("--out: %w", err)
		}
		results = append(results, r)
	}
	return results, nil
}

// papersEntry is the result of one learner or baseline on one stream, as JSON.
type papersEntry struct {
	Stream          string         `json:"stream"`
	Learner         string         `json:"learner"`
	Baseline        bool           `json:"baseline"`
	Rows            int            `json:"rows"`
	LossKind        string         `json:"lossKind"`
	MeanLoss        command.Finite `json:"meanLoss"`
	ErrorRate       command.Finite `json:"errorRate"`
	Skill           command.Finite `json:"skill"`
	Intervals       []papersLevel  `json:"intervals,omitempty"`
	Regret          command.Finite `json:"regret"`
	RegretBound     command.Finite `json:"regretBound"`
	RoundsPerSecond command.Finite `json:"roundsPerSecond"`
	RateToLinear    command.Finite `json:"rateToLinearAwv"`
	StateBytes      uint64         `json:"stateBytes"`
	Rejected        string         `json:"rejected,omitempty"`
}

// papersLevel says how the prediction intervals of one level did.
type papersLevel struct {
	Coverage   command.Finite `json:"coverage"`
	Realised   command.Finite `json:"realised"`
	LeastOf500 command.Finite `json:"leastOf500"`
}

// papersLate is what auto served on one stream whose labels came late.
type papersLate struct {
	Stream          string         `json:"stream"`
	Delay           int            `json:"delay"`
	Rows            int            `json:"rows"`
	ServedLoss      command.Finite `json:"servedLoss"`
	ServedErrorRate command.Finite `json:"servedErrorRate"`
	RunningMeanLoss command.Finite `json:"runningMeanLoss"`
	LastLabelLoss   command.Finite `json:"lastLabelLoss"`
	Skill           command.Finite `json:"skill"`
}

// papersDocument is the JSON of a run.
func papersDocument(results []*papers.Result) any {
	entries, late, skipped := []papersEntry{}, []papersLate{}, map[string]string{}
	for _, r := range results {
		if r.Skipped != "" {
			skipped[r.Stream.Name] = r.Skipped
		}
		for _, e := range r.Entries {
			wrong := command.Finite(math.NaN())
			if r.Stream.Signs {
				wrong = command.Finite(e.ErrorRate())
			}
			var levels []papersLevel
			for _, i := range e.Intervals {
				levels = append(levels, papersLevel{command.Finite(i.Level), command.Finite(i.Inside), command.Finite(i.Least)})
			}
			entries = append(entries, papersEntry{
				Stream: r.Stream.Name, Learner: e.Name, Baseline: e.Baseline, Rows: e.Rows,
				LossKind: e.Loss, MeanLoss: command.Finite(e.MeanLoss()), ErrorRate: wrong,
				Skill: command.Finite(e.Skill), Intervals: levels,
				Regret: command.Finite(e.Regret), RegretBound: command.Finite(e.Bound),
				RoundsPerSecond: command.Finite(e.Rate), RateToLinear: command.Finite(r.Ratio(e)),
				StateBytes: e.StateBytes, Rejected: e.Rejected,
			})
		}
		for _, l := range r.Late {
			late = append(late, papersLate{
				Stream: r.Stream.Name, Delay: l.Delay, Rows: l.Rows,
				ServedLoss: command.Finite(l.Loss), ServedErrorRate: command.Finite(l.ErrorRate),
				RunningMeanLoss: command.Finite(l.RunningMean), LastLabelLoss: command.Finite(l.LastLabel), Skill: command.Finite(l.Skill),
			})
		}
	}
	return struct {
		Entries []papersEntry     `json:"entries"`
		Late    []papersLate      `json:"late"`
		Skipped map[string]string `json:"skipped"`
	}{entries, late, skipped}
}

// writeLosses writes the losses for people.
func writeLosses(w *command.Page, results []*papers.Result) {
	w.Printf("stream\tlearner\trows\tloss\tskill\terrors\n")
	for _, r := range results {
		for _, e := range r.Entries {
			wrong := ""
			if r.Stream.Signs {
				wrong = fmt.Sprintf("%.2f %%", 100*e.ErrorRate())
			}
			skill := ""
			if !math.IsNaN(e.Skill) {
				skill = fmt.Sprintf("%.3f", e.Skill)
			}
			w.Printf("%s\t%s\t%d\t%s\t%s\t%s\n", r.Stream.Name, e.Name, e.Rows, command.Number(e.MeanLoss()), skill, wrong)
		}
	}
}
