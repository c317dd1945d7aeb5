package cli_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// sales are rows with a trend and a wave, the label last, every seventh without a label.
func sales(rows int) (csv string, labels []float64, at []int) {
	var b strings.Builder
	b.WriteString("hour,price,sold\n")
	for i := range rows {
		y := 10 + float64(i)/50 + math.Round(8*math.Sin(float64(i)/5))
		fmt.Fprintf(&b, "%d,%g,", i%24, 1+float64(i%13)/4)
		if i%7 != 6 {
			fmt.Fprintf(&b, "%g", y)
			labels, at = append(labels, y), append(at, i)
		}
		b.WriteString("\n")
	}
	return b.String(), labels, at
}

func number(t *testing.T, of any, key string) float64 {
	t.Helper()
	v, ok := of.(map[string]any)[key].(float64)
	require.True(t, ok, "no number %s in %v", key, of)
	return v
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-12*(1+math.Abs(b)) }

// All learners see the same rows, and each row after the labels that were known by then. The fake
// predicts the mean of these labels for every learner.
func TestCompare(t *testing.T) {
	const rows = 120
	text, labels, at := sales(rows)
	path := written(t, "sales.csv", text)
	for _, delay := range []int{0, 1, 10, rows} {
		f := serving(t)
		d := document(t, 0, "compare", "--csv", path, "--learners", "linear_awv,auto", "--delay", strconv.Itoa(delay))
		var squares, absolute, last float64
		for i, y := range labels {
			var sum, before float64
			known := 0
			for known < i && at[known]+delay < at[i] {
				before = labels[known]
				sum += before
				known++
			}
			if i == 0 {
				continue // No learner knows a label yet.
			}
			e := sum/float64(max(1, known)) - y
			squares, absolute, last = squares+e*e, absolute+math.Abs(e), last+(before-y)*(before-y)
		}
		n := float64(len(labels) - 1)
		all, _ := d["learners"].([]any)
		require.True(t, len(all) == 2 && number(t, d, "labels") == n+1 && d["target"] == "sold", "delay %d: %v", delay, d)
		for _, learner := range all {
			if v := number(t, learner, "rmse"); !near(v, math.Sqrt(squares/n)) {
				t.Errorf("delay %d: RMSE %v, want %v", delay, v, math.Sqrt(squares/n))
			}
			v := number(t, learner, "mae")
			assert.True(t, near(v, absolute/n), "delay %d: MAE %v, want %v", delay, v, absolute/n)
			v = number(t, learner, "skill")
			assert.True(t, near(v, 1-squares/min(squares, last)), "delay %d: skill %v, want %v", delay, v, 1-squares/min(squares, last))
		}
		w, _ := d["winner"].(map[string]any)
		assert.True(t, w["certain"] == false && w["low"] == nil && number(t, w, "difference") == 0, "delay %d: equal learners differ: %v", delay, w)
		assert.Equal(t, 0, len(f.models), delay)
	}
}

// A learner that is better wins, with the difference of its losses.
func TestCompareSaysWhoWins(t *testing.T) {
	const rows = 400
	text, _, _ := sales(rows)
	path := written(t, "sales.csv", text)
	f := serving(t)
	f.outcome = func(learner string, o *hindsightv1.Outcome) {
		if learner == "auto" {
			*o.Prediction /= 10
		}
	}
	r := run(t, "compare", "--csv", path, "--learners", "auto,linear_awv")
	for _, want := range []string{"\nLEARNER ", "\nlinear_awv ", "linear_awv wins: its squared error is ", "below that of auto", "95 % confidence interval of the difference: ", "which excludes 0."} {
		assert.Contains(t, r.out, want)
	}
	assert.LessOrEqual(t, strings.Index(r.out, "\nlinear_awv "), strings.Index(r.out, "\nauto "), "the best is not first:\n%s", r.out)
	assert.True(t, r.code == 0 && strings.Contains(r.errors, "the label is the last column, sold"), "%d, %s", r.code, r.errors)
}

// A learner does not win by rows that do not tell which is better.
func TestCompareOfFewRowsHasNoWinner(t *testing.T) {
	const rows = 40
	text, _, _ := sales(rows)
	f := serving(t)
	f.outcome = func(learner string, o *hindsightv1.Outcome) {
		if learner == "auto" {
			*o.Prediction /= 10
		}
	}
	r := run(t, "compare", "--csv", written(t, "sales.csv", text), "--learners", "auto,linear_awv")
	want := "linear_awv is ahead: its squared error is "
	assert.True(t, strings.Contains(r.out, want) && !strings.Contains(r.out, "wins"), "no %q in\n%s", want, r.out)
}

