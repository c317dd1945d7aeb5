package cli

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"hindsight/cmd/internal/command"
	"hindsight/cmd/research/records"
	"hindsight/cmd/research/remote"
)

// newRecords builds "records".
func newRecords(p *command.Program) *cobra.Command {
	f := &recordsFlags{}
	cmd := &cobra.Command{
		Use:   "records [--server PATH] [--data DIR]",
		Short: "Take streams by the names of their columns and as classes",
		Long: `Take streams through a server as an application has them.

bike and elec2 are records by the names of their columns, with a spec that is
inferred from the file, beside the same learners on columns that were scaled by
hand. digits are ten classes, with each of them left out at first. Of elec2 and
ijcnn1 the probabilities of the two classes are compared with what came.

With --server the program starts a server on free ports of 127.0.0.1 with a
temporary directory. Without it the server at --address is used. The streams are
the files of "papers" in the directory --data, by default ` + streamsDirectory + `; one
without a file is left out. --out receives records.csv. The run takes some minutes.`,
		Example: `  hindsight-research records --server bin/hindsight-server --data streams
  hindsight-research records --server bin/hindsight-server --rows 5000 --out /tmp/results`,
		Args: command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			if f.rows < 0 {
				return command.Usagef("--rows %d is negative", f.rows)
			}
			return f.run(cmd.Context(), p)
		},
	}
	f.add(p, cmd)
	cmd.Flags().IntVar(&f.rows, "rows", 0, "use at most this many rows of a stream; 0: all")
	return cmd
}

// recordsFlags is what the flags of "records" say.
type recordsFlags struct {
	measurement
	rows int
}

// run runs the streams. Without one it needs no server and writes no report.
func (f *recordsFlags) run(ctx context.Context, p *command.Program) error {
	plan := records.Plan{Data: f.data, Rows: f.rows}
	if plan.Empty() {
		return p.Emit(recordsDocument(&records.Results{}), func(w *command.Page) {
			w.Printf("No stream was run: %s has none of their files. See hindsight-research papers --help.\n", f.data)
		})
	}
	var results *records.Results
	err := f.measure(ctx, p, "records", func(ctx context.Context, s *remote.Server) (err error) {
		results, err = (&records.Bench{Server: s}).Measure(ctx, plan)
		return err
	})
	if err != nil {
		return err
	}
	if err := records.Save(f.out, results); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	p.Say("the figures are in %s", filepath.Join(f.out, records.Name))
	return p.Emit(recordsDocument(results), func(w *command.Page) {
		w.Printf("bar\tmeasured\tmet\n")
		for _, b := range results.Bars() {
			w.Printf("%s\t%s\t%s\n", b.What, b.Measured, b.Met())
		}
	})
}

// recordsEntry is a figure of the report, as JSON.
type recordsEntry struct {
	Part    string         `json:"part"`
	Stream  string         `json:"stream"`
	Learner string         `json:"learner"`
	Setting string         `json:"setting,omitempty"`
	Measure string         `json:"measure"`
	Value   command.Finite `json:"value"`
}

// recordsDocument is the JSON of a run.
func recordsDocument(r *records.Results) any {
	entries := []recordsEntry{}
	for _, f := range r.Figures() {
		entries = append(entries, recordsEntry{f.Part, f.Stream, f.Learner, f.Setting, f.Measure, command.Finite(f.Value)})
	}
	return struct {
		Entries []recordsEntry `json:"entries"`
	}{entries}
}
