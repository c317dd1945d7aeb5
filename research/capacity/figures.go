package capacity

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protojson"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/research/load"
	"hindsight/cmd/research/sizing"
)

// Figure is a figure that was measured, and what package sizing says of it.
type Figure struct {
	Name               string
	Measured, Answered float64
}

// Ratio is how many times the measured value the answer is.
func (f Figure) Ratio() float64 { return f.Answered / f.Measured }

// Figures are those of a row that package sizing speaks of.
func (r *Row) Figures() ([]Figure, error) {
	validated := new(hindsightv1.ValidateSpecResponse)
	if err := protojson.Unmarshal([]byte(r.Validated), validated); err != nil {
		return nil, fmt.Errorf("%s: read the spec: %w", r.Name, err)
	}
	m := sizing.Of(validated)
	m.Classes = min(m.Classes, load.Classes)
	answer := sizing.Estimate(m, sizing.Load{Rate: aloneRate, Models: r.Models}, sizing.Defaults())
	disk := m.Disk(sizing.Held{Observations: r.Logged, IDs: r.IDs, Pending: r.Pending, Learned: r.IDs, Predicted: r.Pending})
	recovery := sizing.Start(r.IDs) + float64(r.Models)*m.Recover(r.Replayed/float64(r.Models))
	all := []Figure{
		{predictCPU, r.PredictCPU, answer.CPU.Predict},
		{observeCPU, r.ObserveCPU, answer.CPU.Observe},
		{idleCPU, 2 * r.AloneCPU, answer.CPU.Alone / (aloneRate * float64(r.Models))},
		{modelsMemory, r.ModelsBytes, answer.Memory.States},
		{processMemory, r.ResidentBytes, answer.Memory.Process},
		{rowsDisk, r.LogBytes + r.PendingBytes, disk.Total},
		{snapshotDisk, r.SnapshotBytes, answer.Memory.PerModel},
		{recoveryCPU, r.RecoveryCPU, recovery},
	}
	return slices.DeleteFunc(all, func(f Figure) bool {
		return f.Measured == 0 || f.Name == processMemory && r.Bulk == 0
	}), nil
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

// Stated is what research/sizing/README.md states of the ratio of answers to measurements of a
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
		return 0.95, 2.6, true
	case snapshotDisk:
		return 1, 3.2, true
	case recoveryCPU:
		return 0.45, 2.5, true
	default:
		return 0, 0, false
	}
}
