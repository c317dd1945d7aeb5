package catalog_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/cpu"

	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/modeltest"
)

// printDigests makes the test binary print the digests of the learners after so many
// observations and end, for TestOneSourceGivesOneState.
const printDigests = "HINDSIGHT_TEST_PRINT_DIGESTS"

// deterministic are specs whose state has the same bits however the source is
// compiled, and whatever the processor has.
func deterministic() []model.Spec {
	return []model.Spec{
		{Dimension: 3, Scaling: model.Unscaled(), PKAWVTaylor: &model.PKAWVTaylor{Degree: ptr(4), Sigma: ptr(0.9)}},
		{Dimension: 3, Outputs: 2, Scaling: model.Unscaled(), PKAWVTaylor: &model.PKAWVTaylor{Degree: ptr(2), Forgetting: ptr(0.99)}},
		{Dimension: 5, Scaling: model.Unscaled(), LinearAWV: &model.LinearAWV{Lambda: ptr(1e-3)}},
		{Dimension: 5, LinearAWV: &model.LinearAWV{}, Scaling: &model.Scaling{Warmup: &model.WarmupScaling{Observations: 70}}},
		{Dimension: 5, Outputs: 2, LinearAWV: &model.LinearAWV{}, Scaling: &model.Scaling{Running: &model.RunningScaling{}}},
		{Dimension: 3, Scaling: model.Unscaled(), PKAWVNystrom: &model.PKAWVNystrom{MaxDictionary: ptr(60)}},
		{Dimension: 3, Scaling: model.Unscaled(), PKAWVNystrom: &model.PKAWVNystrom{
			Kernel: &model.Kernel{Kind: "cauchy"}, MaxDictionary: ptr(60), Forgetting: ptr(0.999),
			History: model.HistoryWindow, HistoryWindow: ptr(200),
		}},
		{Dimension: 3},
		{Dimension: 3, Auto: &model.Auto{}},
		{Dimension: 3, Outputs: 2, Auto: &model.Auto{Lags: ptr(3)}},
		{LabelGate: model.GateOn, Auto: &model.Auto{}, Inputs: []*model.Input{
			{Name: "kind", Categorical: &model.CategoricalInput{MaxCategories: ptr(4)}},
			{Name: "at", Time: &model.TimeInput{Cycles: []string{"hour_of_day"}}},
			{Name: "size", Numeric: &model.NumericInput{}},
			{Name: "open", Boolean: &model.BooleanInput{}},
		}},
		{Dimension: 3, Outputs: 2, Auto: &model.Auto{Frequencies: ptr(7), MaxMicroseconds: ptr(20.0)}},
		{Dimension: 3, Scaling: model.Unscaled(), KernelAWV: &model.KernelAWV{Kernel: &model.Kernel{Kind: "matern_52"}, MaxObservations: ptr(300)}},
		{Dimension: 4, Scaling: model.Unscaled(), FourierAWV: &model.FourierAWV{}},
		{Dimension: 4, Scaling: model.Unscaled(), FourierAWV: &model.FourierAWV{Kernel: &model.Kernel{Kind: "laplacian"}}},
		{Dimension: 3, Scaling: model.Unscaled(), KernelAWV: &model.KernelAWV{MaxObservations: ptr(300)}},
		{Dimension: 3, Scaling: model.Unscaled(), KernelAWV: &model.KernelAWV{Kernel: &model.Kernel{Kind: "rational_quadratic"}, MaxObservations: ptr(300)}},
		{Dimension: 3, Scaling: model.Unscaled(), PKAWVNystrom: &model.PKAWVNystrom{Kernel: &model.Kernel{Kind: "polynomial", Degree: ptr(3)}, MaxDictionary: ptr(20)}},
		{Dimension: 3, Classes: &model.Classes{MaxClasses: ptr(3)}, AdaRaker: &model.AdaRaker{Raker: model.Raker{FirstOrder: model.FirstOrder{Loss: "logistic"}}}},
		{Dimension: 4, Outputs: 2, FourierAWV: &model.FourierAWV{Ridges: model.Ridges{Lambdas: []float64{1e-3, 0.1, 10}}}},
		{Dimension: 4, Scaling: model.Unscaled(), SemiparametricAWV: &model.SemiparametricAWV{Parametric: []int{1, 3}}},
		{Dimension: 4, Scaling: model.Unscaled(), FOGD: &model.FOGD{Decay: ptr(0.3), Average: ptr(true)}},
		{Dimension: 4, Scaling: model.Unscaled(), AdaRaker: &model.AdaRaker{Raker: model.Raker{FirstOrder: model.FirstOrder{TrackRegret: ptr(true)}}}},
		{Dimension: 4, FourierKONS: &model.FourierKONS{}},
		{Dimension: 3, Outputs: 2, Scaling: model.Unscaled(), ProsNKONS: &model.ProsNKONS{MaxDictionary: ptr(40)}},
		{Dimension: 3, Scaling: model.Unscaled(), KONS: &model.KONS{MaxObservations: ptr(300), Gamma: ptr(0.2)}},
		{Dimension: 3, Classes: &model.Classes{MaxClasses: ptr(3)}, FourierKONS: &model.FourierKONS{
			Frequencies: ptr(9), NewtonSteps: model.NewtonSteps{Loss: model.LossLogistic},
		}},
		{Dimension: 3, Classes: &model.Classes{MaxClasses: ptr(3)}, ProsNKONS: &model.ProsNKONS{
			MaxDictionary: ptr(30), NewtonSteps: model.NewtonSteps{Loss: model.LossSquaredHinge},
			Growth: model.GrowthRestart,
		}},
		{Dimension: 4, FourierAWV: &model.FourierAWV{
			Frequencies: ptr(9), Ridges: model.Ridges{Lambdas: []float64{0.1, 10}, Range: []float64{-2, 3.3}},
		}},
		{Dimension: 3, FourierKONS: &model.FourierKONS{
			Frequencies: ptr(9), NewtonSteps: model.NewtonSteps{Range: []float64{-2, 3.3}},
		}},
		{Dimension: 3, RLSC: &model.RLSC{Forgetting: ptr(0.99)}},
		{Dimension: 3, RLSC: &model.RLSC{Kernel: &model.Kernel{}}, Classes: &model.Classes{MaxClasses: ptr(4)}},
		{Dimension: 3, Classes: &model.Classes{MaxClasses: ptr(3)}, FourierAWV: &model.FourierAWV{Frequencies: ptr(9)}},
	}
}

