package catalog_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/cpu"

	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/codec"
	"hindsight/internal/model/modeltest"
	"hindsight/internal/model/snapshot"
)

var update = flag.Bool("update", false, "write the golden files anew")

func ptr[T any](v T) *T { return &v }

func TestDefaults(t *testing.T) {
	for _, c := range []struct {
		spec model.Spec
		want model.Spec
		size int
	}{
		{
			model.Spec{Dimension: 25, Scaling: model.Unscaled(), PKAWVTaylor: &model.PKAWVTaylor{}},
			model.Spec{Dimension: 25, Outputs: 1, Scaling: model.Unscaled(), PKAWVTaylor: &model.PKAWVTaylor{
				Sigma: ptr(1.0), Degree: ptr(2), Lambda: ptr(0.1), MaxFeatures: ptr(512), Forgetting: ptr(1.0),
			}},
			351,
		},
		{
			model.Spec{Dimension: 600, Scaling: model.Unscaled(), PKAWVTaylor: &model.PKAWVTaylor{}},
			model.Spec{Dimension: 600, Outputs: 1, Scaling: model.Unscaled(), PKAWVTaylor: &model.PKAWVTaylor{
				Sigma: ptr(1.0), Degree: ptr(1), Lambda: ptr(0.1), MaxFeatures: ptr(601), Forgetting: ptr(1.0),
			}},
			601,
		},
		{
			model.Spec{Dimension: 2, Scaling: model.Unscaled(), PKAWVTaylor: &model.PKAWVTaylor{Degree: ptr(0), Sigma: ptr(3.0)}},
			model.Spec{Dimension: 2, Outputs: 1, Scaling: model.Unscaled(), PKAWVTaylor: &model.PKAWVTaylor{
				Sigma: ptr(3.0), Degree: ptr(0), Lambda: ptr(0.1), MaxFeatures: ptr(4096), Forgetting: ptr(1.0),
			}},
			1,
		},
		{
			model.Spec{Dimension: 12},
			model.Spec{Dimension: 12, Outputs: 1, Coverage: []float64{0.9}, LabelGate: model.GateOn, Auto: &model.Auto{
				Lags: ptr(2), Frequencies: ptr(50), MaxMicroseconds: ptr(500.0), MaxKeys: ptr(1 << 16),
			}},
			4*115 + 15,
		},
		{
			model.Spec{Dimension: 4, Seed: 7, Scaling: model.Unscaled(), LinearAWV: &model.LinearAWV{}},
			model.Spec{Dimension: 4, Outputs: 1, Seed: 7, Scaling: model.Unscaled(), LinearAWV: &model.LinearAWV{Lambda: ptr(0.1), Forgetting: ptr(1.0)}},
			5,
		},
	} {
		got, cost, err := catalog.Complete(c.spec)
		assert.True(t, err == nil && reflect.DeepEqual(got, c.want) && cost.Features == c.size, "%+v: %+v, %+v, %v", c.spec, got, cost, err)
		again, _, err := catalog.Complete(got)
		assert.True(t, err == nil && reflect.DeepEqual(again, got), "completed twice: %+v, %v", again, err)
		learner := must(catalog.New(c.spec))(t)
		// What auto keeps of its first rows is in the cost, and not yet there.
		if s := learner.Stats(); s.Features != cost.Features || s.StateBytes > cost.StateBytes ||
			(s.StateBytes != cost.StateBytes && c.spec.Name() != model.DefaultLearner) {
			t.Errorf("cost %+v, statistics %+v", cost, s)
		}
	}
}

