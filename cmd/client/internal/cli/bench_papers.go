package cli

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hindsight/cmd/client/internal/child"
	"hindsight/cmd/client/internal/papers"
)

// benchTimeout is the least that is waited for an answer: a batch of a slow
// learner takes its time.
const benchTimeout = 2 * time.Minute

// newBenchPapers builds "bench papers".
func newBenchPapers(e *env) *cobra.Command {
	b := &benchPapers{}
	cmd := &cobra.Command{
		Use:   "papers [--server PATH]",
		Short: "Take published streams through every learner, write a report",
		Long: `Take published streams through every learner and write a report: what was
lost and regretted, how fast, and what the papers printed.

For every stream and learner a model is created, the rows are observed in their
order, every one predicted before it is learned, and the model is deleted again.
With --server a server of its own is started on free ports of 127.0.0.1 with a
temporary directory; without, the server at --address is used.

--data holds the streams, one NAME.csv.gz each, with the columns x1..xd and y:
  ` + names(papers.Streams(), streamName) + `
One that is not there is left out, and the report says so. The learners are
  ` + names(papers.Learners(), learnerName) + `

--out receives README.md, the report; NAME.csv, a row a learner; NAME.svg, the
loss over the rounds; curves/NAME.csv, its points. A run of chosen streams or
learners writes a report of these alone: give it another --out.

Standard output shows the losses, or all numbers as JSON with --json. All
streams and learners take some minutes. A call is waited for at least two
minutes, or --timeout if that is longer.`,
		Example: `  hindsight bench papers --server bin/hindsight-server
  hindsight bench papers --server bin/hindsight-server --streams air,bike --rows 2000 --out /tmp/results`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if b.server != "" && cmd.Flags().Changed("address") {
				return usagef("--server starts a server, --address names one: give one of them")
			}
			plan, err := b.plan()
			if err != nil {
				return err
			}
			return b.run(cmd.Context(), e, plan)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&b.server, "server", "", "path of the server program to start")
	flags.StringVar(&b.data, "data", filepath.FromSlash("../shared/data"), "directory of the streams")
	flags.StringVar(&b.out, "out", filepath.FromSlash("docs/results"), "directory of the results")
	flags.IntVar(&b.rows, "rows", 0, "take at most this many rows of a stream; 0: all")
	flags.StringSliceVar(&b.streams, "streams", nil, "only these streams, with commas between them")
	flags.StringSliceVar(&b.learners, "learners", nil, "only these learners, with commas between them")
	return cmd
}

// benchPapers is what the flags of "bench papers" say.
type benchPapers struct {
	server, data, out string
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

// plan checks the flags.
func (b *benchPapers) plan() (papers.Plan, error) {
	p := papers.Plan{Data: b.data, Rows: b.rows}
	if b.rows < 0 {
		return p, usagef("--rows %d is negative", b.rows)
	}
	if info, err := os.Stat(b.data); err != nil || !info.IsDir() {
		return p, usagef("--data %s: no such directory", b.data)
	}
	var err error
	if p.Streams, err = chosen("--streams", b.streams, papers.Streams(), streamName); err != nil {
		return p, err
	}
	p.Learners, err = chosen("--learners", b.learners, papers.Learners(), learnerName)
	return p, err
}

// chosen keeps those that were asked for, in their order; all if none was.
func chosen[T any](flag string, wanted []string, all []T, name func(T) string) ([]T, error) {
	if len(wanted) == 0 {
		return all, nil
	}
	for _, w := range wanted {
		if !slices.ContainsFunc(all, func(v T) bool { return name(v) == w }) {
			return nil, usagef("%s: there is no %q; there are %s", flag, w, strings.Join(strings.Fields(names(all, name)), " "))
		}
	}
	return slices.DeleteFunc(all, func(v T) bool { return !slices.Contains(wanted, name(v)) }), nil
}

// run runs the plan on the server that the flags name.
func (b *benchPapers) run(ctx context.Context, e *env, p papers.Plan) error {
	if b.server == "" {
		return b.measure(ctx, e, e.address, p)
	}
	dir, err := os.MkdirTemp("", "hindsight-bench-")
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	err = b.serve(ctx, e, dir, p)
	if failed := os.RemoveAll(dir); failed != nil {
		err = errors.Join(err, fmt.Errorf("bench: %w", failed))
	}
	return err
}

// serve starts the server, measures, and stops the server.
func (b *benchPapers) serve(ctx context.Context, e *env, dir string, p papers.Plan) (err error) {
	starting, cancel := context.WithTimeout(ctx, demoStart)
	defer cancel()
	server, err := child.Start(starting, b.server,
		"--grpc-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0",
		"--data-dir", dir, "--log-format", "json", "--log-level", "info")
	if err != nil {
		return err
	}
	defer func() {
		// The server is stopped in order, whatever has become of ctx.
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), demoStop)
		defer cancel()
		err = errors.Join(err, server.Stop(stopping))
	}()
	return b.measure(ctx, e, server.GRPC, p)
}

