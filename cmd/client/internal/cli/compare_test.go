package cli_test

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