func TestRejections(t *testing.T) {
	taylor := func(l model.PKAWVTaylor) model.Spec { return model.Spec{Dimension: 30, PKAWVTaylor: &l} }
	nystrom := func(l model.PKAWVNystrom) model.Spec { return model.Spec{Dimension: 2, PKAWVNystrom: &l} }
	for name, c := range map[string]struct {
		spec  model.Spec
		err   error
		field string
		says  string
	}{
		"no dimension":   {model.Spec{LinearAWV: &model.LinearAWV{}}, model.ErrInvalidSpec, "spec.dimension", "1 to"},
		"no scaling":     {model.Spec{Dimension: 1, Scaling: &model.Scaling{}, LinearAWV: &model.LinearAWV{}}, model.ErrInvalidSpec, "spec.scaling", "one of fixed"},
		"two scalings":   {model.Spec{Dimension: 1, Scaling: &model.Scaling{Running: &model.RunningScaling{}, None: &model.NoScaling{}}, LinearAWV: &model.LinearAWV{}}, model.ErrInvalidSpec, "spec.scaling", "2 kinds"},
		"offsets":        {model.Spec{Dimension: 2, Scaling: &model.Scaling{Fixed: &model.FixedScaling{Offset: []float64{1}}}, LinearAWV: &model.LinearAWV{}}, model.ErrInvalidSpec, "spec.scaling.fixed.offset", "1 numbers"},
		"scale":          {model.Spec{Dimension: 1, Scaling: &model.Scaling{Fixed: &model.FixedScaling{Scale: []float64{math.Inf(1)}}}, LinearAWV: &model.LinearAWV{}}, model.ErrInvalidSpec, "spec.scaling.fixed.scale[0]", "Inf"},
		"label scale":    {model.Spec{Dimension: 1, Scaling: &model.Scaling{Fixed: &model.FixedScaling{LabelScale: ptr(-1.0)}}, LinearAWV: &model.LinearAWV{}}, model.ErrInvalidSpec, "spec.scaling.fixed.label_scale", "-1"},
		"warm-up":        {model.Spec{Dimension: 1, Scaling: &model.Scaling{Warmup: &model.WarmupScaling{}}, LinearAWV: &model.LinearAWV{}}, model.ErrInvalidSpec, "spec.scaling.warmup.observations", "10000"},
		"long warm-up":   {model.Spec{Dimension: 1, Scaling: &model.Scaling{Warmup: &model.WarmupScaling{Observations: 9}}, KernelAWV: &model.KernelAWV{MaxObservations: ptr(8)}}, model.ErrInvalidSpec, "spec.scaling.warmup.observations", "max_observations = 8"},
		"scaled class":   {model.Spec{Dimension: 1, Scaling: &model.Scaling{Warmup: &model.WarmupScaling{Observations: 9, Labels: ptr(true)}}, FOGD: &model.FOGD{FirstOrder: model.FirstOrder{Loss: "hinge"}}}, model.ErrInvalidSpec, "spec.scaling.warmup.labels", "-1 and 1"},
		"moved class":    {model.Spec{Dimension: 1, Scaling: &model.Scaling{Fixed: &model.FixedScaling{LabelOffset: []float64{2}}}, FOGD: &model.FOGD{FirstOrder: model.FirstOrder{Loss: "logistic"}}}, model.ErrInvalidSpec, "spec.scaling.fixed.label_offset[0]", "-1 and 1"},
		"many outputs":   {model.Spec{Dimension: 1, Outputs: 2000, LinearAWV: &model.LinearAWV{}}, model.ErrInvalidSpec, "spec.outputs", "1 to 1024"},
		"forgetting":     {taylor(model.PKAWVTaylor{Forgetting: ptr(1.1)}), model.ErrInvalidSpec, "spec.pkawv_taylor.forgetting", "to 1"},
		"forgets all":    {nystrom(model.PKAWVNystrom{Forgetting: ptr(0.0)}), model.ErrInvalidSpec, "spec.pkawv_nystrom.forgetting", "0.01"},
		"scaled auto":    {model.Spec{Dimension: 1, Scaling: &model.Scaling{Fixed: &model.FixedScaling{}}}, model.ErrInvalidSpec, "spec.scaling", "itself"},
		"lags":           {model.Spec{Dimension: 1, Auto: &model.Auto{Lags: ptr(9)}}, model.ErrInvalidSpec, "spec.auto.lags", "0 to 8"},
		"frequencies":    {model.Spec{Dimension: 1, Auto: &model.Auto{Frequencies: ptr(0)}}, model.ErrInvalidSpec, "spec.auto.frequencies", "1 to"},
		"budget":         {model.Spec{Dimension: 1, Auto: &model.Auto{MaxMicroseconds: ptr(0.0)}}, model.ErrInvalidSpec, "spec.auto.max_microseconds", "from 1"},
		"low coverage":   {model.Spec{Dimension: 1, Coverage: []float64{0.4}}, model.ErrInvalidSpec, "spec.coverage[0]", "0.5"},
		"no coverage":    {model.Spec{Dimension: 1, Coverage: []float64{math.NaN()}}, model.ErrInvalidSpec, "spec.coverage[0]", "NaN"},
		"same coverage":  {model.Spec{Dimension: 1, LinearAWV: &model.LinearAWV{}, Coverage: []float64{0.9, 0.9}}, model.ErrInvalidSpec, "spec.coverage[1]", "more than"},
		"class coverage": {model.Spec{Dimension: 1, Coverage: []float64{0.9}, FOGD: &model.FOGD{FirstOrder: model.FirstOrder{Loss: "logistic"}}}, model.ErrInvalidSpec, "spec.coverage", "classes"},
		"much coverage":  {model.Spec{Dimension: 1, Coverage: make([]float64, 9)}, model.ErrInvalidSpec, "spec.coverage", "9 levels"},
		"two learners":   {model.Spec{Dimension: 1, LinearAWV: &model.LinearAWV{}, PKAWVTaylor: &model.PKAWVTaylor{}}, model.ErrInvalidSpec, "spec.learner", "2 learners"},
		"sigma":          {taylor(model.PKAWVTaylor{Sigma: ptr(0.0)}), model.ErrInvalidSpec, "spec.pkawv_taylor.sigma", "0"},
		"lambda":         {taylor(model.PKAWVTaylor{Lambda: ptr(math.NaN())}), model.ErrInvalidSpec, "spec.pkawv_taylor.lambda", "NaN"},
		"linear lambda":  {model.Spec{Dimension: 1, LinearAWV: &model.LinearAWV{Lambda: ptr(-1.0)}}, model.ErrInvalidSpec, "spec.linear_awv.lambda", "-1"},
		"degree":         {taylor(model.PKAWVTaylor{Degree: ptr(-1)}), model.ErrInvalidSpec, "spec.pkawv_taylor.degree", "-1"},
		"too large":      {taylor(model.PKAWVTaylor{Degree: ptr(4)}), model.ErrSpecTooLarge, "spec.pkawv_taylor.degree", "at most 2"},
		"ceiling":        {taylor(model.PKAWVTaylor{MaxFeatures: ptr(1 << 20)}), model.ErrInvalidSpec, "spec.pkawv_taylor.max_features", "16384"},
		"enormous":       {taylor(model.PKAWVTaylor{Degree: ptr(math.MaxInt32)}), model.ErrSpecTooLarge, "spec.pkawv_taylor.degree", "at most 2"},
		"kernel":         {model.Spec{Dimension: 1, KernelAWV: &model.KernelAWV{Kernel: &model.Kernel{Kind: "cubic"}}}, model.ErrInvalidSpec, "spec.kernel_awv.kernel.kind", "matern_32"},
		"alien sigma":    {model.Spec{Dimension: 1, KernelAWV: &model.KernelAWV{Kernel: &model.Kernel{Kind: "linear", Sigma: ptr(1.0)}}}, model.ErrInvalidSpec, "spec.kernel_awv.kernel.sigma", "linear kernel has none"},
		"alien degree":   {model.Spec{Dimension: 1, KernelAWV: &model.KernelAWV{Kernel: &model.Kernel{Degree: ptr(2)}}}, model.ErrInvalidSpec, "spec.kernel_awv.kernel.degree", "gaussian"},
		"tiny ridge":     {model.Spec{Dimension: 1, KernelAWV: &model.KernelAWV{Lambda: ptr(1e-13)}}, model.ErrInvalidSpec, "spec.kernel_awv.lambda", "1e-13"},
		"capacity":       {model.Spec{Dimension: 1, KernelAWV: &model.KernelAWV{MaxObservations: ptr(0)}}, model.ErrInvalidSpec, "spec.kernel_awv.max_observations", "20000"},
		"no spectrum":    {model.Spec{Dimension: 1, FourierAWV: &model.FourierAWV{Kernel: &model.Kernel{Kind: "polynomial"}}}, model.ErrInvalidSpec, "spec.fourier_awv.kernel.kind", "spectral"},
		"not radial":     {model.Spec{Dimension: 1, FourierAWV: &model.FourierAWV{Orthogonal: ptr(true), Kernel: &model.Kernel{Kind: "cauchy"}}}, model.ErrInvalidSpec, "spec.fourier_awv.orthogonal", "not radial"},
		"half of beta":   {nystrom(model.PKAWVNystrom{Delta: ptr(0.1)}), model.ErrInvalidSpec, "spec.pkawv_nystrom.horizon", "both"},
		"beta twice":     {nystrom(model.PKAWVNystrom{Delta: ptr(0.1), Horizon: ptr(int64(10)), Beta: ptr(1.0)}), model.ErrInvalidSpec, "spec.pkawv_nystrom.beta", "or horizon"},
		"delta":          {nystrom(model.PKAWVNystrom{Delta: ptr(1.0), Horizon: ptr(int64(10))}), model.ErrInvalidSpec, "spec.pkawv_nystrom.delta", "below 1"},
		"no window":      {nystrom(model.PKAWVNystrom{History: model.HistoryWindow}), model.ErrInvalidSpec, "spec.pkawv_nystrom.history_window", "0"},
		"window of none": {nystrom(model.PKAWVNystrom{HistoryWindow: ptr(3)}), model.ErrInvalidSpec, "spec.pkawv_nystrom.history_window", "without a history"},
		"window of all":  {nystrom(model.PKAWVNystrom{History: model.HistoryFull, HistoryWindow: ptr(0)}), model.ErrInvalidSpec, "spec.pkawv_nystrom.history_window", "0"},
		"history":        {nystrom(model.PKAWVNystrom{History: "some"}), model.ErrInvalidSpec, "spec.pkawv_nystrom.history", "some"},
		"centre":         {nystrom(model.PKAWVNystrom{Dictionary: [][]float64{{1, 2}, {3}}}), model.ErrDimensionMismatch, "spec.pkawv_nystrom.dictionary[1].features", "1 number"},
		"loss":           {model.Spec{Dimension: 1, FOGD: &model.FOGD{FirstOrder: model.FirstOrder{Loss: "absolute"}}}, model.ErrInvalidSpec, "spec.fogd.loss", "hinge"},
		"step":           {model.Spec{Dimension: 1, Raker: &model.Raker{FirstOrder: model.FirstOrder{Step: ptr(0.0)}}}, model.ErrInvalidSpec, "spec.raker.step", "0"},
		"restart":        {model.Spec{Dimension: 1, AdaRaker: &model.AdaRaker{Restart: "hot"}}, model.ErrInvalidSpec, "spec.ada_raker.restart", "warm or cold"},
		"tracked hinge":  {model.Spec{Dimension: 1, FOGD: &model.FOGD{FirstOrder: model.FirstOrder{Loss: "hinge", TrackRegret: ptr(true)}}}, model.ErrInvalidSpec, "spec.fogd.track_regret", "squared"},
		"no spectra":     {model.Spec{Dimension: 1, Raker: &model.Raker{Kernels: []*model.Kernel{{}, {Kind: "linear"}}}}, model.ErrInvalidSpec, "spec.raker.kernels[1].kind", "spectral"},
		"too wide":       {model.Spec{Dimension: 5000, PKAWVTaylor: &model.PKAWVTaylor{}}, model.ErrSpecTooLarge, "spec.dimension", "5000"},
	} {
		_, _, err := catalog.Complete(c.spec)
		var field *model.FieldError
		assert.True(t, errors.Is(err, c.err) && errors.As(err, &field) && field.Field == c.field && strings.Contains(err.Error(), c.says), "%s: %v", name, err)
		_, err = catalog.New(c.spec)
		assert.Error(t, err, "%s: made", name)
	}
}

