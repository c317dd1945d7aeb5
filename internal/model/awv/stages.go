package awv

import (
	"cmp"
	"fmt"
	"math"
	"sync"

	"hindsight/internal/model"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/feature"
	"hindsight/internal/model/qr"
)

// StagesOptions are the options of a learner of two stages.
type StagesOptions struct {
	Dimension int
	// Parametric are the inputs of the first stage, for each output the same. With Shared they are
	// the matrix Φ, output after output.
	Parametric []int
	Shared     bool
	// ParametricLambda is the ridge of the first stage, Lambda the ridge of the second.
	ParametricLambda, Lambda float64
	// Outputs is the number of labels.
	Outputs int
}

// KernelInputs are the inputs x of the second stage: all, with Shared those that are not in Φ.
func (o StagesOptions) KernelInputs() []int {
	left := make([]bool, o.Dimension)
	for _, i := range o.Parametric {
		left[i] = o.Shared
	}
	inputs := make([]int, 0, o.Dimension)
	for i, out := range left {
		if !out {
			inputs = append(inputs, i)
		}
	}
	return inputs
}

// first is the order of the first factor, its right-hand sides, and its rows an observation.
func (o StagesOptions) first() (order, columns, rows int) {
	if o.Shared {
		return len(o.Parametric) / o.Outputs, 1, o.Outputs
	}
	return len(o.Parametric) + 1, o.Outputs, 1
}

// Stages learns in two stages. The first is a ridge, the second a forecaster over random features φ
// of the kernel of what the first leaves:
//
//	ŷ = Φ(x)π̂,  π̂ = argmin Σ ‖y − Φ(x)π‖² + λ_p‖π‖²
//	ỹ = ŷ + Δỹ,  Δỹ the forecaster's of the labels y − ŷ and the features φ(x, ŷ/2√d)
//
// where ŷ, in the second line, is the first stage's prediction of the round. Φ(x) has a row an output, one π for all of
// them; or each output has a π of its own, over (x_P, 1). An input of a learned scaling has the mean
// square 1/4d, and the factor gives the same to ŷ of labels of the mean square 1.
//
// The labels and features of the second stage are known before its label, whatever the first stage
// says, so that the theorem holds for every sequence:
//
//	Σ (y − ỹ)² − min_w (Σ (y − ŷ − w·φ)² + λ‖w‖²) ≤ C
//
// The second stage has the loss, the regret and the certificate: against the best correction of the
// first stage, of which w = 0 is none.
//
// Source: Camoriano, thesis (Genoa, 2017), chapter 8, whose second stage is a ridge too; the
// forecaster divides by 1 + q, which gives it the bound.
type Stages struct {
	o       StagesOptions
	inputs  []int
	unit    float64
	factor  *qr.Factor
	second  *Forecaster
	scratch sync.Pool
	// room and priors are scratch of Observe.
	room   *stagesRoom
	priors []float64
}

// stagesRoom is scratch: a row of the first stage with its labels, ŷ, and the inputs of the second stage.
type stagesRoom struct{ row, said, inputs []float64 }

// NewStages is a learner without observations over features of the KernelInputs and the outputs. It
// panics if an option is out of range.
func NewStages(features *feature.Fourier, o StagesOptions) *Stages {
	inputs := o.KernelInputs()
	order, columns, rows := o.first()
	if features.Dimension() != len(inputs)+o.Outputs || o.Shared && (order == 0 || order*rows != len(o.Parametric)) {
		panic(fmt.Sprintf("awv: stages of %+v over features of %d inputs", o, features.Dimension()))
	}
	s := &Stages{
		o: o, inputs: inputs, unit: 1 / (2 * math.Sqrt(float64(o.Dimension))),
		factor: qr.New(order, columns, o.ParametricLambda),
		second: New(features, Options{Lambda: o.Lambda, Outputs: o.Outputs}),
		priors: make([]float64, columns),
	}
	s.scratch.New = func() any { return s.newRoom() }
	s.room = s.newRoom()
	return s
}

func (s *Stages) newRoom() *stagesRoom {
	order, columns, _ := s.o.first()
	return &stagesRoom{
		row: qr.NewRow(order + columns), said: make([]float64, s.o.Outputs), inputs: make([]float64, len(s.inputs)+s.o.Outputs),
	}
}

// StagesCost is the cost of a learner whose second stage has r features over a map of mapBytes.
func StagesCost(r int, o StagesOptions, mapBytes uint64) model.Cost {
	order, columns, rows := o.first()
	p, k := uint64(order), uint64(columns)
	c := Cost(r, Options{Outputs: o.Outputs}, mapBytes)
	c.Features += order
	c.StateBytes += qr.Bytes(order, columns) + 8*uint64(2*o.Dimension+3*o.Outputs+2*(order+columns))
	c.PredictFlops += uint64(rows) * (p*(p+1)/2 + k*p)
	c.ObserveFlops += uint64(rows) * (2*p*(p+1) + 5*k*p + p*(p+1)/2)
	return c
}

