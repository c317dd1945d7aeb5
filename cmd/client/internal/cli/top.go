package cli

import (
	"strings"

	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/internal/command"
)

const defaultTop = 50

func (e *env) top() verb {
	request := &hindsightv1.ListModelsRequest{IncludeSummary: true}
	return verb{
		use:   "top",
		short: "List the busiest models: observations, served loss and skill, regret, rate",
		long: `List the models with their figures, the busiest first.

Loss and skill are of what was served for the last 1000 observations, of a classifier
the error rate. The regret is prequential. Figures of a model on disk are its last ones in
memory. "model stats --help" explains the skill.`,
		example: `  hindsight top --order-by 'recent_skill desc'
  watch hindsight top`,
		flags: func(f *flagSet) {
			f.selection(request, "observation_rate desc")
			f.Int32Var(&request.PageSize, "limit", defaultTop, "at most this many models")
		},
		before: func(*call) error {
			if request.GetPageSize() < 1 || request.GetPageSize() > pageSize {
				return command.Usagef("--limit %d is not in 1..%d", request.GetPageSize(), pageSize)
			}
			return nil
		},
		run: func(c *call) error {
			page, err := c.client.ListPage(c.ctx(), request)
			all := func([]*hindsightv1.Model) proto.Message { return page }
			header := []string{"id", "learner", "observations", "per_second", "served_loss", "served_skill", "regret", "state"}
			return showList(e, all, header, topRow)(page.GetModels(), err)
		},
	}
}

func topRow(m *hindsightv1.Model) []any {
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
	return []any{m.GetId(), m.GetLearner(), m.GetSequence(), perSecond, loss, skill, regret, state}
}
