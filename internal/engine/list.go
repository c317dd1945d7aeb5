package engine

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"sort"
	"strings"
	"time"
)

// listsAtOnce bounds the lists of all models that are chosen or sorted at once: each
// takes up to 24 bytes a model.
const listsAtOnce = 4

// Order is what a list of models is sorted by.
type Order int

// The orders. The loss and the skill are those of the recent observations, of what the
// client was told.
const (
	ByID Order = iota
	BySequence
	ByCreated
	ByRecentLoss
	ByRecentSkill
	ByRegret
	ByRate
)

// Cursor is where a page ends: the key of its last model and its id.
type Cursor struct {
	Key uint64
	ID  string
}

// ListOptions say which models a list has, and in which order.
type ListOptions struct {
	// Prefix is the beginning of the id, Contains a part of the id or of the display
	// name, whatever its case. Learner is the name of the learner. Labels have to be
	// among those of the model. What is empty leaves nothing out.
	Prefix, Contains, Learner string
	Labels                    map[string]string
	// Among are beginnings of ids, of which each id has to have one. Empty leaves nothing
	// out.
	Among []string
	// Deleted adds the deleted models that can be brought back.
	Deleted bool
	Order   Order
	// Descending sorts the largest first. A figure that is not known is last in either
	// direction; models of the same figure are in the order of their ids.
	Descending bool
	// After is the end of the page before, nil for the first page.
	After *Cursor
	Limit int
	// Figures asks for Info.Figures.
	Figures bool
}

// Page is a page of a list.
type Page struct {
	Models []Info
	// Next is the end of the page, nil on the last one.
	Next *Cursor
	// Total counts the models on all pages.
	Total int
}

// one narrows a single beginning of ids, with which a page is found without a look at
// every model.
func (o *ListOptions) one() {
	switch {
	case len(o.Among) != 1:
	case strings.HasPrefix(o.Prefix, o.Among[0]):
		o.Among = nil
	case strings.HasPrefix(o.Among[0], o.Prefix):
		o.Prefix, o.Among = o.Among[0], nil
	}
}

// listed is a model of a list with the key that it is sorted by.
type listed struct {
	key uint64
	*instance
}

// ListModels gives a page of models. In the order of ids, with no filter but the prefix,
// it costs O(page); else it looks at every model and costs O(n log n) at most, outside
// of the locks. A page begins behind the last model of the page before, at its key of
// that time: a model whose figure changes between two pages may come twice, or not.
func (e *Engine) ListModels(ctx context.Context, o ListOptions) (Page, error) {
	var page Page
	var rows []listed
	o.one()
	if o.Order == ByID && !o.Descending && o.Contains == "" && o.Learner == "" && len(o.Labels) == 0 && len(o.Among) == 0 {
		var err error
		if rows, page.Total, err = e.slice(&o); err != nil {
			return page, err
		}
	} else {
		if err := take(ctx, e.lists, "other lists"); err != nil {
			return page, err
		}
		defer func() { <-e.lists }()
		var err error
		if rows, page.Total, err = e.sorted(&o); err != nil {
			return page, err
		}
	}
	if len(rows) > o.Limit {
		rows = rows[:o.Limit]
		last := rows[o.Limit-1]
		page.Next = &Cursor{Key: last.key, ID: last.id}
	}
	now := e.o.Now()
	for _, row := range rows {
		info, err := row.info()
		if errors.Is(err, ErrModelNotFound) {
			page.Total-- // It was removed meanwhile.
			continue
		}
		if err != nil {
			return page, err
		}
		if o.Figures {
			f := row.figures(now)
			info.Figures = &f
		}
		page.Models = append(page.Models, info)
	}
	return page, nil
}

// within is the part of the table whose names begin with a prefix. The lock is held.
func (e *Engine) within(prefix string) []*instance {
	from, _ := e.place(prefix)
	rest := e.mu.table[from:]
	return rest[:sort.Search(len(rest), func(n int) bool { return !strings.HasPrefix(rest[n].id, prefix) })]
}