// Horizon and δ give the β of KONS, Theorem 2, at its ε, which the completed spec holds.
func TestBetaFollowsFromHorizonAndDelta_ICML_Thm2(t *testing.T) {
	given := model.Spec{Dimension: 2, Scaling: model.Unscaled(), PKAWVNystrom: &model.PKAWVNystrom{
		Horizon: ptr(int64(2)), Delta: ptr(0.5), Epsilon: ptr(0.25), Mu: ptr(100.0), Lambda: ptr(1.0),
	}}
	created, _, err := catalog.Complete(given)
	require.NoError(t, err)
	n := created.PKAWVNystrom
	assert.True(t, n.Horizon == nil && n.Delta == nil && n.Beta != nil && math.Abs(*n.Beta-48*math.Log(4)) <= 1e-9, "created %+v", n)
	assert.True(t, given.PKAWVNystrom.Beta == nil && given.PKAWVNystrom.Horizon != nil, "what was given has changed: %+v", given.PKAWVNystrom)
}

// Snapshots written by this version are read for ever: the golden ones must
// decode, restore and predict what they did when they were written.
func TestGoldenSnapshots(t *testing.T) {
	for name, spec := range map[string]model.Spec{
		"pkawv_taylor": {Dimension: 2, Scaling: model.Unscaled(), PKAWVTaylor: &model.PKAWVTaylor{Degree: ptr(3), Sigma: ptr(0.8)}},
		"linear_awv":   {Dimension: 2, Scaling: model.Unscaled(), LinearAWV: &model.LinearAWV{Lambda: ptr(0.5)}},
		"scaled":       {Dimension: 2, Scaling: &model.Scaling{Warmup: &model.WarmupScaling{Observations: 8}}, LinearAWV: &model.LinearAWV{}},
		"forgetting":   {Dimension: 2, Scaling: model.Unscaled(), PKAWVTaylor: &model.PKAWVTaylor{Degree: ptr(2), Forgetting: ptr(0.95)}},
		"pkawv_nystrom": {Dimension: 2, Scaling: model.Unscaled(), Seed: 3, PKAWVNystrom: &model.PKAWVNystrom{
			Mu: ptr(0.3), History: model.HistoryWindow, HistoryWindow: ptr(7),
		}},
		"fourier_awv": {Dimension: 2, Scaling: model.Unscaled(), Seed: 4, FourierAWV: &model.FourierAWV{
			Frequencies: ptr(6), Kernel: &model.Kernel{Kind: "matern_32"},
		}},
		"raker": {Dimension: 2, Scaling: model.Unscaled(), Seed: 5, Raker: &model.Raker{FirstOrder: model.FirstOrder{Frequencies: ptr(4)}}},
		"ada_raker": {Dimension: 2, Scaling: model.Unscaled(), Seed: 6, AdaRaker: &model.AdaRaker{
			Raker: model.Raker{FirstOrder: model.FirstOrder{Frequencies: ptr(3)}}, Restart: model.RestartCold, BaseInterval: ptr(2),
		}},
		"fogd": {Dimension: 2, Scaling: model.Unscaled(), Seed: 7, FOGD: &model.FOGD{
			Kernel: &model.Kernel{Kind: "laplacian"}, FirstOrder: model.FirstOrder{Frequencies: ptr(4)},
		}},
		"fourier_kons": {Dimension: 2, Scaling: model.Unscaled(), Seed: 9, FourierKONS: &model.FourierKONS{Frequencies: ptr(6)}},
		"pros_n_kons": {Dimension: 2, Scaling: model.Unscaled(), Seed: 10, ProsNKONS: &model.ProsNKONS{
			Mu: ptr(0.3), NewtonSteps: model.NewtonSteps{Range: []float64{-3, 3}},
		}},
		"kons": {Dimension: 2, Scaling: model.Unscaled(), Seed: 11, KONS: &model.KONS{
			Gamma: ptr(0.3), NewtonSteps: model.NewtonSteps{Kernel: &model.Kernel{Kind: "matern_52"}, Range: []float64{-1, 1}},
		}},
		"sgm": {Dimension: 2, Outputs: 1, Scaling: model.Unscaled(), Seed: 9, FOGD: &model.FOGD{
			FirstOrder: model.FirstOrder{Frequencies: ptr(4)}, Decay: ptr(0.5), Average: ptr(true),
		}},
		"ridges": {Dimension: 2, Scaling: model.Unscaled(), Seed: 10, PKAWVNystrom: &model.PKAWVNystrom{
			Ridges: model.Ridges{Lambdas: []float64{0.1, 1}}, History: model.HistoryWindow, HistoryWindow: ptr(5),
		}},
		"degrees": {Dimension: 2, Scaling: model.Unscaled(), PKAWVTaylor: &model.PKAWVTaylor{Degree: ptr(3), MixDegrees: ptr(true)}},
		"ridges_linear": {Dimension: 2, Scaling: model.Unscaled(), LinearAWV: &model.LinearAWV{
			Ridges: model.Ridges{Lambdas: []float64{0.1, 1, 10}},
		}},
		"semiparametric_awv": {Dimension: 2, Scaling: model.Unscaled(), Seed: 11, SemiparametricAWV: &model.SemiparametricAWV{
			Parametric: []int{1}, Frequencies: ptr(4),
		}},
		"auto":       {Dimension: 2, Seed: 8, Auto: &model.Auto{Frequencies: ptr(3)}},
		"kernel_awv": {Dimension: 2, Scaling: model.Unscaled(), KernelAWV: &model.KernelAWV{Kernel: &model.Kernel{Kind: "laplacian", Sigma: ptr(2.0)}}},
	} {
		t.Run(name, func(t *testing.T) {
			path, answers := filepath.Join("testdata", name+".v1.hs"), filepath.Join("testdata", name+".v1.txt")
			samples := modeltest.Samples(99, 2, 30)
			if *update {
				write(t, spec, samples, path, answers)
			}
			data := must(os.ReadFile(path))(t)
			s := must(snapshot.Decode(data))(t)
			assert.True(t, s.Sequence == 20 && string(s.Account) == "account", "sequence %d, account %q", s.Sequence, s.Account)
			learner := must(catalog.New(s.Spec))(t)
			require.NoError(t, codec.Read(s.Learner, learner.Visit))
			want := must(os.ReadFile(answers))(t)
			compareAnswers(t, answer(t, learner, samples[20:]), string(want))
		})
	}
}

