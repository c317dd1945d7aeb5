package figures

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"

	"hindsight/internal/engine/hosted"
	"hindsight/internal/engine/record"
)

// listsAtOnce bounds the lists that look at every model: each takes up to 48 bytes a model.
const listsAtOnce = 4

// Order is what a list of models is sorted by.
type Order int

// The loss and the skill are of the recent served predictions.
const (
	ByID Order = iota
	BySequence
	ByCreated
	ByRecentLoss
	ByRecentSkill
	ByRegret
	ByRate
	// ByHealth is ByRecentSkill, with the models that cannot learn first.
	ByHealth
)

// Cursor is where a page ends: the key of its last model and its id.
type Cursor struct {
	Key uint64
	ID  string
}

// ListOptions say which models a list has, and in which order. What is empty leaves nothing out.
type ListOptions struct {
	// Prefix is the beginning of the id, Contains a part of the id or of the display name, whatever its
	// case. Learner is the name of the learner. Labels are a subset of the model's labels.
	Prefix, Contains, Learner string
	Labels                    map[string]string
	// Among are beginnings of ids: each id has one of them.
	Among []string
	// Deleted adds the soft-deleted models.
	Deleted bool
	Order   Order
	// Descending sorts the largest first. A figure that is not known is last in either direction; models
	// of the same figure are in the order of their ids.
	Descending bool
	// After is the end of the page before, nil for the first page.
	After   *Cursor
	Limit   int
	Figures bool
}

// Page is a page of a list.
type Page struct {
	Models []Info
	// Keys are the keys of the models, as of Cursor.
	Keys []uint64
	// Next is the end of the page, nil on the last one.
	Next *Cursor
	// Total counts the models on all pages.
	Total int
}

// Table is the engine's table of models, in the order of their ids.
type Table interface {
	// All returns the models whose ids have a prefix.
	All(prefix string) ([]*Reader, error)
	// Slice returns up to limit of them, after an id, and the number of all. It costs O(limit).
	Slice(prefix, after string, deleted bool, limit int) (rows []*Reader, total int, err error)
}

// narrow moves a single beginning of ids into Prefix, so that List does not look at every model for a page.
func (o *ListOptions) narrow() {
	switch {
	case len(o.Among) != 1:
	case strings.HasPrefix(o.Prefix, o.Among[0]):
		o.Among = nil
	case strings.HasPrefix(o.Among[0], o.Prefix):
		o.Prefix, o.Among = o.Among[0], nil
	}
}

type row struct {
	key uint64
	id  string
	*Reader
}

// List returns a page of models. In the order of ids, with no filter but the prefix, it costs O(page);
// otherwise it looks at every model and costs O(n log n) at most, outside of the table's lock. A page begins
// after the key that the last model of the previous page had then: a model whose figure changes between two
// pages may come twice, or not at all.
func (r *Reporter) List(ctx context.Context, t Table, o ListOptions) (page Page, err error) {
	o.narrow()
	var rows []row
	if o.Order == ByID && !o.Descending && o.Contains == "" && o.Learner == "" && len(o.Labels) == 0 && len(o.Among) == 0 {
		rows, page.Total, err = o.slice(t)
	} else {
		if err := r.lists.Take(ctx, "other lists"); err != nil {
			return page, err
		}
		defer r.lists.Free()
		rows, page.Total, err = o.sort(t)
	}
	if err != nil {
		return page, err
	}
	if len(rows) > o.Limit {
		rows = rows[:o.Limit]
		last := rows[o.Limit-1]
		page.Next = &Cursor{Key: last.key, ID: last.id}
	}
	for _, row := range rows {
		info, err := Describe(row.Model)
		if errors.Is(err, hosted.ErrModelNotFound) {
			page.Total-- // The model was removed meanwhile.
			continue
		}
		if err != nil {
			return page, err
		}
		if o.Figures {
			f := row.Figures()
			info.Figures = &f
		}
		page.Models, page.Keys = append(page.Models, info), append(page.Keys, row.key)
	}
	return page, nil
}

