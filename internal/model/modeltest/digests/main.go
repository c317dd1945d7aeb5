// Command digests prints a digest of the state of every learner after as many observations as its argument
// says. Tests build the command in several ways and compare what it prints.
package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"

	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/snapshot"
)

func main() {
	if err := run(os.Args[len(os.Args)-1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(argument string) error {
	rounds, err := strconv.Atoi(argument)
	if err != nil {
		return fmt.Errorf("digests ROUNDS: %w", err)
	}
	for _, spec := range deterministic() {
		state, err := learn(spec, rounds)
		if err != nil {
			return fmt.Errorf("%s: %w", spec.Name(), err)
		}
		fmt.Fprintf(os.Stdout, "%s %x\n", spec.Name(), snapshot.Digest(state))
	}
	return nil
}

// learn returns the state of a learner after the rounds, or after as many as the learner takes.
func learn(spec model.Spec, rounds int) ([]byte, error) {
	spec, _, err := catalog.Complete(spec)
	if err != nil {
		return nil, err
	}
	learner, err := catalog.New(spec)
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(5, 17))
	var o model.Outcome
	var of model.ClassOutcome
	x := make([]float64, spec.Dimension)
	for n := range rounds {
		for j := range x {
			x[j] = rng.NormFloat64()
		}
		y, weight := rng.NormFloat64(), 1.0
		if n%4 == 3 {
			weight = 0.1 + float64(3*rng.Float64()) // Never fused: the same on every target.
		}
		labels := []float64{y, y * y}[:max(spec.Outputs, 1)]
		if c, ok := learner.(model.Classifier); ok {
			err = c.ObserveClass(&of, x, strconv.Itoa(int(y+4)%3), weight, nil)
		} else {
			err = learner.Observe(&o, x, labels, weight)
		}
		if errors.Is(err, model.ErrObservationLimit) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	return codec.Append(nil, learner.Visit)
}

// deterministic are specs whose state has the same bits however the source is
// compiled, and whatever the processor has.
func deterministic() []model.Spec {
	return []model.Spec{
		{Dimension: 3, Scaling: model.Unscaled(), PKAWVTaylor: &model.PKAWVTaylor{Degree: new(4), Sigma: new(0.9)}},
		{Dimension: 3, Outputs: 2, Scaling: model.Unscaled(), PKAWVTaylor: &model.PKAWVTaylor{Degree: new(2), Forgetting: new(0.99)}},
		{Dimension: 5, Scaling: model.Unscaled(), LinearAWV: &model.LinearAWV{Lambda: new(1e-3)}},
		{Dimension: 5, LinearAWV: &model.LinearAWV{}, Scaling: &model.Scaling{Warmup: &model.WarmupScaling{Observations: 70}}},
		{Dimension: 5, Outputs: 2, LinearAWV: &model.LinearAWV{}, Scaling: &model.Scaling{Running: &model.RunningScaling{}}},
		{Dimension: 3, Scaling: model.Unscaled(), PKAWVNystrom: &model.PKAWVNystrom{MaxDictionary: new(60)}},
		{Dimension: 3, Scaling: model.Unscaled(), PKAWVNystrom: &model.PKAWVNystrom{
			Kernel: &model.Kernel{Kind: "cauchy"}, MaxDictionary: new(60), Forgetting: new(0.999),
			History: model.HistoryWindow, HistoryWindow: new(200),
		}},
		{Dimension: 3},
		{Dimension: 3, Auto: &model.Auto{}},
		{Dimension: 3, Outputs: 2, Auto: &model.Auto{Lags: new(3)}},
		{LabelGate: model.GateOn, Auto: &model.Auto{}, Inputs: []*model.Input{
			{Name: "kind", Categorical: &model.CategoricalInput{MaxCategories: new(4)}},
			{Name: "at", Time: &model.TimeInput{Cycles: []string{"hour_of_day"}}},
			{Name: "size", Numeric: &model.NumericInput{}},
			{Name: "open", Boolean: &model.BooleanInput{}},
		}},
		{Dimension: 3, Outputs: 2, Auto: &model.Auto{Frequencies: new(7), MaxMicroseconds: new(20.0)}},
		{Dimension: 3, Scaling: model.Unscaled(), KernelAWV: &model.KernelAWV{Kernel: &model.Kernel{Kind: "matern_52"}, MaxObservations: new(300)}},
		{Dimension: 4, Scaling: model.Unscaled(), FourierAWV: &model.FourierAWV{}},
		{Dimension: 4, Scaling: model.Unscaled(), FourierAWV: &model.FourierAWV{Kernel: &model.Kernel{Kind: "laplacian"}}},
		{Dimension: 3, Scaling: model.Unscaled(), KernelAWV: &model.KernelAWV{MaxObservations: new(300)}},
		{Dimension: 3, Scaling: model.Unscaled(), KernelAWV: &model.KernelAWV{Kernel: &model.Kernel{Kind: "rational_quadratic"}, MaxObservations: new(300)}},
		{Dimension: 3, Scaling: model.Unscaled(), PKAWVNystrom: &model.PKAWVNystrom{Kernel: &model.Kernel{Kind: "polynomial", Degree: new(3)}, MaxDictionary: new(20)}},
		{Dimension: 3, Classes: &model.Classes{MaxClasses: new(3)}, AdaRaker: &model.AdaRaker{Raker: model.Raker{FirstOrder: model.FirstOrder{Loss: "logistic"}}}},
		{Dimension: 4, Outputs: 2, FourierAWV: &model.FourierAWV{Ridges: model.Ridges{Lambdas: []float64{1e-3, 0.1, 10}}}},
		{Dimension: 4, Scaling: model.Unscaled(), SemiparametricAWV: &model.SemiparametricAWV{Parametric: []int{1, 3}}},
		{Dimension: 4, SemiparametricAWV: &model.SemiparametricAWV{Stages: new(2)}},
		{Dimension: 4, Scaling: model.Unscaled(), FOGD: &model.FOGD{Decay: new(0.3), Average: new(true)}},
		{Dimension: 4, Scaling: model.Unscaled(), AdaRaker: &model.AdaRaker{Raker: model.Raker{FirstOrder: model.FirstOrder{TrackRegret: new(true)}}}},
		{Dimension: 4, FourierKONS: &model.FourierKONS{}},
		{Dimension: 3, Outputs: 2, Scaling: model.Unscaled(), ProsNKONS: &model.ProsNKONS{MaxDictionary: new(40)}},
		{Dimension: 3, Scaling: model.Unscaled(), KONS: &model.KONS{MaxObservations: new(300), Gamma: new(0.2)}},
		{Dimension: 3, Classes: &model.Classes{MaxClasses: new(3)}, FourierKONS: &model.FourierKONS{
			Frequencies: new(9), NewtonSteps: model.NewtonSteps{Loss: model.LossLogistic},
		}},
		{Dimension: 3, Classes: &model.Classes{MaxClasses: new(3)}, ProsNKONS: &model.ProsNKONS{
			MaxDictionary: new(30), NewtonSteps: model.NewtonSteps{Loss: model.LossSquaredHinge},
			Growth: model.GrowthRestart,
		}},
		{Dimension: 4, FourierAWV: &model.FourierAWV{
			Frequencies: new(9), Ridges: model.Ridges{Lambdas: []float64{0.1, 10}},
		}},
		{Dimension: 3, FourierKONS: &model.FourierKONS{
			Frequencies: new(9), NewtonSteps: model.NewtonSteps{Range: []float64{-2, 3.3}},
		}},
		{Dimension: 3, RLSC: &model.RLSC{Forgetting: new(0.99)}},
		{Dimension: 3, RLSC: &model.RLSC{Kernel: &model.Kernel{}, Ridges: model.Ridges{Lambdas: []float64{0.1, 10}}}, Classes: &model.Classes{MaxClasses: new(4)}},
		{Dimension: 3, Classes: &model.Classes{MaxClasses: new(3)}, FourierAWV: &model.FourierAWV{Frequencies: new(9)}},
	}
}
