package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"hindsight/cmd/internal/child"
	"hindsight/cmd/internal/command"
	"hindsight/cmd/research/capacity"
	"hindsight/cmd/research/echo"
)

// newSizing builds "sizing".
func newSizing(p *command.Program) *cobra.Command {
	var program, out, only string
	cmd := &cobra.Command{
		Use:   "sizing --server PATH",
		Short: "Measure what models cost a server, compare it with hindsight-research size",
		Long: `Measure what models of several specs cost a server: CPU seconds of a call, memory,
disk, and the time of a recovery, each on a server of its own that is killed and
started again. A bare gRPC server is measured at the same time.

Standard output compares the figures with what "hindsight-research size" answers. --out receives
sizing.csv, all that was measured. All cases take about ten minutes.`,
		Example: `  hindsight-research sizing --server bin/hindsight-server --out /tmp/results`,
		Args:    command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if program == "" {
				return command.Usagef("--server is missing")
			}
			var cases []capacity.Case
			for _, c := range capacity.Cases() {
				if strings.Contains(c.Name, only) {
					cases = append(cases, c)
				}
			}
			if len(cases) == 0 {
				return command.Usagef("--only: no case has %q in its name", only)
			}
			rows, err := measureSizes(cmd.Context(), p, program, out, cases)
			if err != nil {
				return err
			}
			return emitSizes(p, rows)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&program, "server", "", "path of the server program to start (required)")
	flags.StringVar(&out, "out", resultsDirectory(), "directory of sizing.csv")
	flags.StringVar(&only, "only", "", "only the cases whose name contains this; choose another --out")
	return cmd
}

// measureSizes measures cases with an echo beside, and writes the results after each.
func measureSizes(ctx context.Context, p *command.Program, program, out string, cases []capacity.Case) (rows []*capacity.Row, err error) {
	err = echo.With(ctx, func(bare *child.Server) error {
		b := &capacity.Bench{Program: program, Echo: bare.GRPC, EchoMetrics: "http://" + bare.HTTP + "/metrics"}
		for n, c := range cases {
			p.Say("sizing: %s, %d of %d", c.Name, n+1, len(cases))
			row, err := b.Measure(ctx, c)
			if err != nil {
				return err
			}
			rows = append(rows, row)
			if err := capacity.Save(out, rows); err != nil {
				return fmt.Errorf("--out: %w", err)
			}
		}
		return nil
	})
	return rows, err
}

// sizesEntry is a figure of a case, as JSON.
type sizesEntry struct {
	Case     string         `json:"case"`
	Figure   string         `json:"figure"`
	Measured float64        `json:"measured"`
	Answered float64        `json:"answered"`
	Ratio    command.Finite `json:"ratio"`
	Unseen   bool           `json:"unseen"`
}

// emitSizes writes what was measured beside the answers.
func emitSizes(p *command.Program, rows []*capacity.Row) error {
	document := struct {
		Entries []sizesEntry `json:"entries"`
	}{}
	var table [][]any
	for _, r := range rows {
		figures, err := r.Figures()
		if err != nil {
			return err
		}
		for _, f := range figures {
			document.Entries = append(document.Entries, sizesEntry{r.Name, f.Name, f.Measured, f.Answered, command.Finite(f.Ratio()), r.Unseen})
			table = append(table, []any{r.Name, f.Name, f.Measured, f.Answered, f.Ratio()})
		}
	}
	return p.EmitRows(document, []string{"case", "figure", "measured", "answered", "ratio"}, table)
}
