package engine

import (
	"fmt"
	"sort"
	"time"

	"go.uber.org/zap"
)

// every calls work at each time that is a multiple of tick, until the lifetime ends. So the engines of all groups work at
// the same times, and a server at rest wakes less often.
func (e *Engine) every(tick time.Duration, work func()) {
	due := time.NewTimer(e.untilMultiple(tick))
	defer due.Stop()
	for {
		select {
		case <-e.env.Lifetime.Done():
			return
		case <-due.C:
			work()
			due.Reset(e.untilMultiple(tick))
		}
	}
}

func (e *Engine) untilMultiple(tick time.Duration) time.Duration {
	now := e.o.Now()
	return now.Truncate(tick).Add(tick).Sub(now)
}

// sweepAll looks, at every sweep, for due snapshots, expired predictions, old ids and idle models.
func (e *Engine) sweepAll() {
	reported := "" // The failure that the log has.
	e.every(e.o.Sweep, func() {
		err := e.sweep(e.o.Now())
		if err == nil || e.env.Lifetime.Err() != nil {
			reported = ""
			return
		}
		// A disk that rejects writes rejects them at each sweep.
		if err.Error() != reported {
			reported = err.Error()
			e.o.Log.Error("sweep failed: the engine tries again, and logs it again when the cause changes", zap.Error(err))
		}
	})
}

func (e *Engine) sweep(now time.Time) error {
	for _, m := range e.table.live() {
		m.LeaveIfCold()
		m.SnapshotIfDue(now)
	}
	e.followers.Wake()
	e.env.Memory.Press()
	now = e.env.Time()
	err := e.o.Store.Expire(e.env.Lifetime, now, e.table.expired)
	if err != nil {
		return fmt.Errorf("engine: expire predictions: %w", err)
	}
	if err := e.o.Store.Forget(e.env.Lifetime, now.Add(-e.o.IDWindow), e.o.IDWindowMin); err != nil {
		return fmt.Errorf("engine: forget old ids: %w", err)
	}
	return nil
}

// reportAll solves, one after the other, the reports that a scrape shows, and verifies the snapshots of a cold server. After
// each it rests for as long as its share of a processor asks.
func (e *Engine) reportAll() {
	if e.o.ReportCPU <= 0 {
		return
	}
	rest := time.NewTimer(e.o.Sweep)
	defer rest.Stop()
	for {
		select {
		case <-e.env.Lifetime.Done():
			return
		case <-rest.C:
			rest.Reset(e.refreshReport())
		case m := <-e.env.Asked:
			m.Verify(e.env.Lifetime)
		}
	}
}

// verify verifies a snapshot that the owner has sent, of the next model with one. A server that learns has none.
func (e *Engine) verify() bool {
	if !e.RestsCold() {
		return false
	}
	e.verifying.Lock()
	defer e.verifying.Unlock()
	models := e.table.live()
	at := sort.Search(len(models), func(n int) bool { return models[n].ID() > e.verified })
	for _, m := range append(models[at:len(models):len(models)], models[:at]...) {
		if m.Verify(e.env.Lifetime) {
			e.verified = m.ID()
			return true
		}
	}
	return false
}

// refreshReport solves a report or verifies a snapshot, and returns how long to rest after it.
func (e *Engine) refreshReport() (rest time.Duration) {
	started := e.o.Now()
	if e.o.ReportCPU <= 0 || !e.verify() && !e.reporter.Refresh(e.env.Lifetime, readers(e.table.live())) {
		return e.o.Sweep
	}
	took := e.o.Now().Sub(started)
	return max(time.Duration(float64(took)*(1/e.o.ReportCPU-1)), time.Millisecond)
}

const (
	// The owner checks all models about once within checkRound, but at most one every minCheckPause.
	checkRound    = 10 * time.Minute
	minCheckPause = time.Second
)

// checkAll compares parts of the models with the other servers, one after the other, while this server is the owner. A
// tick costs the owner a copy of the list of models, beside Model.Check of one of them.
func (e *Engine) checkAll() {
	var next part
	rest := time.NewTimer(e.o.Check)
	defer rest.Stop()
	for {
		select {
		case <-e.env.Lifetime.Done():
			return
		case <-rest.C:
			var models []*hostedModel
			if e.env.CheckOwner() == nil {
				models = e.table.live()
			}
			rest.Reset(min(e.o.Check, max(checkRound/time.Duration(len(models)+1), minCheckPause)))
			next = e.check(models, next)
		}
	}
}

// part is where a check begins: at an id of a row of a model.
type part struct{ model, from string }

// check compares a part of a model with the other servers, and returns the next part.
func (e *Engine) check(models []*hostedModel, p part) (next part) {
	if len(models) == 0 {
		return part{}
	}
	at := sort.Search(len(models), func(n int) bool { return models[n].ID() >= p.model })
	m := models[at%len(models)]
	if m.ID() != p.model {
		p.from = ""
	}
	from, err := m.Check(e.env.Lifetime, p.from, e.env.Time().Add(-e.o.IDWindow))
	if err != nil {
		e.o.Log.Debug("the owner cannot check a model now", zap.String("model", m.ID()), zap.Error(err))
	}
	if from == "" {
		return part{model: m.ID() + "\x00"} // The next model.
	}
	return part{m.ID(), from}
}

func (e *Engine) relieve() {
	for {
		select {
		case <-e.env.Lifetime.Done():
			return
		case <-e.env.Memory.Pressure():
			e.env.HibernateIdle()
		}
	}
}

func (e *Engine) purgeOverdue() {
	if e.o.Store.Failed() != nil {
		return // Logged elsewhere; nothing can be removed.
	}
	if e.asOwner(e.env.Lifetime) != nil {
		return // Only the owner purges models.
	}
	for _, id := range e.table.overdue(e.o.Now()) {
		if err := e.purgeIfOverdue(id); err != nil && e.env.Lifetime.Err() == nil {
			e.o.Log.Error("a deleted model cannot be removed now", zap.String("model", id), zap.Error(err))
		}
	}
}

func (e *Engine) purgeIfOverdue(id string) error {
	m, release, err := e.lookUpClaimed(e.env.Lifetime, id)
	if err != nil {
		return err
	}
	if !m.overdue(e.o.Now()) {
		release()
		return nil
	}
	return e.purge(e.env.Lifetime, m, release)
}
