package gate_test

import (
	"encoding/binary"

	"hindsight/internal/model"
)

// recorder is a learner that predicts 0 and remembers the labels that it learned.
type recorder struct {
	outputs int
	rows    [][]float64
}

func (r *recorder) Predict(p *model.Prediction, _ []float64) error {
	p.Resize(r.outputs)
	clear(p.Values)
	p.StandardErrors = p.StandardErrors[:0]
	return nil
}

func (r *recorder) Check(_, _ []float64, _ float64) error { return nil }

func (r *recorder) Observe(o *model.Outcome, _, y []float64, weight float64) error {
	o.Resize(r.outputs)
	clear(o.Predictions)
	o.Loss, o.Regret = 0, 0
	for _, v := range y {
		o.Loss += weight * v * v
	}
	r.rows = append(r.rows, append([]float64(nil), y...))
	return nil
}

func (r *recorder) Stats() model.Stats {
	return model.Stats{Observations: uint64(len(r.rows)), Certified: true, CertificateOK: true}
}

func (r *recorder) Size() uint64                            { return 8 }
func (r *recorder) Report(model.ReportOptions) model.Report { return model.Report{} }
func (r *recorder) Restore([]byte) error                    { return nil }
func (r *recorder) AppendBinary(dst []byte) ([]byte, error) {
	return binary.LittleEndian.AppendUint64(dst, uint64(len(r.rows))), nil
}
