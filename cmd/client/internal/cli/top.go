package cli

import (
	"context"
	"strings"
	"time"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
	"hindsight/cmd/internal/command"
)

const (
	defaultInterval = 2 * time.Second
	leastInterval   = 200 * time.Millisecond
	defaultTop      = 50
)

// top builds "top".
func (e *env) top() verb {
	request := &hindsightv1.ListModelsRequest{IncludeSummary: true}
	var interval time.Duration
	return verb{
		use:   "top",
		short: "Watch the models: observations, served loss and skill, regret, rate",
		long: `Show a table of the models, again every --interval, until an interrupt. Where
standard output is no terminal, or with -o json or csv, the table is printed once.

Loss and skill are of what was served for the last 1000 observations, of a classifier
the error rate. The regret is prequential. Figures of a model on disk are its last ones in
memory.

` + verdictHelp,
		example: `  hindsight top --order-by 'observation_rate desc'
  hindsight top -o csv`,
		flags: func(f *flagSet) {
			f.selection(request, "observation_rate desc")
			f.Int32Var(&request.PageSize, "limit", defaultTop, "at most this many models")
			f.DurationVar(&interval, "interval", defaultInterval, "how often the table is shown")
		},
		before: func(*call) error {
			if interval < leastInterval {
				return command.Usagef("--interval %v is less than %v", interval, leastInterval)
			}
			if request.GetPageSize() < 1 || request.GetPageSize() > pageSize {
				return command.Usagef("--limit %d is not in 1..%d", request.GetPageSize(), pageSize)
			}
			return nil
		},
		run: func(c *call) error { return e.showTop(c.ctx(), c.client, request, interval) },
	}
}

// showTop shows the table until an interrupt.
func (e *env) showTop(ctx context.Context, c *client.Client, request *hindsightv1.ListModelsRequest, interval time.Duration) error {
	page, err := c.ListPage(ctx, request)
	if err != nil {
		return err
	}
	s := e.newScreen()
	if s == nil {
		raw, err := encode(page)
		if err != nil {
			return err
		}
		return e.EmitRows(raw, topHeader(), topRows(page.GetModels()))
	}
	defer s.leave()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for err == nil {
		if err = s.draw(e.Page(func(w *command.Page) {
			width, _ := s.size()
			writeTop(w, page, c.Address(), width)
		})); err != nil {
			break
		}
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-ticker.C:
			page, err = c.ListPage(ctx, request)
		}
	}
	return err
}

func topHeader() []string {
	return []string{"id", "learner", "observations", "per_second", "served_loss", "served_skill", "regret", "state"}
}

// topRows are the lines of models.
func topRows(models []*hindsightv1.Model) [][]any {
	rows := make([][]any, len(models))
	for i, m := range models {
		s := m.GetSummary()
		loss, skill := lossAndSkill(s.GetRecent().GetServed(), s.GetRecentClasses().GetServed())
		var perSecond, regret any
		state := ""
		if s != nil {
			perSecond = s.GetObservationRate()
		}
		if s != nil && s.Regret != nil {
			regret = s.GetRegret()
		}
		if s.GetState() != hindsightv1.ModelSummary_STATE_UNSPECIFIED {
			state = strings.ToLower(strings.TrimPrefix(s.GetState().String(), "STATE_"))
		}
		rows[i] = []any{m.GetId(), m.GetLearner(), m.GetSequence(), perSecond, loss, skill, regret, state}
	}
	return rows
}

// dispensable are the columns of the live table that a narrow terminal leaves out, in the order
// in which they go: the verdict, which follows from the skill, state, learner, rate, regret.
func dispensable() []int { return []int{8, 7, 1, 3, 6} }

// writeTop writes a page of the live table.
func writeTop(w *command.Page, page *hindsightv1.ListModelsResponse, address string, width int) {
	w.Printf("%s, models: %d, shown: %d\n\n", address, max(page.GetTotalSize(), int64(len(page.GetModels()))), len(page.GetModels()))
	rows := topRows(page.GetModels())
	for i, row := range rows {
		if skill, _ := row[5].(*float64); skill != nil {
			rows[i] = append(row, verdict(*skill))
		}
	}
	w.RowsWithin(width, dispensable(), topHeader(), rows)
}
