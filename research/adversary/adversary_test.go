package adversary_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"gonum.org/v1/gonum/mat"

	"hindsight/cmd/research/adversary"
)

// small is a setting that is played quickly.
func small() adversary.Setting {
	return adversary.Setting{Rounds: 24, Dimension: 3, Seed: 7, Starts: 4}
}

// played plays the small setting once for all tests.
var played = sync.OnceValues(func() (*adversary.Result, error) {
	return adversary.Play(context.Background(), small(), func(string, ...any) {})
})

func play(t *testing.T) *adversary.Result {
	t.Helper()
	r, err := played()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// hindsight is min_f Σ(y−f(x))² + λ‖f‖² = λ yᵀ(K+λI)⁻¹y, σ = λ = 1, by a dense
// solve.
func hindsight(t *testing.T, moves []adversary.Move) float64 {
	t.Helper()
	n := len(moves)
	if n == 0 {
		return 0
	}
	k, y := mat.NewDense(n, n, nil), mat.NewVecDense(n, nil)
	for i, a := range moves {
		y.SetVec(i, a.Y)
		for j, b := range moves {
			square := 0.0
			for l := range a.X {
				square += (a.X[l] - b.X[l]) * (a.X[l] - b.X[l])
			}
			k.Set(i, j, math.Exp(-square/2))
		}
		k.Set(i, i, k.At(i, i)+1)
	}
	var alpha mat.VecDense
	if err := alpha.SolveVec(k, y); err != nil {
		t.Fatal(err)
	}
	return mat.Dot(y, &alpha)
}

// anyMove returns a random move with a label in [−1,1].
func anyMove(rng *rand.Rand, dimension int) adversary.Move {
	x := make([]float64, dimension)
	for i := range x {
		x[i] = 2*rng.Float64() - 1
	}
	return adversary.Move{X: x, Y: 2*rng.Float64() - 1}
}

func near(got, want float64) bool { return math.Abs(got-want) <= 1e-10*(1+math.Abs(want)) }

func TestGrowthIsThatOfADenseSolve(t *testing.T) {
	s := small()
	for _, e := range adversary.Entrants(s) {
		g, err := adversary.NewGame(e.Spec)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(3, 3))
		var moves []adversary.Move
		loss, before := 0.0, 0.0
		for range 30 {
			m := anyMove(rng, s.Dimension)
			if len(moves) > 0 && rng.IntN(4) == 0 {
				m.X = moves[0].X // An input that was played.
			}
			best := hindsight(t, moves)
			after := hindsight(t, append(moves[:len(moves):len(moves)], m))
			if growth, err := g.Growth(m.X, m.Y); err != nil || !near(growth, after-best) {
				t.Fatalf("%s, round %d: growth %g, %v, want %g", e.Name, len(moves)+1, growth, err, after-best)
			}
			gain, err := g.Gain(m.X, m.Y)
			if err != nil {
				t.Fatal(err)
			}
			r, err := g.Play(m)
			if err != nil {
				t.Fatal(err)
			}
			loss += (m.Y - r.Prediction) * (m.Y - r.Prediction)
			if !near(r.Regret, loss-after) || !near(gain, r.Regret-before) {
				t.Fatalf("%s, round %d: regret %g, want %g; gain %g, want %g", e.Name, len(moves)+1, r.Regret, loss-after, gain, r.Regret-before)
			}
			before = r.Regret
			moves = append(moves, m)
		}
	}
}

func TestTheAdversaryIsWorseThanRandomPlay(t *testing.T) {
	r := play(t)
	if len(r.Greedy) != len(adversary.Entrants(r.Setting)) || len(r.Random) != len(r.Greedy) {
		t.Fatalf("%d and %d courses", len(r.Greedy), len(r.Random))
	}
	for i, greedy := range r.Greedy {
		random := r.Random[i]
		if greedy.Name != random.Name || len(greedy.Rounds) != r.Setting.Rounds || len(random.Rounds) != r.Setting.Rounds {
			t.Fatalf("%s of %d rounds, %s of %d", greedy.Name, len(greedy.Rounds), random.Name, len(random.Rounds))
		}
		if greedy.Final().Regret < random.Final().Regret {
			t.Errorf("%s: regret %g, under random play %g", greedy.Name, greedy.Final().Regret, random.Final().Regret)
		}
	}
}