func TestCompareClasses(t *testing.T) {
	serving(t)
	d := document(t, 0, "compare", "--csv", written(t, "trips.csv", trips(100)), "--target", "arrival", "--learners", "auto,linear_awv")
	first := d["learners"].([]any)[0]
	// The fake says the most frequent class so far: late, in 60 of 100 rows. The first row does not count.
	v := number(t, first, "accuracy")
	assert.True(t, near(v, 59.0/99), "accuracy %v", v)
	_, is := first.(map[string]any)["rmse"]
	assert.True(t, !is && d["winner"].(map[string]any)["loss"] == "error rate", "%v", d)
}

// An interrupt deletes the model of the moment too.
func TestCompareInterrupted(t *testing.T) {
	text, _, _ := sales(100)
	f := serving(t)
	ctx, cancel := context.WithCancel(t.Context())
	f.fault = func(call string, n int, done bool) error {
		if call == "observe" && n == 20 && done {
			cancel()
		}
		return nil
	}
	r := runWith(ctx, text, "compare", "--csv", "-", "--delay", "2")
	assert.True(t, r.code == 130 && strings.Contains(r.errors, "interrupted"), "%+v", r)
	f.mu.Lock()
	defer f.mu.Unlock()
	assert.Equal(t, 0, len(f.models))
}

func TestReplayChosenColumns(t *testing.T) {
	f := served(t)
	path := written(t, "rows.csv", "id,x1,y,x2\n7,1,3,2\n8,4,6,5\n")
	for i, args := range [][]string{{"--features", "x2,x1"}, {"--ignore", "id"}} {
		run := []string{"a", "b"}[i]
		document(t, 0, append([]string{"replay", "--csv", path, "--model", "m", "--run", run}, args...)...)
		assert.Equal(t, [][]float64{{2, 1}, {1, 2}}[i], f.models["m"].outcomes[run+"-1"].features, args)
	}
}

func TestReplayStandardInput(t *testing.T) {
	f := served(t)
	dir := temporary(t)
	r := runWith(t.Context(), "x1,x2,y\n1,2,3\n4,5,6\n", "replay", "--csv", "-", "--model", "m", "--json")
	d := decode(t, r.out)
	assert.True(t, r.code == 0 && d["acknowledged"] == 2.0 && len(f.models["m"].labels) == 2, "%+v", r)
	r = runWith(t.Context(), "x1,y\n1,2\n3,a\n", "replay", "--csv", "-", "--model", "m")
	assert.True(t, r.code == 2 && strings.Contains(r.errors, "hindsight: standard input: line 3"), "%+v", r)
	r = runWith(t.Context(), "", "replay", "--csv", "-", "--model", "m")
	assert.Equal(t, "hindsight: standard input: the file is empty\n", r.errors, "%+v", r)
	assert.True(t, isEmpty(t, dir), "the temporary file is left")
}

// TestRunAgain gives an interrupted command again: no row is learned twice, and the
// account is that of the whole run.
func TestRunAgain(t *testing.T) {
	for _, delay := range []string{"0", "3"} {
		f := served(t)
		f.fault = func(call string, n int, done bool) error {
			if call == "observe" && n >= 8 && (n > 8 || done) {
				return status.Error(codes.Unavailable, "gone")
			}
			return nil
		}
		csv, labels := table(t, 20, false)
		out := filepath.Join(t.TempDir(), "out.csv")
		args := []string{
			"replay", "--csv", csv, "--model", "m", "--serve", "--delay", delay,
			"--run", "r", "--retries", "0", "--out", out,
		}
		r := run(t, args...)
		if r.code != 3 || !strings.Contains(r.out, "UNFINISHED") || !strings.Contains(r.out, "7 of 20 observations") ||
			!strings.Contains(r.out, "continue with --run r --offset 7") {
			t.Fatalf("%+v", r)
		}
		f.mu.Lock()
		f.fault = nil
		f.mu.Unlock()
		d := document(t, 0, args...)
		assert.True(t, d["duplicates"] == 8.0 && d["acknowledged"] == 20.0 && d["unfinished"] == false && len(f.models["m"].labels) == 20, "again: %v", d)
		got, want := read(t, out), wantOutcomes(labels, 1)
		assert.Equal(t, want, got, "outcomes")
	}
}