func write(t *testing.T, spec model.Spec, samples []modeltest.Sample, path, answers string) {
	t.Helper()
	spec, _, err := catalog.Complete(spec)
	require.NoError(t, err)
	learner := must(catalog.New(spec))(t)
	for _, o := range samples[:20] {
		must(modeltest.Observe(learner, o.X, o.Y, o.Weight))(t)
	}
	state := modeltest.State(t, learner.Visit)
	data, err := snapshot.Encode(snapshot.Snapshot{
		Spec: spec, Sequence: 20, Digest: snapshot.Digest(state), Learner: state, Account: []byte("account"),
	})
	require.NoError(t, err)
	for name, content := range map[string][]byte{path: data, answers: []byte(answer(t, learner, samples[20:]))} {
		require.NoError(t, os.WriteFile(name, content, 0o600))
	}
}

func answer(t *testing.T, learner model.Learner, samples []modeltest.Sample) string {
	t.Helper()
	var out bytes.Buffer
	for _, o := range samples {
		p := must(modeltest.Predict(learner, o.X))(t)
		fmt.Fprintln(&out, p.Value, p.StandardError, max(p.Leverage, 0))
	}
	return out.String()
}

// compareAnswers to rounding: another instruction path may differ in the last
// digit.
func compareAnswers(t *testing.T, got, want string) {
	t.Helper()
	g, w := strings.Fields(got), strings.Fields(want)
	require.Equal(t, len(w), len(g))
	for i := range g {
		var a, b float64
		must(fmt.Sscan(g[i]+" "+w[i], &a, &b))(t)
		assert.InDelta(t, b, a, 1e-13*(1+math.Abs(b)), "%v %v %v", i, g[i], w[i])
	}
}