// Check returns the error that Observe would return.
func (s *Stages) Check(x, y []float64, weight float64) error {
	return cmp.Or(model.CheckFeatures(x, s.o.Dimension, model.MaxMagnitude), model.CheckLabels(y, s.o.Outputs), model.CheckWeight(weight))
}

// fill writes row number of the regressors of x into the row of the room.
func (s *Stages) fill(row, x []float64, number int) {
	order := s.factor.Order()
	if s.o.Shared {
		for k, i := range s.o.Parametric[number*order : (number+1)*order] {
			row[k] = x[i]
		}
		return
	}
	for k, i := range s.o.Parametric {
		row[k] = x[i]
	}
	row[order-1] = 1
}

// say writes ŷ, within model.MaxMagnitude, and the inputs of the second stage.
func (s *Stages) say(room *stagesRoom, x []float64) {
	order, columns, rows := s.o.first()
	for number := range rows {
		s.fill(room.row, x, number)
		s.factor.Solve(room.row[:order], room.said[number:number+columns])
	}
	for k, i := range s.inputs {
		room.inputs[k] = x[i]
	}
	for j, v := range room.said {
		v = math.Max(-model.MaxMagnitude, math.Min(model.MaxMagnitude, v))
		room.said[j], room.inputs[len(s.inputs)+j] = v, float64(v*s.unit)
	}
}

// Predict answers ỹ, and ŷ as the parametric values. It only reads the state.
func (s *Stages) Predict(p *model.Prediction, x []float64) error {
	if err := model.CheckFeatures(x, s.o.Dimension, model.MaxMagnitude); err != nil {
		return err
	}
	room := s.scratch.Get().(*stagesRoom) //nolint:forcetypeassert // The pool holds nothing else.
	defer s.scratch.Put(room)
	s.say(room, x)
	if err := s.second.Predict(p, room.inputs); err != nil {
		return err
	}
	for j, v := range room.said {
		p.Values[j] += v
	}
	p.Parametric = append(p.Parametric[:0], room.said...)
	return nil
}

// Observe learns (x, y − ŷ) in the second stage and (x, y) in the first.
func (s *Stages) Observe(o *model.Outcome, x, y []float64, weight float64) error {
	if err := s.Check(x, y, weight); err != nil {
		return err
	}
	room := s.room
	s.say(room, x)
	left := room.inputs[len(s.inputs):] // The features have been computed when it is written.
	s.second.features.Map(s.second.row[:s.second.factor.Order()], room.inputs)
	for j, v := range y {
		left[j] = v - room.said[j]
	}
	s.second.learn(o, left, weight)
	for j, v := range room.said {
		o.Predictions[j] += v
	}
	order, columns, rows := s.o.first()
	root := math.Sqrt(weight)
	for number := range rows {
		s.fill(room.row, x, number)
		copy(room.row[order:], y[number:number+columns])
		for i := range room.row {
			room.row[i] *= root
		}
		s.factor.Rotate(room.row, s.priors)
	}
	return nil
}

// Stats are the second stage's.
func (s *Stages) Stats() model.Stats {
	stats := s.second.Stats()
	stats.Features += s.factor.Order()
	stats.StateBytes = s.Size()
	return stats
}

// Size is the memory of the state.
func (s *Stages) Size() uint64 {
	return StagesCost(s.second.factor.Order(), s.o, s.second.features.Bytes()).StateBytes
}

// Report is the second stage's, with the weights π̂ of the first.
func (s *Stages) Report(o model.ReportOptions) model.Report {
	r := s.second.report(s.Stats(), o, true)
	order, columns, _ := s.o.first()
	if r.Weights = nil; order*s.o.Outputs > maxWeights {
		return r
	}
	weights := make([]float64, order)
	for j := range s.o.Outputs {
		inputs := s.o.Parametric
		if s.o.Shared {
			inputs = inputs[j*order:]
		}
		s.factor.Weights(weights, min(j, columns-1))
		r.Weights = appendWeights(r.Weights, j, inputs, weights, 1)
	}
	return r
}

// Visit visits the state of the second stage and the factor of the first.
func (s *Stages) Visit(v *codec.Visitor) {
	s.second.Visit(v)
	s.factor.Visit(v, minDiagonal*math.Sqrt(s.o.ParametricLambda), qr.MaxEntry)
}