// measure takes the streams through the server at an address and writes what
// came of them.
func (b *benchPapers) measure(ctx context.Context, e *env, address string, p papers.Plan) error {
	c, err := dial(address, e.timeout)
	if err != nil {
		return err
	}
	results, err := b.results(ctx, e, c, p)
	if err = c.close(err); err != nil {
		return err
	}
	if err := papers.SaveReport(b.out, p, results); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	e.say("the report is %s", filepath.Join(b.out, "README.md"))
	return e.emit(benchDocument(results), func(w *page) { writeBench(w, results) })
}

// results takes stream after stream, and writes the files of each as soon as
// it is done.
func (b *benchPapers) results(ctx context.Context, e *env, c *client, p papers.Plan) ([]*papers.Result, error) {
	drawn := make([]byte, 4)
	if _, err := rand.Read(drawn); err != nil {
		return nil, fmt.Errorf("draw a run: %w", err)
	}
	bench := &papers.Bench{
		Models: c.models, Predictions: c.predictions,
		Run: "papers-" + hex.EncodeToString(drawn), Timeout: max(e.timeout, benchTimeout),
		Now: time.Now, Say: e.say,
	}
	var results []*papers.Result
	ran := false
	for _, s := range p.Streams {
		r, err := bench.Stream(ctx, p, s)
		if err != nil {
			return nil, err
		}
		if r.Skipped != "" {
			e.say("%-18s skipped: %s", s.Name, r.Skipped)
		}
		ran = ran || r.Skipped == ""
		if err := papers.Save(b.out, r); err != nil {
			return nil, fmt.Errorf("--out: %w", err)
		}
		results = append(results, r)
	}
	if !ran {
		return nil, usagef("--data %s: no stream that was asked for can be run", b.data)
	}
	return results, nil
}

// benchEntry is one learner or baseline on one stream, as JSON.
type benchEntry struct {
	Stream          string `json:"stream"`
	Learner         string `json:"learner"`
	Baseline        bool   `json:"baseline"`
	Rows            int    `json:"rows"`
	LossKind        string `json:"lossKind"`
	MeanLoss        finite `json:"meanLoss"`
	ErrorRate       finite `json:"errorRate"`
	Regret          finite `json:"regret"`
	RegretBound     finite `json:"regretBound"`
	RoundsPerSecond finite `json:"roundsPerSecond"`
	RateToLinear    finite `json:"rateToLinearAwv"`
	StateBytes      uint64 `json:"stateBytes"`
	Refused         string `json:"refused,omitempty"`
}

// benchDocument is the JSON of a run.
func benchDocument(results []*papers.Result) any {
	entries, skipped := []benchEntry{}, map[string]string{}
	for _, r := range results {
		if r.Skipped != "" {
			skipped[r.Stream.Name] = r.Skipped
		}
		for _, e := range r.Entries {
			wrong := finite(math.NaN())
			if r.Stream.Signs {
				wrong = finite(e.ErrorRate())
			}
			entries = append(entries, benchEntry{
				Stream: r.Stream.Name, Learner: e.Name, Baseline: e.Baseline, Rows: e.Rows,
				LossKind: e.Loss, MeanLoss: finite(e.MeanLoss()), ErrorRate: wrong,
				Regret: finite(e.Regret), RegretBound: finite(e.Bound),
				RoundsPerSecond: finite(e.Rate), RateToLinear: finite(r.Ratio(e)),
				StateBytes: e.StateBytes, Refused: e.Refused,
			})
		}
	}
	return struct {
		Entries []benchEntry      `json:"entries"`
		Skipped map[string]string `json:"skipped"`
	}{entries, skipped}
}

// writeBench shows the losses for people.
func writeBench(w *page, results []*papers.Result) {
	w.printf("stream\tlearner\trows\tloss\terrors\n")
	for _, r := range results {
		for _, e := range r.Entries {
			wrong := ""
			if r.Stream.Signs {
				wrong = fmt.Sprintf("%.2f %%", 100*e.ErrorRate())
			}
			w.printf("%s\t%s\t%d\t%s\t%s\n", r.Stream.Name, e.Name, e.Rows, number(e.MeanLoss()), wrong)
		}
	}
}
