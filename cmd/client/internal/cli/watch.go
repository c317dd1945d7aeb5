package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
	"hindsight/cmd/client/internal/document"
	"hindsight/cmd/client/internal/plot"
	"hindsight/cmd/internal/command"
)

const mostPoints = 4096

func (e *env) modelWatch() verb {
	var (
		interval time.Duration
		events   int
	)
	return verb{
		use:   "watch ID",
		short: "Watch how a model does: curves of its loss and its regret",
		long: `Show the curves of a model's recent loss and of its regret, as it learns, until q is
pressed. The curves begin with the history of the model. Later losses are of the last 1000
observations. Losses and skill are of what was served. The regret is prequential.

Where standard output is no terminal, each statistics event is printed as a line; with
-o json as one line of JSON.`,
		example: `  hindsight model watch energy
  hindsight model watch energy --events 60 -o csv > minute.csv`,
		complete: []completer{models},
		flags: func(f *flagSet) {
			f.DurationVar(&interval, "interval", time.Second, "how often statistics come, if there was an observation")
			f.IntVar(&events, "events", 0, "end after so many statistics; 0: never")
		},
		before: func(*call) error {
			if interval < time.Second {
				return command.Usagef("--interval %v is less than 1s", interval)
			}
			if events < 0 {
				return command.Usagef("--events %d is negative", events)
			}
			return nil
		},
		run: func(c *call) error { return e.watch(c.ctx(), c.model(), interval, events) },
	}
}

// watch shows what the model learns.
func (e *env) watch(ctx context.Context, m *client.Model, interval time.Duration, events int) error {
	w := &watched{}
	s, ctx := e.newScreen(ctx)
	if s != nil {
		if history, err := m.History(ctx); err == nil { // Else the curves begin at the first event.
			w.begin(history.GetPoints())
		}
		if stats, err := m.Stats(ctx, nil); err == nil { // The events do not have the experts.
			w.against = " against " + yardstick(stats)
		}
	}
	err := e.watchUntil(ctx, m, w, s, interval, events)
	if s != nil {
		return s.leave(err)
	}
	return err
}

// watchUntil shows statistics until there were enough of them.
func (e *env) watchUntil(ctx context.Context, m *client.Model, w *watched, s *screen, interval time.Duration, events int) error {
	// Outcomes are not shown, so the server sends as few as possible.
	request := &hindsightv1.WatchModelRequest{StatsInterval: durationpb.New(interval), MaxOutcomesPerSecond: 1}
	seen := 0
	for event, err := range m.Watch(ctx, request) {
		if err != nil {
			return err
		}
		stats := event.GetStats()
		if stats == nil {
			continue
		}
		w.add(stats)
		if s != nil {
			width, height := s.size()
			err = s.draw(e.Page(func(p *command.Page) { w.write(p, width, height) }))
		} else {
			err = e.watchLine(stats, seen == 0)
		}
		if seen++; err != nil || seen == events {
			return err
		}
	}
	return errors.Join(ctx.Err(), errEnded)
}

var errEnded = errors.New("the server ended the events")

// watchLine writes statistics as one line.
func (e *env) watchLine(s *hindsightv1.ModelStats, first bool) error {
	if e.JSON() {
		raw, err := document.Encode(s)
		if err == nil {
			_, err = fmt.Fprintf(e.Stdout, "%s\n", raw)
		}
		return err
	}
	loss, skill := judge(s.GetRecent().GetServed(), s.GetClasses().GetRecent().GetServed())
	regret := s.Regret
	return e.Line([]string{"observations", "served_loss", "served_skill", "regret"},
		[]any{s.GetObservations(), loss, skill, regret}, first)
}

// watched are the curves of a model.
type watched struct {
	stats        *hindsightv1.ModelStats
	loss, regret []float64
	first        uint64
	against      string // what the regret is measured against, if known
}

// begin takes the history of the model.
func (w *watched) begin(points []*hindsightv1.HistoryPoint) {
	for _, p := range points {
		loss, _ := judge(p.GetPerformance().GetServed(), p.GetClasses().GetServed())
		regret := p.Regret
		w.point(p.GetSequence(), known(loss), known(regret))
	}
}

// add takes new statistics.
func (w *watched) add(s *hindsightv1.ModelStats) {
	loss, _ := judge(s.GetRecent().GetServed(), s.GetClasses().GetRecent().GetServed())
	w.stats = s
	regret := s.Regret
	w.point(s.GetObservations(), known(loss), known(regret))
}

// point adds a point. At mostPoints it drops every second point.
func (w *watched) point(sequence uint64, loss, regret float64) {
	if len(w.loss) == 0 {
		w.first = sequence
	}
	w.loss, w.regret = append(w.loss, loss), append(w.regret, regret)
	if len(w.loss) < mostPoints {
		return
	}
	for i := range mostPoints / 2 {
		w.loss[i], w.regret[i] = w.loss[2*i+1], w.regret[2*i+1]
	}
	w.loss, w.regret = w.loss[:mostPoints/2], w.regret[:mostPoints/2]
}

// write writes the page of a screen.
func (w *watched) write(p *command.Page, width, height int) {
	s := w.stats
	loss, skill := judge(s.GetRecent().GetServed(), s.GetClasses().GetRecent().GetServed())
	aside := ""
	if n := s.GetLabelGate().GetSetAside(); n > 0 {
		aside = fmt.Sprintf(", %d set aside", n)
	}
	p.Printf("%s, %s, %d observations%s; q leaves\n", s.GetModel(), s.GetLearner(), s.GetObservations(), aside)
	p.Printf("served, recent: loss %s, skill %s %s\nprequential: regret %s\n\n", command.Optional(loss, command.Number),
		command.Optional(skill, digits3), command.Optional(skill, verdict), command.Optional(s.Regret, command.Number))
	o := plot.Options{
		Width: min(width, maxWidth), Height: max(3, (height-13)/2), X: "observations",
		First: strconv.FormatUint(w.first, 10), Last: strconv.FormatUint(s.GetObservations(), 10),
	}
	name := "recent mean loss, served" // Of a point of the history, or of the last 1000 observations.
	if s.GetClasses() != nil {
		name = "recent error rate, served"
	}
	for _, c := range []struct {
		title  string
		points []float64
	}{{name, w.loss}, {"prequential regret" + w.against, w.regret}} {
		o.Title = c.title
		var drawn strings.Builder
		if plot.Curve(&drawn, twice(c.points), o) == nil { // Else no point is known.
			p.Printf("%s\n", drawn.String())
		}
	}
}

// twice repeats a single point: a curve has two.
func twice(points []float64) []float64 {
	if len(points) == 1 && !math.IsNaN(points[0]) {
		return append(points, points[0])
	}
	return points
}