// must returns v. An error ends the test.
func must[T any](v T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		require.NoError(tb, err)
		return v
	}
}

// On arm64 the loops of NEON have the bits of Go, and all learners the states that this
// processor gives. The user emulation of qemu runs both.
func TestArm64GivesTheSameState(t *testing.T) {
	if os.Getenv("HINDSIGHT_E2E") == "" {
		t.Skip("compiles for arm64 and emulates it: set HINDSIGHT_E2E=1 to run")
	}
	emulator, err := exec.LookPath("qemu-aarch64-static")
	if err != nil {
		t.Skip("no qemu-aarch64-static: install qemu-user-static to run")
	}
	// Other packages have no code of their own for arm64.
	loops := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-short", "-exec", emulator, "hindsight/internal/model/loops")
	loops.Env = append(os.Environ(), "GOARCH=arm64", "CGO_ENABLED=0")
	out, err := loops.CombinedOutput()
	require.NoError(t, err, "\n%s", out)
	assert.Equal(t, digests(t, nil, buildDigests(t, nil), "400"), digests(t, nil, emulator, buildDigests(t, []string{"GOARCH=arm64"}), "400"))
}

// buildDigests builds the command that prints the digests of all learners.
func buildDigests(t *testing.T, environment []string, flags ...string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "digests")
	build := exec.CommandContext(t.Context(), "go", append(append([]string{"build", "-o", binary}, flags...), "hindsight/internal/model/modeltest/digests")...)
	build.Env = append(append(os.Environ(), "CGO_ENABLED=0"), environment...)
	out, err := build.CombinedOutput()
	require.NoError(t, err, "build digests with %v %v\n%s", environment, flags, out)
	return binary
}

