package cli

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/internal/command"
	"hindsight/cmd/research/sizing"
)

// defaultLabelTTL is the server's --label-ttl.
const defaultLabelTTL = 24 * time.Hour

// usualClasses is the default of --classes. A prediction keeps a name and two numbers for
// each class, and rlsc allows 256 unless its spec says otherwise.
const usualClasses = 10

// sizeFlags are the flags of "size".
type sizeFlags struct {
	spec     string
	ttl      time.Duration
	classes  int
	survive  int
	cores    float64
	load     sizing.Load
	settings sizing.Settings
}

// newSize builds "size".
func newSize(p *command.Program) *cobra.Command {
	f := &sizeFlags{settings: sizing.Defaults()}
	cmd := &cobra.Command{
		Use:   "size --spec JSON|@FILE --rate R",
		Short: "Compute what models of a spec need: memory, disk, processors, time of a recovery",
		Long: `Compute what models of a spec need of a machine, by the formulas of research/sizing/README.md, which also
says how far they were off. A server reports the cost of the spec and creates nothing.

A round is a Predict and the Observe of its label. A prediction is pending for
--label-delay; without it, for --ttl.

With --survive the answer has the smallest cluster of servers with --server-cores that
continues after the loss of so many servers at once.

The figures are figures of the long run.`,
		Example: `  hindsight-research size --spec '{"dimension": 25}' --rate 10 --label-delay 1h
  hindsight-research size --spec @energy.json --rate 0.1 --ttl 48h --models 500 --json`,
		Args: command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, p) },
	}
	flags, settings := cmd.Flags(), &f.settings
	p.ServerFlags(flags)
	flags.StringVar(&f.spec, "spec", "", "the spec as JSON; @FILE reads a file (required)")
	flags.Float64Var(&f.load.Rate, "rate", 0, "rounds a second of each model (required)")
	flags.IntVar(&f.load.Models, "models", 1, "number of models")
	flags.DurationVar(&f.ttl, "ttl", defaultLabelTTL, "how long a prediction stays pending at most")
	flags.DurationVar(&f.load.LabelDelay, "label-delay", 0, "how long labels take to come; without it: as long as --ttl")
	flags.IntVar(&f.classes, "classes", usualClasses, "how many classes labels have, of those that the spec allows")
	flags.IntVar(&f.survive, "survive", 0, "server losses to survive; 0: one server without a cluster")
	flags.Float64Var(&f.cores, "server-cores", 8, "cores of a server of the cluster")
	const setting = "setting of the server"
	flags.DurationVar(&settings.IDWindow, "id-window", settings.IDWindow, setting)
	flags.IntVar(&settings.SnapshotsKept, "snapshots-kept", settings.SnapshotsKept, setting)
	flags.DurationVar(&settings.SnapshotReplay, "snapshot-replay", settings.SnapshotReplay, setting)
	return cmd
}

// check checks the flags.
func (f *sizeFlags) check(cmd *cobra.Command) error {
	switch changed := cmd.Flags().Changed; {
	case !changed("spec"):
		return command.Usagef("--spec is missing")
	case !changed("rate"):
		return command.Usagef("--rate is missing")
	case !changed("label-delay"):
		f.load.LabelDelay = f.ttl
	}
	switch {
	case f.load.LabelDelay > f.ttl:
		return command.Usagef("--label-delay %v is longer than --ttl %v, when the prediction is forgotten", f.load.LabelDelay, f.ttl)
	case f.classes < 1:
		return command.Usagef("--classes %d is not positive", f.classes)
	case f.survive < 0 || !(f.cores > 0):
		return command.Usagef("--survive %d and --server-cores %g: want at least 0, and more than 0", f.survive, f.cores)
	}
	if err := sizing.Check(f.load, f.settings); err != nil {
		return &command.UsageError{Err: err}
	}
	return nil
}

// run asks a server what the spec costs, and answers.
func (f *sizeFlags) run(cmd *cobra.Command, p *command.Program) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	raw := []byte(f.spec)
	if name, ok := strings.CutPrefix(f.spec, "@"); ok {
		var err error
		if raw, err = os.ReadFile(name); err != nil { //nolint:gosec // the user names the file
			return command.Usagef("--spec: %w", err)
		}
	}
	spec := new(hindsightv1.ModelSpec)
	if err := protojson.Unmarshal(raw, spec); err != nil {
		return command.Usagef("--spec: %w", err)
	}
	c, err := p.Dial()
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // Nothing is left to send.
	v, err := c.Validate(cmd.Context(), spec)
	if err != nil {
		return err
	}
	d := f.answer(v)
	return p.Emit(d, d.write)
}