// slice is a page in the order of ids and one model more, and the number of all models.
func (e *Engine) slice(o *ListOptions) (rows []listed, total int, err error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.mu.closed {
		return nil, 0, ErrClosed
	}
	all := e.within(o.Prefix)
	switch total = len(all); {
	case o.Deleted || e.mu.deleted == 0:
	case len(all) == len(e.mu.table):
		total -= e.mu.deleted
	default:
		for _, i := range all {
			if i.isDeleted() {
				total--
			}
		}
	}
	if o.After != nil {
		from, there := slices.BinarySearchFunc(all, o.After.ID, func(i *instance, id string) int { return strings.Compare(i.id, id) })
		if there {
			from++
		}
		all = all[from:]
	}
	for _, i := range all {
		if len(rows) > o.Limit {
			break
		}
		if o.Deleted || !i.isDeleted() {
			rows = append(rows, listed{instance: i})
		}
	}
	return rows, total, nil
}

// sorted is slice for any options.
func (e *Engine) sorted(o *ListOptions) (rows []listed, total int, err error) {
	e.mu.RLock()
	if e.mu.closed {
		e.mu.RUnlock()
		return nil, 0, ErrClosed
	}
	all := slices.Clone(e.within(o.Prefix))
	e.mu.RUnlock()
	contains := strings.ToLower(o.Contains)
	now := e.o.Now()
	rows = make([]listed, 0, len(all))
	for _, i := range all {
		if !i.chosen(o, contains) {
			continue
		}
		total++
		row := listed{i.key(o, now), i}
		if o.After == nil || o.compare(row.key, row.id, o.After.Key, o.After.ID) > 0 {
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b listed) int { return o.compare(a.key, a.id, b.key, b.id) })
	return rows[:min(len(rows), o.Limit+1)], total, nil
}

// compare is the order of two models by their keys and ids.
func (o *ListOptions) compare(key uint64, id string, other uint64, otherID string) int {
	if c := cmp.Compare(key, other); c != 0 {
		return c
	}
	if o.Order == ByID && o.Descending {
		return strings.Compare(otherID, id)
	}
	return strings.Compare(id, otherID)
}

// chosen tells whether a list has the model. Contains is in lower case.
func (i *instance) chosen(o *ListOptions, contains string) bool {
	e := i.entry.Load()
	if (e.Deleted != 0 && !o.Deleted) || (o.Learner != "" && i.name() != o.Learner) {
		return false
	}
	for key, value := range o.Labels {
		if v, ok := e.Labels[key]; !ok || v != value {
			return false
		}
	}
	if len(o.Among) > 0 && !slices.ContainsFunc(o.Among, func(prefix string) bool { return strings.HasPrefix(i.id, prefix) }) {
		return false
	}
	return contains == "" || strings.Contains(i.id, contains) || strings.Contains(strings.ToLower(e.DisplayName), contains)
}

// notKnown is the key of a figure that is not known.
const notKnown = math.MaxUint64

// key is a number whose order is that of the list.
func (i *instance) key(o *ListOptions, now time.Time) uint64 {
	key, known := uint64(0), true
	switch o.Order {
	case ByID:
		return 0
	case BySequence:
		info, err := i.info()
		key, known = info.Sequence, err == nil
	case ByCreated:
		key = uint64(i.entry.Load().Created) ^ 1<<63
	case ByRate:
		key, known = orderOf(i.rate.perSecond(now))
	case ByRecentLoss, ByRecentSkill, ByRegret:
		f := i.figures(now)
		switch {
		case o.Order == ByRegret:
			key, known = orderOf(f.Regret)
		case o.Order == ByRecentLoss:
			key, known = orderOf(f.Recent.Served.Loss / f.Recent.Observations)
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

// orderOf is a number that orders as v does, which is not known if it is NaN.
func orderOf(v float64) (key uint64, known bool) {
	bits := math.Float64bits(v)
	if bits>>63 != 0 {
		return ^bits, v == v
	}
	return bits | 1<<63, v == v
}

// figures are the model's of now, or of when it was last in memory.
func (i *instance) figures(now time.Time) Figures {
	f, known, broken := i.read()
	out := Figures{Known: known, Recent: f.summary.Recent, Regret: f.stats.Regret, Rate: i.rate.perSecond(now)}
	if f.classes != nil {
		out.Classes = &f.classes.Recent
	}
	if s := i.solved.Load(); s != nil && math.IsNaN(out.Regret) {
		out.Regret = s.report.Regret
	}
	loaded := i.bytes.Load() > 0
	switch {
	case i.isDeleted():
		out.State = StateDeleted
	case broken && loaded:
		out.State = StateReadOnly
	case broken:
		out.State = StateFailed
	case loaded:
		out.State = StateLoaded
	default:
		out.State = StateHibernated
	}
	if !known || f.stats.Observations == 0 {
		out.Regret = math.NaN()
	}
	return out
}