// No point of a large sample has a larger gain than the move of the adversary.
func TestTheAdversarySearches(t *testing.T) {
	r := play(t)
	for i, e := range adversary.Entrants(r.Setting) {
		g, err := adversary.NewGame(e.Spec)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(5, 5))
		for at, round := range r.Greedy[i].Rounds {
			gain, err := g.Gain(round.X, round.Y)
			if err != nil {
				t.Fatal(err)
			}
			for range 300 {
				m := anyMove(rng, r.Setting.Dimension)
				if other, err := g.Gain(m.X, m.Y); err != nil || other > gain+1e-9 {
					t.Fatalf("%s, round %d: gain %g, and %g, %v at %v", e.Name, at+1, gain, other, err, m)
				}
			}
			if _, err := g.Play(round.Move); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestLabelsAreExtreme(t *testing.T) {
	for _, c := range play(t).Greedy {
		for at, round := range c.Rounds {
			if math.Abs(round.Y) != 1 {
				t.Errorf("%s, round %d: label %g", c.Name, at+1, round.Y)
			}
			for _, v := range round.X {
				if !(math.Abs(v) <= 1) {
					t.Errorf("%s, round %d: input %v", c.Name, at+1, round.X)
				}
			}
		}
	}
	// No other label has a larger gain.
	s := small()
	for _, e := range adversary.Entrants(s) {
		g, err := adversary.NewGame(e.Spec)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(9, 9))
		for range 40 {
			m := anyMove(rng, s.Dimension)
			var gains [3]float64
			for i, y := range []float64{m.Y, 1, -1} {
				if gains[i], err = g.Gain(m.X, y); err != nil {
					t.Fatal(err)
				}
			}
			if gains[0] > max(gains[1], gains[2])+1e-12 {
				t.Errorf("%s: gain %g with the label %g, %g and %g with 1 and −1", e.Name, gains[0], m.Y, gains[1], gains[2])
			}
			if _, err := g.Play(m); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The theorem bounds the regret of exact Kernel-AWV against this comparator.
func TestKernelKeepsItsPromise(t *testing.T) {
	r := play(t)
	for _, c := range []adversary.Course{r.Greedy[0], r.Random[0]} {
		if c.Name != adversary.NameKernel {
			t.Fatalf("the first entrant is %s", c.Name)
		}
		for at, round := range c.Rounds {
			if !(round.Regret <= round.Certificate+1e-9 && round.Certificate <= round.Bound+1e-9) {
				t.Errorf("round %d: regret %g, certificate %g, bound %g", at+1, round.Regret, round.Certificate, round.Bound)
			}
			if !near(round.Accounted, round.Regret) {
				t.Errorf("round %d: regret %g, by its own account %g", at+1, round.Regret, round.Accounted)
			}
		}
	}
}

func TestTheSameSeedPlaysTheSame(t *testing.T) {
	first := play(t)
	again, err := adversary.Play(t.Context(), small(), t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(first, again) {
		t.Error("the same setting was played otherwise")
	}
	for name, write := range map[string]func(io.Writer, *adversary.Result) error{
		"table": adversary.WriteTable, "figure": adversary.Draw,
	} {
		var a, b bytes.Buffer
		if err := errors.Join(write(&a, first), write(&b, again)); err != nil || a.Len() == 0 || !bytes.Equal(a.Bytes(), b.Bytes()) {
			t.Errorf("%s: %d and %d bytes, %v, not the same", name, a.Len(), b.Len(), err)
		}
	}
	other := small()
	other.Seed++
	e := adversary.Entrants(other)[0]
	c, err := adversary.Greedy(t.Context(), other, e)
	if err != nil || reflect.DeepEqual(c, first.Greedy[0]) {
		t.Errorf("another seed plays the same, %v", err)
	}
}

func TestCheck(t *testing.T) {
	for want, change := range map[string]func(*adversary.Setting){
		"rounds 0, want 1 to 4000":    func(s *adversary.Setting) { s.Rounds = 0 },
		"rounds 4001, want 1 to 4000": func(s *adversary.Setting) { s.Rounds = 4001 },
		"starts -1, want 1 to 1000":   func(s *adversary.Setting) { s.Starts = -1 },
		"dimension 0, want 1":         func(s *adversary.Setting) { s.Dimension = 0 },
		// Too many monomials.
		"pkawv_taylor.degree": func(s *adversary.Setting) { s.Dimension = 40 },
	} {
		s := small()
		change(&s)
		err := s.Check()
		if !errors.Is(err, adversary.ErrSetting) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", s, err, want)
		}
		if _, err := adversary.Play(t.Context(), s, t.Logf); !errors.Is(err, adversary.ErrSetting) {
			t.Errorf("%+v was played: %v", s, err)
		}
	}
}

func TestPlayEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := adversary.Play(ctx, small(), t.Logf); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestSave(t *testing.T) {
	r := play(t)
	dir := filepath.Join(t.TempDir(), "made", "for it")
	if err := adversary.Save(dir, r); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	rows, err := csv.NewReader(strings.NewReader(read("adversary.csv"))).ReadAll()
	if err != nil || len(rows) != 1+2*len(r.Greedy)*r.Setting.Rounds {
		t.Errorf("%d rows, %v", len(rows), err)
	}
	if got := strings.Join(rows[0], " "); got != "t learner regret play certificate" {
		t.Errorf("columns %s", got)
	}
	if first := rows[1]; first[0] != "1" || first[1] != adversary.NameKernel || first[2] != "0.500000" || first[3] != "greedy" || first[4] == "" {
		t.Errorf("first row %q", first)
	}
	figure := read("adversary.svg")
	if err := xml.Unmarshal([]byte(figure), new(struct{ XMLName xml.Name })); err != nil {
		t.Errorf("figure: %v", err)
	}
	for _, text := range []string{">round t<", ">regret against the best function<", ">kernel_awv: certificate<", ">fogd step=0.001<", "stroke-dasharray"} {
		if !strings.Contains(figure, text) {
			t.Errorf("the figure has no %s", text)
		}
	}
	if strings.Contains(figure, dir) {
		t.Error("a path is named")
	}
}