// digests runs a command that prints the digests.
func digests(t *testing.T, environment []string, name string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	command.Env = append(os.Environ(), environment...)
	out, err := command.CombinedOutput()
	require.True(t, err == nil && len(strings.Fields(string(out))) >= 60, "%v %s %v: %v\n%s", environment, name, args, err, out)
	return string(out)
}

// The same observations give the same state whether or not the compiler may
// fuse a product with a sum, with assembly and without, on any number of processors,
// and whether or not they have fused instructions, which the standard library looks for when it runs.
// After 1,200 rows every limit of observations and window is passed, and trees have been replaced: in the long form.
func TestOneSourceGivesOneState(t *testing.T) {
	if testing.Short() || modeltest.RaceDetector || runtime.GOARCH != "amd64" || !cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
		t.Skip("builds a program for GOAMD64=v1 and v3: not in short mode, not with the race detector, and only where both run")
	}
	type run struct{ processors, lacks string }
	first, rows := "", "300"
	if modeltest.Long() {
		rows = "1200"
	}
	for _, way := range []struct {
		level, tags string
		runs        []run
	}{
		{"v1", "", []run{{"1", ""}, {"8", "cpu.fma=off"}}}, {"v3", "", []run{{"8", ""}}}, {"v3", "purego", []run{{"8", ""}}},
	} {
		binary := buildDigests(t, []string{"GOAMD64=" + way.level}, "-tags", way.tags)
		for _, r := range way.runs {
			got := digests(t, []string{"GOMAXPROCS=" + r.processors, "GODEBUG=" + r.lacks}, binary, rows)
			if first == "" {
				first = got
			} else if got != first {
				t.Errorf("%s %s %+v: %s\nwant %s", way.level, way.tags, r, got, first)
			}
		}
	}
}

