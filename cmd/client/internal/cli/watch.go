package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
	"hindsight/cmd/client/internal/document"
	"hindsight/cmd/internal/command"
)

func (e *env) modelWatch() verb {
	var (
		interval time.Duration
		events   int
	)
	return verb{
		use:   "watch ID",
		short: "Write a line whenever a model has learned",
		long: `Write each statistics event of a model as a line, with -o json as a line of JSON. Loss and
skill judge the predictions that were served for the last 1000 observations. The regret is
prequential.

The page of the model in the console draws them.`,
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

// watch writes statistics until there were enough of them.
func (e *env) watch(ctx context.Context, m *client.Model, interval time.Duration, events int) error {
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
		err = e.watchLine(stats, seen == 0)
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
