package baselines_test

import (
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"hindsight/cmd/research/baselines"
	"hindsight/cmd/research/papers"
)

// whole asks for the figures of the streams that take more than some seconds.
var whole = flag.Bool("whole", false, "check the figures of movement, energy_adaraker and ijcnn1 too")

// table loads a stream, or skips the test.
func table(t *testing.T, name string, published bool) (*papers.Table, papers.Stream) {
	t.Helper()
	dir := os.Getenv(papers.StreamsEnv)
	if dir == "" {
		t.Skipf("%s is not set: no stream %s", papers.StreamsEnv, name)
	}
	for _, s := range papers.Streams() {
		if s.Name == name {
			s.AsPublished = s.AsPublished || published
			loaded, err := papers.Load(dir, s, 0)
			if err != nil {
				t.Skipf("no stream %s: %v", name, err)
			}
			return loaded, s
		}
	}
	t.Fatalf("there is no stream %s", name)
	return nil, papers.Stream{}
}

// long skips a test that takes long.
func long(t *testing.T) {
	t.Helper()
	if !*whole {
		t.Skip("run it with -whole: it takes some ten seconds")
	}
}

// losses returns the mean losses of all courses on a whole stream.
func losses(t *testing.T, name string) map[baselines.Course]float64 {
	t.Helper()
	data, s := table(t, name, false)
	online := baselines.NewOnline(s.Signs, len(data.Y))
	sums := make([]float64, len(online.Courses()))
	for i, x := range data.X {
		for c, told := range online.Observe(x, data.Y[i]) {
			sums[c] += online.Loss().Of(told, data.Y[i]) / float64(len(data.Y))
		}
	}
	all := make(map[baselines.Course]float64)
	for c, course := range online.Courses() {
		all[course] = sums[c]
	}
	return all
}

// expected fails unless a number has the given digits after it is multiplied by 10³.
func expected(t *testing.T, all map[baselines.Course]float64, method string, step int, want float64) {
	t.Helper()
	got := 1000 * all[baselines.Course{Method: method, Step: step}]
	if !(math.Abs(got-want) <= 0.051) {
		t.Errorf("%s with the step %v/√T: %.2f, not %.1f thousandths", method, baselines.Factor(step), got, want)
	}
}

// AdaRaker, Table 4, air. The paper states the step 1/√T and prints 12.7 for RBF with
// σ² = 1, 10.7 for LINEAR and 6.4 for OMKL, in thousandths. These are the numbers of a
// tenth of this step.
func TestAir(t *testing.T) {
	all := losses(t, "air")
	for method, want := range map[string][2]float64{"RBF, σ² = 1": {5.5, 12.7}, "LINEAR": {5.6, 10.6}, "OMKL": {2.7, 6.3}} {
		expected(t, all, method, baselines.Stated, want[0])
		expected(t, all, method, baselines.Tenth, want[1])
	}
}

// AdaRaker, Table 4, energy: 28.8 for RBF with σ² = 1 and for LINEAR.
func TestEnergy(t *testing.T) {
	long(t)
	all := losses(t, "energy_adaraker")
	expected(t, all, "RBF, σ² = 1", baselines.Tenth, 28.7)
	expected(t, all, "LINEAR", baselines.Tenth, 28.8)
}

// AdaRaker, Table 13, movement: M-Forgetron with B = 10, 50 and 100 has 1.60, 1.64 and
// 1.42 % of errors.
func TestMovement(t *testing.T) {
	long(t)
	data, _ := table(t, "movement", false)
	past, wrong := &baselines.Past{}, make([]int, len(baselines.Budgets()))
	var all []*baselines.MForgetron
	for _, b := range baselines.Budgets() {
		all = append(all, baselines.NewMForgetron(b))
	}
	for i, x := range data.X {
		past.Look(x)
		for k, m := range all {
			if !(m.Predict(past)*data.Y[i] > 0) {
				wrong[k]++
			}
			m.Learn(past, data.Y[i])
		}
	}
	for k, want := range []float64{1.37, 1.55, 1.91} {
		if got := 100 * float64(wrong[k]) / float64(len(data.Y)); !(math.Abs(got-want) < 0.006) {
			t.Errorf("B = %d: %.2f %%, not %.2f %%", baselines.Budgets()[k], got, want)
		}
	}
}

// Thesis, Table 4.3, Ijcnn with its own split: with 512 centres the test errors of NYTRO
// after 329 and 5,000 iterations, and of a ridge near the best. The thesis prints 0.457
// and 0.469 with 5,000 centres. Another choice of centres changes the errors by up to
// 0.01.
func TestIjcnn1(t *testing.T) {
	long(t)
	const sample, m = 49990, 512
	data, _ := table(t, "ijcnn1", true)
	var centres [][]float64
	for _, i := range rand.New(rand.NewPCG(1, 0)).Perm(sample)[:m] {
		centres = append(centres, data.X[i])
	}
	s, err := baselines.NewNystrom(baselines.Gaussian(1), centres)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Add(data.X[:sample], data.Y[:sample]); err != nil {
		t.Fatal(err)
	}
	fits := s.Descend(m, 1, baselines.NytroIterations, baselines.ManyIterations)
	ridge, err := s.Ridge(m, 1e-5)
	if err != nil {
		t.Fatal(err)
	}
	got := s.Errors(data.X[sample:], data.Y[sample:], append(fits, ridge)...)
	for i, want := range []float64{0.510, 0.427, 0.400} {
		if !(math.Abs(got[i]-want) < 0.01) {
			t.Errorf("error %.4f, not %.3f", got[i], want)
		}
	}
}
