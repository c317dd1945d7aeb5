package cli

import "github.com/spf13/cobra"

// newBench builds "bench", which holds the measurements.
func newBench(e *env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure learners on published streams",
		RunE:  group,
	}
	cmd.AddCommand(newBenchPapers(e), newBenchAdversary(e))
	return cmd
}