func TestMain(m *testing.M) {
	rounds, err := strconv.Atoi(os.Getenv(printDigests))
	if err != nil {
		os.Exit(m.Run())
	}
	for _, spec := range deterministic() {
		spec, _, err := catalog.Complete(spec)
		if err != nil {
			panic(err)
		}
		learner, err := catalog.New(spec)
		if err != nil {
			panic(err)
		}
		var o model.Outcome
		var of model.ClassOutcome
		for _, s := range modeltest.Samples(5, spec.Dimension, rounds) {
			labels := []float64{s.Y}
			if spec.Outputs == 2 {
				labels = append(labels, s.Y*s.Y)
			}
			if c, ok := learner.(model.Classifier); ok {
				if err := c.ObserveClass(&of, s.X, strconv.Itoa(int(s.Y+4)%3), s.Weight, nil); err != nil {
					panic(err)
				}
				continue
			}
			if err := learner.Observe(&o, s.X, labels, s.Weight); errors.Is(err, model.ErrObservationLimit) {
				break
			} else if err != nil {
				panic(err)
			}
		}
		state, err := learner.AppendBinary(nil)
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(os.Stdout, "%x\n", codec.Digest(state))
	}
}

// The same observations give the same state whether or not the compiler may
// fuse a product with a sum, with assembly and without, on any number of processors,
// and whether or not they have fused instructions, which the standard library looks for when it runs.
// After 1,200 rows every limit of observations and window is passed, and trees have been replaced.
func TestOneSourceGivesOneState(t *testing.T) {
	if testing.Short() || modeltest.RaceDetector || runtime.GOARCH != "amd64" || !cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
		t.Skip("builds the package for GOAMD64=v1 and v3: not in short mode, not with the race detector, and only where both run")
	}
	type run struct{ processors, lacks string }
	var first string // Of all learners.
	for _, way := range []struct {
		level, tags string
		runs        []run
	}{
		{"v1", "", []run{{"1", ""}, {"8", ""}, {"8", "cpu.fma=off"}}}, {"v3", "", []run{{"8", ""}}}, {"v3", "purego", []run{{"8", ""}}},
	} {
		binary := filepath.Join(t.TempDir(), "learn")
		build := exec.CommandContext(t.Context(), "go", "test", "-tags", way.tags, "-c", "-o", binary, ".")
		build.Env = append(os.Environ(), "GOAMD64="+way.level)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build for %+v: %v\n%s", way, err, out)
		}
		for _, r := range way.runs {
			learn := exec.CommandContext(t.Context(), binary)
			learn.Env = append(os.Environ(), printDigests+"=1200", "GOMAXPROCS="+r.processors, "GODEBUG="+r.lacks)
			out, err := learn.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if digests := string(out); first == "" {
				first = digests
			} else if digests != first {
				t.Errorf("%s %s %+v: %s\nwant %s", way.level, way.tags, r, digests, first)
			}
		}
	}
	if len(strings.Fields(first)) != len(deterministic()) {
		t.Errorf("digests %q", first)
	}
}
