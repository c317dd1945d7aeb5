package gate_test

import (
	"encoding/binary"
	"slices"

	"hindsight/internal/model"
	"hindsight/internal/model/auto"
	"hindsight/internal/model/gate"
)

// recorder is a learner that predicts 0 and remembers the labels that it learned.
type recorder struct {
	outputs int
	labels  [][]float64
}

func (r *recorder) Predict(p *model.Prediction, _ []float64) error {
	p.Resize(r.outputs)
	clear(p.Values)
	p.StandardErrors, p.Leverage = p.StandardErrors[:0], model.NoLeverage
	return nil
}

func (r *recorder) Check(_, y []float64, weight float64) error {
	if err := model.CheckLabels(y, r.outputs); err != nil {
		return err
	}
	return model.CheckWeight(weight)
}

func (r *recorder) Observe(o *model.Outcome, _, y []float64, weight float64) error {
	o.Resize(r.outputs)
	clear(o.Predictions)
	o.Loss, o.Regret = 0, 0
	for _, v := range y {
		o.Loss += weight * v * v
	}
	r.labels = append(r.labels, slices.Clone(y))
	return nil
}

func (r *recorder) Stats() model.Stats {
	return model.Stats{Observations: uint64(len(r.labels)), Certified: true, CertificateOK: true}
}

func (r *recorder) Size() uint64                            { return 8 }
func (r *recorder) Report(model.ReportOptions) model.Report { return model.Report{} }
func (r *recorder) Restore([]byte) error                    { return nil }
func (r *recorder) AppendBinary(dst []byte) ([]byte, error) {
	return binary.LittleEndian.AppendUint64(dst, uint64(len(r.labels))), nil
}

// recorded is a gate before recorders. The newest one is what now answers.
func recorded(dimension, outputs int) (l *gate.Learner, now func() *recorder) {
	var newest *recorder
	l = gate.New(gate.Options{Dimension: dimension, Outputs: outputs, New: func() model.Learner {
		newest = &recorder{outputs: outputs}
		return newest
	}})
	return l, func() *recorder { return newest }
}

// options are those of auto with its defaults.
func options(dimension int) auto.Options {
	return auto.Options{Dimension: dimension, Outputs: 1, Lags: 2, Frequencies: 50, Microseconds: 500}
}

// level1 is a smaller budget, without room for level 2.
func level1(o auto.Options) auto.Options {
	const opening = 3 // The most numbers that the opening adds to the advice of an output.
	for {
		sizes := auto.AdviceSizes(o)
		if slices.Max(sizes)-sizes[0] <= opening*o.Outputs {
			return o
		}
		o.Microseconds--
	}
}

// version makes auto with as many levels, and a gate before that learner.
type version struct {
	name string
	// level1 leaves no room for level 2.
	level1 bool
	// full is the row after which the state of the version has its full size, 0 if it always has.
	full int
}

// versions are auto without and with level 2.
func versions() []version { return []version{{"level 1", true, 0}, {"level 2", false, 8500}} }

func (v version) options(o auto.Options) auto.Options {
	if v.level1 {
		return level1(o)
	}
	return o
}

func (v version) auto(o auto.Options) model.Learner { return auto.New(v.options(o)) }

func (v version) gated(o auto.Options) *gate.Learner {
	return v.before(o, func() model.Learner { return v.auto(o) })
}

// before returns a gate whose learners the function learner makes.
func (v version) before(o auto.Options, learner func() model.Learner) *gate.Learner {
	return gate.New(gate.Options{Dimension: o.Dimension, Outputs: o.Outputs, Advice: auto.AdviceSizes(v.options(o)), New: learner})
}

// gated is auto without level 2 behind a gate.
func gated(o auto.Options) *gate.Learner { return versions()[0].gated(o) }
