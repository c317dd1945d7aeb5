// Package figures reads models: what a model is, how it does, reports that are solved on a copy of its
// state, lists, histories and comparisons.
package figures

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"hindsight/internal/engine/account"
	"hindsight/internal/engine/account/classes"
	"hindsight/internal/engine/account/history"
	"hindsight/internal/engine/hosted"
	"hindsight/internal/engine/machine"
	"hindsight/internal/engine/record"
	"hindsight/internal/model"
	"hindsight/internal/model/input"
)

// Info is what a model is.
type Info struct {
	ID       string
	Learner  string
	Spec     model.Spec
	Sequence uint64
	record.Metadata
	// ETag changes with every change of the metadata and of the deletion.
	ETag string
	Times
	// Figures are nil unless they were asked for.
	Figures *Figures
	// Follows is the model whose observations this model learns, empty if none.
	Follows string
	// Aliases are those that name the model. Describe leaves them empty.
	Aliases []string
	Learned
}

// Times are the times of a model. A time that is not set is zero.
type Times struct {
	// Created is zero of a model that would be created, Updated the time of the last change of ETag.
	Created, Updated time.Time
	// Deleted is when the model was soft-deleted, Purge when it is to be purged.
	Deleted, Purge time.Time
}

// Learned is what has been learned of named inputs, and the classes of a classifier by their numbers.
// Describe leaves both empty.
type Learned struct {
	Inputs  []LearnedInput
	Classes []string
}

// LearnedInput is what has been learned of one named input.
type LearnedInput struct {
	Name     string
	Features []string
	// Categories have a feature, in the order of first appearance.
	Categories []Category
	Statistics input.Statistics
}

// Category is a category of an input, with how often it was observed.
type Category struct {
	Name         string
	Observations uint64
}

// ETag names the state of an entry. It changes with every change, and differs after the model was
// created again.
func ETag(e *record.RegistryValue) string {
	return strconv.FormatInt(e.Created, 36) + "-" + strconv.FormatUint(e.Revision, 10)
}

func describe(m *hosted.Model) Info {
	e := m.Registered()
	info := Info{
		ID: m.ID(), Learner: m.Learner(), Spec: *m.Spec(), Metadata: e.Metadata, ETag: ETag(e),
		Times: Times{
			Created: hosted.TimeOf(e.Created), Updated: hosted.TimeOf(e.Updated), Deleted: hosted.TimeOf(e.Deleted), Purge: hosted.TimeOf(e.Purge),
		},
	}
	if e.Follow != nil {
		info.Follows = e.Follow.Leader.ID
	}
	return info
}

// Describe describes a model, and does not load it. It is ErrModelNotFound once the removal of the model
// has begun.
func Describe(m *hosted.Model) (info Info, err error) {
	info = describe(m)
	info.Sequence, err = m.Sequence()
	return info, err
}

// DescribeLearned is Describe with what has been learned of named inputs and of classes. It loads a model
// that has either.
func DescribeLearned(ctx context.Context, m *hosted.Model) (Info, error) {
	info, err := Describe(m)
	if err != nil || (m.Schema() == nil && m.Spec().Classes == nil) {
		return info, err
	}
	err = m.View(ctx, func(loaded *machine.Machine) error {
		info.Sequence, info.Classes = loaded.Sequence(), loaded.Classes()
		info.Inputs = learnedInputs(loaded.Encoder())
		return nil
	})
	if err != nil {
		return Info{}, err
	}
	return info, nil
}

// learnedInputs is what an encoder has learned, nil without an encoder.
func learnedInputs(e *input.Encoder) []LearnedInput {
	if e == nil {
		return nil
	}
	schema, names := e.Schema(), e.Names()
	all := make([]LearnedInput, schema.Len())
	for n := range all {
		from, to := schema.Span(n)
		all[n] = LearnedInput{Name: schema.Name(n), Features: names[from:to:to], Statistics: e.Statistics(n)}
		for k := range all[n].Statistics.Categories {
			name, count := e.Category(n, k)
			all[n].Categories = append(all[n].Categories, Category{Name: name, Observations: count})
		}
	}
	return all
}

// State is where a model is.
type State int

// A StateReadOnly model is in memory, but its log could not be written. A StateFailed model cannot be
// recovered.
const (
	StateLoaded State = iota + 1
	StateHibernated
	StateReadOnly
	StateFailed
	StateDeleted
)

// Figures are how a model does, in the few figures of a list.
type Figures struct {
	State State
	// Known: the model was in memory since the start, so that the figures below are known. They are of the
	// last time that it was.
	Known bool
	// Recent is the performance over the newest observations, Classes the performance of a classifier, else nil.
	Recent  account.Performance
	Classes *classes.Performance
	// Regret is NaN if it is not known.
	Regret float64
	// Rate is the observations a second over the last minute.
	Rate float64
	// Time is when the newest observation was learned, in nanoseconds since 1970; 0 without observations.
	Time int64
}

// History is how a model did over its life.
type History struct {
	// Points are oldest first. The last one may be of fewer observations than the others.
	Points []history.Point
	// Experts are the names of the experts, in the order of the weights of a point.
	Experts []string
	// Changes are the detected changes of the loss, oldest first.
	Changes []history.Mark
}

// HistoryOf loads a model and returns its history.
func HistoryOf(ctx context.Context, m *hosted.Model) (h History, err error) {
	var past *history.History
	var now *history.Moment
	err = m.View(ctx, func(m *machine.Machine) error {
		past, now, h.Experts = m.History(), m.Moment(), m.ExpertNames()
		return nil
	})
	if err != nil {
		return History{}, err
	}
	h.Points, h.Changes = past.Points(0, now), past.Marks()
	return h, nil
}

// errorf says what was being done to a model when err came. It is nil if err is nil.
func errorf(m *hosted.Model, doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("engine: %s of model %q: %w", doing, m.ID(), err)
}