// answer is what a number of models cost, given the cost of their spec.
func (f *sizeFlags) answer(v *hindsightv1.ValidateSpecResponse) *sizeDocument {
	model := sizing.Of(v)
	model.Classes = min(model.Classes, f.classes)
	d := &sizeDocument{
		Learner: learnerOf(v.GetSpec()), Features: v.GetFeatures(), StateBytes: v.GetStateBytes(),
		PredictFlops: v.GetPredictFlops(), ObserveFlops: v.GetObserveFlops(),
		Rate: f.load.Rate, Models: f.load.Models, LabelDelaySeconds: f.load.LabelDelay.Seconds(),
		Answer: sizing.Estimate(model, f.load, f.settings), Survive: f.survive,
	}
	if f.survive > 0 {
		cluster, err := sizing.Clustered(model, f.load, f.survive, f.cores)
		if d.Cluster = &cluster; err != nil {
			d.Cluster, d.Notes = nil, append(d.Notes, "no cluster suffices: "+err.Error())
		}
	}
	return d
}

// sizeDocument is the answer as JSON.
type sizeDocument struct {
	Learner           string  `json:"learner"`
	Features          int32   `json:"features"`
	StateBytes        uint64  `json:"stateBytes"`
	PredictFlops      uint64  `json:"predictFlops"`
	ObserveFlops      uint64  `json:"observeFlops"`
	Rate              float64 `json:"ratePerModel"`
	Models            int     `json:"models"`
	LabelDelaySeconds float64 `json:"labelDelaySeconds"`
	sizing.Answer
	Survive int             `json:"survive"`
	Cluster *sizing.Cluster `json:"cluster,omitempty"`
}

// learnerOf is the name of the learner of a completed spec.
func learnerOf(spec *hindsightv1.ModelSpec) string {
	m := spec.ProtoReflect()
	if f := m.WhichOneof(m.Descriptor().Oneofs().ByName("learner")); f != nil {
		return string(f.Name())
	}
	return ""
}

// write writes the answer for people.
func (a *sizeDocument) write(w *command.Page) {
	models := "models"
	if a.Models == 1 {
		models = "model"
	}
	w.Printf("%d %s of %s, %d features, %g rounds a second each\n", a.Models, models, a.Learner, a.Features, a.Rate)
	for _, r := range []struct{ name, value, of string }{
		{"memory", binary(a.Memory.Process), "the process, without a limit"},
		{"  states", binary(a.Memory.States), binary(a.Memory.PerModel) + " a model"},
		{"  --memory-limit", binary(a.Memory.Limit), "at least, for all models to stay in memory"},
		{"disk", binary(a.Disk.Total), "in the long run"},
		{"  log", binary(a.Disk.Log), "since the oldest snapshot"},
		{"  ids", binary(a.Disk.IDs), "remembered for --id-window"},
		{"  predictions", binary(a.Disk.Pending), "that wait for labels"},
		{"  snapshots", binary(a.Disk.Snapshots), ""},
		{"  overhead", binary(a.Disk.Overhead), "write-ahead logs and what is not compacted"},
		{"  written a day", binary(a.Disk.RowsPerDay + a.Disk.SnapshotsPerDay), binary(a.Disk.SnapshotsPerDay) + " of it snapshots"},
		{"cores", command.Number(rounded(a.CPU.Cores)) + " to " + command.Number(rounded(a.CPU.Alone)), "with much to do, and with each call to an idle server"},
		{"  Predict, Observe", seconds(a.CPU.Predict) + ", " + seconds(a.CPU.Observe), "of a core a call"},
		{"  busiest model", command.Number(rounded(a.CPU.BusiestModel)), "of the one core that it can use"},
		{"recovery", seconds(a.Recovery.Start), "until the server serves"},
		{"  a model", seconds(a.Recovery.Model), fmt.Sprintf("at its first use, %.0f observations replayed", a.Recovery.Replayed)},
		{"  all models", seconds(a.Recovery.All), "one after the other"},
	} {
		w.Cells(r.name, r.value, r.of)
	}
	if c := a.Cluster; c != nil {
		w.Cells("cluster", fmt.Sprintf("%d servers", c.Servers), fmt.Sprintf("--cluster-groups %d --cluster-standby %s, survives the loss of %d", c.Groups, c.Replicas, a.Survive))
		w.Cells("  cores a server", command.Number(rounded(c.Cores)), "of the busiest server after this loss")
		w.Cells("  memory a server", binary(c.Memory), "")
		if c.Warm != c.Servers {
			w.Cells("  warm standbys", fmt.Sprintf("%d servers", c.Warm), "0: no number suffices")
		}
	}
	for _, note := range a.Notes {
		w.Printf("note: %s\n", note)
	}
}

// binary writes a number of bytes.
func binary(bytes float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	n := 0
	for ; bytes >= 1000 && n < len(units)-1; n++ {
		bytes /= 1024
	}
	return fmt.Sprintf("%.3g %s", bytes, units[n])
}

// rounded rounds to three digits.
func rounded(v float64) float64 {
	var r float64
	_, _ = fmt.Sscan(fmt.Sprintf("%.3g", v), &r) // It is a number.
	return r
}

// seconds writes a time with three digits.
func seconds(s float64) string {
	if s > 1e9 { // Beyond 2^63 ns a Duration overflows.
		return "more than 30 years"
	}
	return time.Duration(rounded(s) * float64(time.Second)).String()
}
