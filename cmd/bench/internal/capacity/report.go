package capacity

import (
	"fmt"
	"slices"

	"hindsight/cmd/bench/internal/load"
	"hindsight/cmd/bench/internal/markdown"
	"hindsight/cmd/internal/sizing"
)

// Figure is a figure that was measured, and what package sizing says of it.
type Figure struct {
	Name               string
	Measured, Answered float64
}

// Ratio is how many times the measured value the answer is.
func (f Figure) Ratio() float64 { return f.Answered / f.Measured }

// Figures are those of a row that package sizing speaks of.
func (r *Row) Figures() []Figure {
	m := sizing.Of(r.Validated)
	m.Classes = min(m.Classes, load.Classes)
	all := sizing.Estimate(m, sizing.Load{Rate: aloneRate, Models: r.Models}, sizing.Defaults())
	disk := m.Disk(sizing.Held{Observations: r.Logged, IDs: r.IDs, Waiting: r.Waiting, Learned: r.IDs, Predicted: r.Waiting})
	recovery := sizing.Start(r.IDs) + float64(r.Models)*m.Recover(r.Replayed/float64(r.Models))
	found := []Figure{
		{predictCPU, r.PredictCPU, all.CPU.Predict},
		{observeCPU, r.ObserveCPU, all.CPU.Observe},
		{idleCPU, 2 * r.AloneCPU, all.CPU.Alone / (aloneRate * float64(r.Models))},
		{modelsMemory, r.ModelsBytes, all.Memory.States},
		{processMemory, r.ResidentBytes, all.Memory.Process},
		{rowsDisk, r.LogBytes + r.PendingBytes, disk.Total},
		{snapshotDisk, r.SnapshotBytes, all.Memory.PerModel},
		{recoveryCPU, r.RecoveryCPU, recovery},
	}
	return slices.DeleteFunc(found, func(f Figure) bool {
		return f.Measured == 0 || f.Name == processMemory && r.Bulk == 0
	})
}

// The figures.
const (
	predictCPU    = "CPU of a Predict"
	observeCPU    = "CPU of an Observe"
	idleCPU       = "CPU of a round, idle server"
	modelsMemory  = "memory of all models"
	processMemory = "memory of the process"
	rowsDisk      = "disk of log, ids and predictions"
	snapshotDisk  = "disk of a snapshot"
	recoveryCPU   = "CPU of start and recovery"
)

// Report is the report of a measurement, in Markdown.
func Report(rows []*Row) string {
	m := &markdown.Report{}
	m.Line("# Sizing: what was measured")
	m.Line("")
	m.Paragraph("`make sizing` writes this file and `sizing.csv`. [Sizing](../sizing.md) says how it is measured and ",
		"what follows. The machine had two cores of a cloud machine and nothing else to do. *Echo* is ",
		"how many times the processor time of a bare gRPC server with the same messages it is. *Answer* is what ",
		"`hindsight size` says, as a multiple of what was measured. Cases in bold were not looked at when its constants ",
		"were chosen.")
	m.Line("## CPU of a call, 16 callers")
	m.Line("")
	m.Head("", "features", "multiply-adds", "Predict, µs", "echo", "answer", "Observe, µs", "echo", "answer", "round, idle server, µs", "echo", "answer")
	for _, r := range rows {
		f := figures(r)
		m.Row(r.title(), markdown.Thousands(int(r.Validated.GetFeatures())), markdown.Thousands(int(r.Validated.GetObserveFlops())),
			micros(r.PredictCPU), digits(r.PredictCPU/r.EchoPredictCPU), f[predictCPU],
			micros(r.ObserveCPU), digits(r.ObserveCPU/r.EchoObserveCPU), f[observeCPU],
			known(2e6*r.AloneCPU), known(r.AloneCPU/max(r.EchoAloneCPU, 1e-9)), f[idleCPU])
	}
	m.Line("")
	m.Line("## Memory")
	m.Line("")
	m.Head("", "models", "ValidateSpec, a model", "all models", "answer", "process, empty", "process", "answer")
	for _, r := range rows {
		f := figures(r)
		m.Row(r.title(), markdown.Thousands(r.Models), size(float64(r.Validated.GetStateBytes())), size(r.ModelsBytes), f[modelsMemory],
			size(r.EmptyBytes), size(r.ResidentBytes), f[processMemory])
	}
	m.Line("")
	m.Line("## Disk")
	m.Line("")
	m.Head("", "observations in the log", "ids", "waiting", "`log/`", "`pending/`", "answer", "a snapshot", "answer")
	for _, r := range rows {
		f := figures(r)
		m.Row(r.title(), markdown.Thousands(int(r.Logged)), markdown.Thousands(int(r.IDs)), markdown.Thousands(int(r.Waiting)),
			size(r.LogBytes), size(r.PendingBytes), f[rowsDisk], size(r.SnapshotBytes), f[snapshotDisk])
	}
	m.Line("")
	m.Line("## Recovery after SIGKILL")
	m.Line("")
	m.Head("", "serves after, s", "replayed observations", "CPU until all models are there, s", "answer")
	for _, r := range rows {
		m.Row(r.title(), digits(r.StartSeconds), markdown.Thousands(int(r.Replayed)), digits(r.RecoveryCPU), figures(r)[recoveryCPU])
	}
	return m.String()
}

// title is the name of a row, in bold if it is unseen.
func (r *Row) title() string {
	if r.Unseen {
		return "**" + r.Name + "**"
	}
	return r.Name
}

// figures are the ratios of the answers by their names.
func figures(r *Row) map[string]string {
	all := map[string]string{}
	for _, f := range r.Figures() {
		all[f.Name] = fmt.Sprintf("%.2f", f.Ratio())
	}
	return all
}

func micros(seconds float64) string { return digits(seconds * 1e6) }

// known is empty for what was not measured.
func known(v float64) string {
	if v == 0 {
		return ""
	}
	return digits(v)
}

func digits(v float64) string { return markdown.Digits(v, 3) }

func size(bytes float64) string { return markdown.Size(uint64(bytes)) }

// Stated is what docs/sizing.md states of the ratio of answers to measurements of a
// figure, which a test holds the committed results to.
func Stated(figure string) (low, high float64, ok bool) {
	switch figure {
	case predictCPU, observeCPU, idleCPU:
		return 0.5, 2, true
	case modelsMemory:
		return 1, 6, true
	case processMemory:
		return 0.8, 1.3, true
	case rowsDisk:
		return 0.95, 2.4, true
	case snapshotDisk:
		return 1, 2.3, true
	case recoveryCPU:
		return 0.45, 1.7, true
	default:
		return 0, 0, false
	}
}
