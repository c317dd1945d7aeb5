package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"hindsight/cmd/internal/child"
	"hindsight/cmd/internal/command"
	"hindsight/cmd/research/echo"
	"hindsight/cmd/research/performance"
)

// What "performance" does unless its flags say otherwise.
const (
	performanceRounds = 9
	performanceSlice  = time.Second
)

// newPerformance builds "performance".
func newPerformance(p *command.Program) *cobra.Command {
	var program, out string
	var rounds int
	var slice time.Duration
	cmd := &cobra.Command{
		Use:   "performance --server PATH",
		Short: "Compare calls, kernels and learners with what the machine could do",
		Long: `Measure processor time and latency of every kind of call beside a bare gRPC server,
rates beside the store's group commit and the learner alone, the kernels beside memory,
gonum and the peak of the processor, and how cost grows with features, inputs, history
and models. Both sides of a ratio are measured in turns for --slice, in --rounds rounds, so
that drift of the machine cancels. Only ratios are printed.

Standard output is the page; --out receives it too. The defaults take about ten minutes.`,
		Example: `  hindsight-research performance --server bin/hindsight-server
  hindsight-research performance --server bin/hindsight-server --rounds 3 --slice 100ms --out /tmp/performance.md`,
		Args: command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case program == "":
				return command.Usagef("--server is missing")
			case rounds < 1 || slice < time.Millisecond:
				return command.Usagef("--rounds must be positive, --slice at least 1ms")
			}
			var tables []performance.Table
			ctx := cmd.Context()
			err := child.Serve(ctx, program, func(server *child.Server) error {
				return echo.With(ctx, func(bare *child.Server) (err error) {
					b := &performance.Bench{Server: server, Echo: bare, Rounds: rounds, Slice: slice, Say: p.Say}
					tables, err = b.Measure(ctx)
					return err
				})
			})
			if err != nil {
				return err
			}
			page := performance.Page(fmt.Sprintf("`hindsight-research performance --rounds %d --slice %v`", rounds, slice), tables)
			if err := os.WriteFile(out, []byte(page), 0o600); err != nil {
				return fmt.Errorf("--out: %w", err)
			}
			return p.Emit(struct {
				Tables []performance.Table `json:"tables"`
			}{tables}, func(w *command.Page) { w.Printf("%s", page) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&program, "server", "", "path of the server program to start (required)")
	flags.StringVar(&out, "out", filepath.Join(resultsDirectory(), "performance.md"), "file of the page")
	flags.IntVar(&rounds, "rounds", performanceRounds, "how often both sides are measured")
	flags.DurationVar(&slice, "slice", performanceSlice, "how long calls are made at a time")
	return cmd
}
