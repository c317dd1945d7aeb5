package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
	"hindsight/cmd/internal/command"
	"hindsight/cmd/internal/sizing"
)

// defaultLabelTTL is the server's --label-ttl.
const defaultLabelTTL = 24 * time.Hour

// usualClasses is the default of --classes. A prediction keeps a name and two numbers for
// each class, and rlsc allows 256 unless its spec says otherwise.
const usualClasses = 10

// newSize builds "size".
func newSize(e *env) *cobra.Command {
	var (
		spec     string
		ttl      time.Duration
		classes  int
		load     sizing.Load
		settings = sizing.Defaults()
	)
	cmd := &cobra.Command{
		Use:   "size --spec JSON|@FILE --rate R",
		Short: "Tell what models of a spec need: memory, disk, processors, time of a recovery",
		Long: `Tell what models of a spec need of a machine. A server is asked for the features,
the memory and the multiply-adds of the spec; it creates nothing. The rest follows
from the formulas and the constants of docs/sizing.md, which also says how far they
were off.

A round is a Predict and the Observe of its label. --rate counts the rounds a second
of each model. A prediction waits for its label for --label-delay; without it, for
--ttl, the longest that it may. The other flags are settings of the server, with its
defaults.

The figures are those of the long run: ids are remembered for --id-window, and the
history of a model is full.`,
		Example: `  hindsight size --spec '{"dimension": 25}' --rate 10 --label-delay 1h
  hindsight size --spec @energy.json --rate 0.1 --ttl 48h --models 500 -o json`,
		Args: command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("rate") {
				return command.Usagef("--rate is missing")
			}
			if !cmd.Flags().Changed("label-delay") {
				load.LabelDelay = ttl
			}
			if load.LabelDelay > ttl {
				return command.Usagef("--label-delay %v is longer than --ttl %v, when the prediction is forgotten", load.LabelDelay, ttl)
			}
			if classes < 1 {
				return command.Usagef("--classes %d is not positive", classes)
			}
			if err := sizing.Check(load, settings); err != nil {
				return &command.UsageError{Err: err}
			}
			s, err := e.spec(spec)
			if err != nil {
				return err
			}
			return e.withClient(func(c *client.Client) error {
				v, err := c.Validate(cmd.Context(), s)
				if err != nil {
					return err
				}
				model := sizing.Of(v)
				model.Classes = min(model.Classes, classes)
				answer := sizing.Estimate(model, load, settings)
				return e.emit(newSizeDocument(v, load, answer), func(w *command.Page) { writeSize(w, v, load, &answer) })
			})
		},
	}
	e.specFlag(cmd, &spec)
	flags := cmd.Flags()
	flags.Float64Var(&load.Rate, "rate", 0, "rounds a second of each model (required)")
	flags.IntVar(&load.Models, "models", 1, "number of models")
	flags.DurationVar(&ttl, "ttl", defaultLabelTTL, "how long a prediction waits for its label at most")
	flags.DurationVar(&load.LabelDelay, "label-delay", 0, "how long labels take to come; without it: as long as --ttl")
	flags.IntVar(&classes, "classes", usualClasses, "how many classes labels have, of those that the spec allows")
	flags.DurationVar(&settings.IDWindow, "id-window", settings.IDWindow, "setting of the server")
	flags.IntVar(&settings.IDWindowMin, "id-window-min", settings.IDWindowMin, "setting of the server")
	flags.IntVar(&settings.SnapshotsKept, "snapshots-kept", settings.SnapshotsKept, "setting of the server")
	flags.DurationVar(&settings.SnapshotInterval, "snapshot-interval", settings.SnapshotInterval, "setting of the server")
	flags.DurationVar(&settings.SnapshotReplay, "snapshot-replay", settings.SnapshotReplay, "setting of the server")
	return cmd
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
}

func newSizeDocument(v *hindsightv1.ValidateSpecResponse, l sizing.Load, a sizing.Answer) *sizeDocument {
	return &sizeDocument{
		Learner: learnerOf(v.GetSpec()), Features: v.GetFeatures(), StateBytes: v.GetStateBytes(),
		PredictFlops: v.GetPredictFlops(), ObserveFlops: v.GetObserveFlops(),
		Rate: l.Rate, Models: l.Models, LabelDelaySeconds: l.LabelDelay.Seconds(), Answer: a,
	}
}

// learnerOf is the name of the learner of a completed spec.
func learnerOf(spec *hindsightv1.ModelSpec) string {
	m := spec.ProtoReflect()
	if f := m.WhichOneof(m.Descriptor().Oneofs().ByName("learner")); f != nil {
		return string(f.Name())
	}
	return ""
}

// writeSize writes the answer for people.
func writeSize(w *command.Page, v *hindsightv1.ValidateSpecResponse, l sizing.Load, a *sizing.Answer) {
	models := "models"
	if l.Models == 1 {
		models = "model"
	}
	w.Printf("%d %s of %s, %d features, %g rounds a second each\n", l.Models, models, learnerOf(v.GetSpec()), v.GetFeatures(), l.Rate)
	for _, r := range []struct{ name, value, of string }{
		{"memory", binary(a.Memory.Process), "the process, without a limit"},
		{"  states", binary(a.Memory.States), binary(a.Memory.PerModel) + " a model"},
		{"  --memory-limit", binary(a.Memory.Limit), "at least, for all models to stay in memory"},
		{"disk", binary(a.Disk.Total), "in the long run"},
		{"  log", binary(a.Disk.Log), "since the oldest snapshot"},
		{"  ids", binary(a.Disk.IDs), "remembered for --id-window"},
		{"  predictions", binary(a.Disk.Waiting), "that wait for labels"},
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
		w.Printf("%s\n", strings.TrimRight(r.name+"\t"+r.value+"\t"+r.of, "\t"))
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
	return time.Duration(rounded(s) * float64(time.Second)).String()
}