// The effective dimension Tr(C(C+λI)⁻¹) of a model that has learned nothing is 0,
// whatever its ridge: C is 0, and rounding leaves no dimension, nor a negative one.
func TestUntrainedEffectiveDimensionIsZero(t *testing.T) {
	track := model.FirstOrder{TrackRegret: ptr(true)}
	for _, lambda := range []float64{1e-6, 0.1, 1, 3, 1e6} {
		for _, spec := range []model.Spec{
			{PKAWVTaylor: &model.PKAWVTaylor{Lambda: &lambda}},
			{PKAWVTaylor: &model.PKAWVTaylor{Lambda: &lambda, Forgetting: ptr(0.99)}},
			{LinearAWV: &model.LinearAWV{Lambda: &lambda}},
			{FourierAWV: &model.FourierAWV{Lambda: &lambda}},
			{PKAWVNystrom: &model.PKAWVNystrom{Lambda: &lambda}},
			{PKAWVNystrom: &model.PKAWVNystrom{Lambda: &lambda, Dictionary: [][]float64{{1, 2, 3}, {3, 1, 2}}}},
			{KernelAWV: &model.KernelAWV{Lambda: &lambda}},
			{RLSC: &model.RLSC{Lambda: &lambda}},
			{Raker: &model.Raker{FirstOrder: track}},
			{AdaRaker: &model.AdaRaker{Raker: model.Raker{FirstOrder: track}}},
			{FOGD: &model.FOGD{FirstOrder: track}},
			{FOGD: &model.FOGD{FirstOrder: model.FirstOrder{TrackRegret: ptr(true), Lambda: &lambda}}},
		} {
			spec.Dimension, spec.Scaling = 3, model.Unscaled()
			learner, err := catalog.New(spec)
			require.NoError(t, err, "%s, lambda = %g", spec.Name(), lambda)
			got := learner.Report(model.ReportOptions{EffectiveDimension: true}).EffectiveDimension
			assert.EqualValues(t, 0, math.Float64bits(got), "%s, lambda = %g: an effective dimension of %g", spec.Name(), lambda, got)
		}
	}
}

