package main_test

import (
	"math"
	"reflect"
	"testing"

	server "hindsight/cmd/server"
	"hindsight/internal/engine"
	"hindsight/internal/engine/account"
	"hindsight/internal/engine/account/classes"
	"hindsight/internal/metrics"
	"hindsight/internal/model"
)

// classifier is a live classifier with two inputs, one of categories.
func classifier() engine.Live {
	m := engine.Live{ID: "c", Learner: "rlsc"}
	m.Whole.Prequential = account.Figures{Loss: 3}
	m.Inputs = []engine.InputStatistics{{Name: "load"}, {Name: "city"}}
	m.Inputs[0].Seen, m.Inputs[0].Mean, m.Inputs[0].Deviation, m.Inputs[0].NumbersKnown = 9, 2.5, 0.5, true
	m.Inputs[1].Missing, m.Inputs[1].Outside, m.Inputs[1].Shift, m.Inputs[1].ShiftKnown = 4, 3, 0.25, true
	c := &engine.ClassStatistics{Names: []string{"cat", "dog", "eel"}}
	c.Served = classes.Figures{Errors: 3, LogLoss: 1.5, Brier: 0.5, Majority: 6, Last: 8}
	c.Whole = classes.Performance{Observations: 20, Prequential: classes.Figures{Errors: 2, Majority: 4, Last: 8}, Served: classes.Figures{Errors: 5}}
	c.Recent = classes.Performance{Observations: 16, Prequential: classes.Figures{Errors: 1}, Served: classes.Figures{Errors: 4, Majority: 8, Last: 10}}
	c.Classes = []classes.Class{{Observed: 12, Errors: 2, Predicted: 13, Expected: 11}, {Observed: 8, Errors: 3, Predicted: 7}}
	c.Reliability[9] = classes.Bin{Members: 5, Found: 4, Expected: 4.75}
	m.ClassAccount = c
	return m
}

// What is not known is no number, so that it has no series.
func TestLiveModels(t *testing.T) {
	plain := engine.Live{ID: "p", Learner: "linear_awv"}
	plain.Whole.Prequential = account.Figures{Loss: 3, RunningMean: 5, LastLabel: 4}
	plain.Gate = model.Gate{On: true, SetAside: 7, Starts: 2}
	read := 0
	server.Shown([]engine.Live{classifier(), plain, classifier()}, func(m metrics.Model) {
		if m.Name == "p" {
			if m.Classifier != nil || len(m.Inputs) > 0 || m.PrequentialBaselines != (metrics.Baselines{Mean: 5, Last: 4}) || m.PrequentialSkill != 0.25 {
				t.Errorf("a model without inputs and classes: %+v", m)
			}
			if m.Gate != (metrics.Gate{On: true, SetAside: 7, Starts: 2}) {
				t.Errorf("a label gate: %+v", m.Gate)
			}
			return
		}
		for _, v := range []float64{m.PrequentialBaselines.Mean, m.PrequentialBaselines.Last, m.ServedBaselines.Mean, m.ServedBaselines.Last, m.PrequentialSkill, m.ServedSkill, m.Recent.Skill} {
			if !math.IsNaN(v) {
				t.Errorf("a baseline of the loss of a classifier: %v", v)
			}
		}
		if m.Gate.On {
			t.Errorf("a label gate of a classifier: %+v", m.Gate)
		}
		load, city := m.Inputs[0], m.Inputs[1]
		if load.Name != "load" || load.Seen != 9 || load.Mean != 2.5 || load.Deviation != 0.5 || !math.IsNaN(load.Shift) {
			t.Errorf("numbers %+v", load)
		}
		if city.Name != "city" || city.Missing != 4 || city.Outside != 3 || city.Shift != 0.25 || !math.IsNaN(city.Mean) || !math.IsNaN(city.Deviation) {
			t.Errorf("categories %+v", city)
		}
		want := metrics.Classifier{
			Prequential: metrics.ClassFigures{Errors: 2, MajorityErrors: 4, LastErrors: 8, Skill: 0.5},
			Served:      metrics.ClassFigures{Errors: 3, LogLoss: 1.5, Brier: 0.5, MajorityErrors: 6, LastErrors: 8, Skill: 0.5},
			Recent:      metrics.RecentClasses{Observations: 16, ErrorRate: 0.25, Skill: 0.5},
			Classes:     []metrics.Class{{Name: "cat", Observed: 12, Errors: 2, Predicted: 13}, {Name: "dog", Observed: 8, Errors: 3, Predicted: 7}},
		}
		want.Reliability[9] = metrics.Bin{Members: 5, Found: 4, Expected: 4.75}
		if !reflect.DeepEqual(*m.Classifier, want) {
			t.Errorf("a classifier %+v, want %+v", *m.Classifier, want)
		}
		read++
	})
	if read != 2 {
		t.Errorf("%d classifiers, want 2", read)
	}
}