// A run that learned nothing prints no table of zeros.
func TestNothingLearned(t *testing.T) {
	f := served(t)
	f.fault = func(string, int, bool) error { return status.Error(codes.Unavailable, "gone") }
	csv, _ := table(t, 5, false)
	r := run(t, "replay", "--csv", csv, "--model", "m", "--retries", "0")
	assert.True(t, r.code == 3 && r.out == "" && strings.Contains(r.errors, "unfinished: 0 of 5 observations acknowledged; continue with --run"), "%+v", r)
	d := document(t, 3, "replay", "--csv", csv, "--model", "m", "--retries", "0")
	assert.True(t, d["unfinished"] == true && d["error"] != nil, "%v", d)
}

// squeeze makes one space of several.
func squeeze(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		b.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
	}
	return b.String()
}

// TestReplayCreatesOutputs takes the outputs from the file too.
func TestReplayCreatesOutputs(t *testing.T) {
	f := served(t)
	path := written(t, "several.csv", "x1,y1,x2,y2,x3\n1,2,3,4,5\n")
	r := run(t, "replay", "--csv", path, "--model", "new", "--create", "{}", "--limit", "1")
	spec := f.models["new"].model.GetSpec()
	assert.True(t, spec.GetDimension() == 3 && spec.GetOutputs() == 2, "spec %v, %s", spec, fmt.Sprint(r))
}

// Where labels are late, the served figures of a model are not its prequential ones. The
// recent ones are the served ones on every surface, and each says of which it is.
func TestRecentFiguresAreServed(t *testing.T) {
	s := realServer(t)
	rng := rand.New(rand.NewPCG(3, 3))
	var rows strings.Builder
	rows.WriteString("x,y\n")
	for y := 0.0; strings.Count(rows.String(), "\n") < 1300; y += rng.NormFloat64() {
		fmt.Fprintf(&rows, "%g,%g\n", rng.Float64(), y) // A walk: what is served late is worse.
	}
	r := run(t, "replay", "--csv", written(t, "walk.csv", rows.String()), "--model", "m", "--create", `{}`, "--delay", "40")
	all := run(t, "model", "stats", "m", "--all")
	for out, lines := range map[string][]string{
		r.out:   {"\nskill, served ", "\nRMSE, served ", "\nMAE, served ", "\ninside 90 % "},
		all.out: {"\nMAE, served ", "\nloss sum ", "\nserved loss sum ", "\nregret ", "\nserved regret ", "\nrecent, prequential, skill ", "\nrecent, served, skill "},
	} {
		for _, line := range lines {
			assert.True(t, r.code == 0 && all.code == 0 && strings.Contains(squeeze(out), line), "no line %q in %s", line, out)
		}
	}
	figures := func(of string) (loss, skill float64) {
		recent, _ := stat(map[string]any{"stats": document(t, 0, "model", "stats", "m")}, "recent").(map[string]any)
		f, _ := recent[of].(map[string]any)
		loss, _ = f["meanLoss"].(float64)
		skill, _ = f["skill"].(float64)
		return loss, skill
	}
	loss, skill := figures("served")
	prequential, other := figures("prequential")
	require.True(t, loss > 1.5*prequential && math.Abs(other-skill) > 0.2, "served %g, %g and prequential %g, %g: want figures that differ", loss, skill, prequential, other)
	top := document(t, 0, "top")["models"].([]any)[0].(map[string]any)["summary"].(map[string]any)
	watched := document(t, 0, "model", "stats", "m", "--watch", "--events", "1")
	for what, answer := range map[string]map[string]any{"top": top, "watch": watched} {
		f, _ := answer["recent"].(map[string]any)["served"].(map[string]any)
		assert.True(t, f["meanLoss"] == loss && f["skill"] == skill, "%s: %v, want the loss %g and the skill %g", what, f, loss, skill)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.HTTP+"/metrics", http.NoBody)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	text, err := io.ReadAll(response.Body)
	require.NoError(t, response.Body.Close())
	for name, want := range map[string]float64{"hindsight_recent_skill": skill} {
		_, rest, _ := strings.Cut(string(text), "\n"+name+"{")
		line, _, _ := strings.Cut(rest, "\n")
		_, value, _ := strings.Cut(line, "} ")
		got, failed := strconv.ParseFloat(value, 64)
		assert.True(t, err == nil && failed == nil && math.Abs(got-want) <= 1e-12*math.Abs(want), "%s is %q, want %g", name, value, want)
	}
	// An outcome tells the same figures, one observation later.
	o := squeeze(run(t, "observe", "--model", "m", "--features", "0.5", "--label", "0").out)
	for _, name := range []string{"\nprediction, prequential ", "\nloss, prequential ", "\nregret, prequential ", "\nrecent mean loss, served ", "\nrecent skill, served "} {
		assert.Contains(t, o, name)
	}
}