// slice returns a page in the order of ids and one model more, and the number of all models.
func (o *ListOptions) slice(t Table) (rows []row, total int, err error) {
	after := ""
	if o.After != nil {
		after = o.After.ID
	}
	readers, total, err := t.Slice(o.Prefix, after, o.Deleted, o.Limit+1)
	for _, reader := range readers {
		rows = append(rows, row{id: reader.Model.ID(), Reader: reader})
	}
	return rows, total, err
}

func (o *ListOptions) sort(t Table) (rows []row, total int, err error) {
	all, err := t.All(o.Prefix)
	if err != nil {
		return nil, 0, err
	}
	contains := strings.ToLower(o.Contains)
	rows = make([]row, 0, len(all))
	for _, reader := range all {
		if !o.matches(reader.Model, contains) {
			continue
		}
		total++
		row := row{key: o.key(reader, reader.Model.Registered()), id: reader.Model.ID(), Reader: reader}
		if o.After == nil || o.Compare(Cursor{row.key, row.id}, *o.After) > 0 {
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b row) int { return o.Compare(Cursor{a.key, a.id}, Cursor{b.key, b.id}) })
	return rows[:min(len(rows), o.Limit+1)], total, nil
}

// Compare orders two models by their keys and ids. The models may be of different engines.
func (o *ListOptions) Compare(a, b Cursor) int {
	if c := cmp.Compare(a.Key, b.Key); c != 0 {
		return c
	}
	if o.Order == ByID && o.Descending {
		return strings.Compare(b.ID, a.ID)
	}
	return strings.Compare(a.ID, b.ID)
}

func (o *ListOptions) matches(m *hosted.Model, contains string) bool {
	e := m.Registered()
	if (e.Deleted != 0 && !o.Deleted) || (o.Learner != "" && m.Learner() != o.Learner) {
		return false
	}
	for key, value := range o.Labels {
		if v, ok := e.Labels[key]; !ok || v != value {
			return false
		}
	}
	if len(o.Among) > 0 && !slices.ContainsFunc(o.Among, func(prefix string) bool { return strings.HasPrefix(m.ID(), prefix) }) {
		return false
	}
	return contains == "" || strings.Contains(m.ID(), contains) || strings.Contains(strings.ToLower(e.DisplayName), contains)
}

const notKnown = math.MaxUint64

func (o *ListOptions) key(r *Reader, e *record.RegistryValue) uint64 {
	key, known := uint64(0), true
	switch o.Order {
	case ByID:
		return 0
	case BySequence:
		sequence, err := r.Model.Sequence()
		key, known = sequence, err == nil
	case ByCreated:
		key = uint64(e.Created) ^ 1<<63
	case ByRate:
		key, known = orderOf(r.Model.Gauges().Rate)
	case ByRecentLoss, ByRecentSkill, ByRegret, ByHealth:
		f := r.Figures()
		switch {
		case o.Order == ByHealth && (f.State == StateFailed || f.State == StateReadOnly):
		case o.Order == ByRegret:
			key, known = orderOf(f.Regret)
		case o.Order == ByRecentLoss:
			key, known = orderOf(f.Recent.MeanLoss(&f.Recent.Served))
		case f.Classes != nil:
			key, known = orderOf(f.Classes.Served.Skill())
		default:
			key, known = orderOf(f.Recent.Served.Skill())
		}
	}
	if !known {
		return notKnown
	}
	key = min(key, notKnown-1)
	if o.Descending {
		return notKnown - 1 - key
	}
	return key
}

// orderOf is a number that orders as v does. It is not known if v is NaN.
func orderOf(v float64) (key uint64, known bool) {
	bits := math.Float64bits(v)
	if bits>>63 != 0 {
		return ^bits, v == v
	}
	return bits | 1<<63, v == v
}