// A full history has a window, and the cost counts it: a stream whose points are not kept
// takes no more memory than that.
func TestAFullHistoryIsBounded(t *testing.T) {
	rounds := 40_000
	if testing.Short() {
		rounds = 6_000
	}
	for name, given := range map[string]model.PKAWVNystrom{
		"few centres":          {Kernel: &model.Kernel{Kind: "linear"}},
		"few of few centres":   {Kernel: &model.Kernel{Kind: "linear"}, MaxDictionary: ptr(16)},
		"a window that is set": {MaxDictionary: ptr(128), HistoryWindow: ptr(100)},
	} {
		t.Run(name, func(t *testing.T) {
			given.History = model.HistoryFull
			spec, cost, err := catalog.Complete(model.Spec{Dimension: 2, PKAWVNystrom: &given})
			require.NoError(t, err)
			window, centres := *spec.PKAWVNystrom.HistoryWindow, *spec.PKAWVNystrom.MaxDictionary
			assert.True(t, given.HistoryWindow != nil || window == 8*centres, "a window of %d for %d centres", window, centres)
			l := must(catalog.New(spec))(t)
			samples := modeltest.Samples(11, 2, 1000)
			atWindow := uint64(0)
			for n := range rounds {
				s := &samples[n%len(samples)]
				require.NoError(t, l.Observe(&model.Outcome{}, s.X, []float64{s.Y}, s.Weight))
				require.LessOrEqual(t, l.Size(), cost.StateBytes, n+1)
				if n+1 == window {
					atWindow = l.Size()
				}
			}
			if m := l.Stats().Dictionary; m >= centres {
				t.Errorf("the dictionary is full: nothing is tested")
			} else if size := l.Size(); m == 2 && size > atWindow+atWindow/100 { // KORS keeps a point now and then.
				t.Errorf("%d bytes after %d rounds, %d after %d", size, rounds, atWindow, window)
			}
		})
	}
}
