package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"hindsight/cmd/internal/command"
	"hindsight/cmd/research/simulation"
)

// newCluster builds "cluster".
func newCluster(p *command.Program) *cobra.Command {
	var out string
	var bandwidth float64
	b := &simulation.Bench{}
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Simulate a cluster of many servers",
		Long: `Simulate clusters of up to --servers servers: the balance of groups and models, the moves
after a server joins or leaves, a rack of ten servers that dies at once, the time to a
steady state, and the messages at rest. Equal flags give equal figures.

` + simulation.About + `

Standard output is the page; --out receives it too. The defaults take some minutes.`,
		Example: `  hindsight-research cluster
  hindsight-research cluster --servers 20 --groups 64 --seed 7 --out /tmp/cluster.md`,
		Args: command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch b.Bandwidth = bandwidth * 1e6; {
			case b.Servers <= simulation.RackSize:
				return command.Usagef("--servers %d: want more than %d", b.Servers, simulation.RackSize)
			case b.Groups < 1 || b.Groups > simulation.MostGroups:
				return command.Usagef("--groups %d: want 1 to %d", b.Groups, simulation.MostGroups)
			case b.Models < 1 || !(bandwidth > 0):
				return command.Usagef("--models and --bandwidth must be positive")
			}
			tables, err := b.Measure(cmd.Context())
			if err != nil {
				return err
			}
			page := simulation.Page(fmt.Sprintf("`hindsight-research cluster --servers %d --groups %d --models %d --bandwidth %g --seed %d`",
				b.Servers, b.Groups, b.Models, bandwidth, b.Seed), tables)
			if err := os.WriteFile(out, []byte(page), 0o600); err != nil {
				return fmt.Errorf("--out: %w", err)
			}
			return p.Emit(struct {
				Tables []simulation.Table `json:"tables"`
			}{tables}, func(w *command.Page) { w.Printf("%s", page) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&out, "out", filepath.Join(resultsDirectory(), "cluster.md"), "file of the page")
	flags.IntVar(&b.Servers, "servers", 60, "largest number of servers")
	flags.IntVar(&b.Groups, "groups", 512, "number of groups")
	flags.IntVar(&b.Models, "models", 1_000_000, "number of models")
	flags.Float64Var(&bandwidth, "bandwidth", 125, "MB a second that a server sends, and receives")
	flags.Uint64Var(&b.Seed, "seed", 1, "seed of the simulation")
	return cmd
}
