package figures_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine/figures"
	"hindsight/internal/model"
	"hindsight/internal/model/input"
)

func ptr[T any](v T) *T { return &v }

// learned is an encoder of keys and what is none, that has learned a record.
func learned(t *testing.T) *input.Encoder {
	t.Helper()
	inputs, err := input.Complete([]*model.Input{
		{Name: "x", Numeric: &model.NumericInput{}},
		{Name: "city", Categorical: &model.CategoricalInput{MaxCategories: ptr(2)}},
		{Name: "at", Time: &model.TimeInput{Cycles: []string{model.CycleHourOfDay}}, Missing: model.MissingReject},
		{Name: "user", Categorical: &model.CategoricalInput{Key: true}},
	}, input.Options{Keys: true})
	require.NoError(t, err)
	e := input.NewEncoder(input.NewSchema(inputs, 10, false))
	var r input.Record
	r.Reset(4)
	r.SetText(1, "Oslo")
	r.SetText(2, "2026-01-01T00:00:00Z")
	r.SetNumber(3, 1000185)
	require.NoError(t, e.Schema().Accept(&r))
	e.Learn(&r)
	return e
}

// The key of a category is part of its input.
func TestImportancesOfKeys(t *testing.T) {
	e := learned(t)
	got := figures.NameInputs([]model.Importance{
		{From: 0, To: 1, Gain: 1},
		{From: 1, To: 2},
		{From: 2, To: 6, Gain: 2, Permutation: 10},
		{From: 7, To: 9, Gain: 3},
		{From: 6, To: 7, Gain: 4, Permutation: 20},
		{From: 9, To: 10, Gain: 5},
		{Name: model.PastLabels, Gain: 6},
	}, e.Schema(), e.Names())
	want := []model.Importance{
		{From: 0, To: 1, Name: "x", Gain: 1},
		{From: 1, To: 2, Name: "x.missing"},
		{From: 2, To: 6, Name: "city", Gain: 6, Permutation: 30},
		{From: 7, To: 9, Name: "at.hour_of_day", Gain: 3},
		{From: 9, To: 10, Name: "user", Gain: 5},
		{Name: model.PastLabels, Gain: 6},
	}
	assert.Equal(t, want, got)
}

// An effect has the name of its input and the text of its key. One of no key is left out.
func TestNamesOfEffects(t *testing.T) {
	e := learned(t)
	key := func(text string) uint64 { return input.Hash(text) >> 12 }
	effects := []model.Effect{
		{Feature: 9, Key: key("1000185"), Value: -3, Observations: 1},
		{Feature: 6, Key: key("Oslo"), Value: 2},
		{Feature: 9, Key: key("other"), Value: 1},
		{Feature: 6, Key: key("\xff"), Value: 0.5},
		{Feature: 0, Key: 7},
	}
	got := figures.NameEffects(effects, e)
	want := []figures.KeyEffect{
		{Input: "user", Key: input.Key{Input: 3, Text: "1000185", Known: true}, Effect: effects[0]},
		{Input: "city", Key: input.Key{Input: 1, Text: "Oslo", Known: true}, Effect: effects[1]},
		{Input: "user", Key: input.Key{Input: 3}, Effect: effects[2]},
		{Input: "city", Key: input.Key{Input: 1, Known: true, Missing: true}, Effect: effects[3]},
	}
	assert.Equal(t, want, got)
}
