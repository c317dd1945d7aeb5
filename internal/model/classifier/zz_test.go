package classifier_test

import (
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"strconv"
	"testing"

	"hindsight/internal/model"
	"hindsight/internal/model/auto"
	"hindsight/internal/model/classifier"
	"hindsight/internal/model/logloss"
)

func TestZZ(t *testing.T) {
	f, err := os.Open(os.Getenv("ZZ"))
	if err != nil {
		t.Skip(err)
	}
	rows, _ := csv.NewReader(f).ReadAll()
	rows = rows[1:]
	d := len(rows[0]) - 1
	classes := map[string]bool{}
	for _, r := range rows {
		classes[r[d]] = true
	}
	o := auto.Options{Dimension: d, Outputs: 1, Lags: 2, Frequencies: 100, Microseconds: 500, Seed: 1}
	if most(len(classes)) > 2 {
		o.Outputs = most(len(classes))
	}
	l := classifier.New(classifier.Options{MaxClasses: most(len(classes)), Level: &logloss.Options{Dimension: d, MaxClasses: most(len(classes))}, New: func(k int) model.Learner {
		p := o
		p.Outputs = k
		return auto.New(p)
	}})
	var out model.ClassOutcome
	var p model.ClassPrediction
	x := make([]float64, d)
	loss, wrong := 0.0, 0
	for i, r := range rows {
		for j := range x {
			x[j], _ = strconv.ParseFloat(r[j], 64)
		}
		if err := l.PredictClass(&p, x); err != nil {
			t.Fatal(err)
		}
		if err := l.ObserveClass(&out, x, r[d], 1, p.Advice); err != nil {
			t.Fatal(err)
		}
		if out.Class < len(out.Prediction.Probabilities) {
			loss -= math.Log(out.Prediction.Probabilities[out.Class])
		}
		if out.Class != out.Prediction.Class {
			wrong++
		}
		if (i+1)%(len(rows)/4) == 0 {
			fmt.Println(i+1, loss/float64(i+1), float64(wrong)/float64(i+1))
		}
	}
	fmt.Println(l.Level())
}

func most(k int) int {
	if v, err := strconv.Atoi(os.Getenv("MOST")); err == nil {
		return v
	}
	return max(2, k)
}
