package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/internal/command"
)

const pageSize = 1000

func (e *env) model() *cobra.Command {
	write := false
	return e.group("model", "Create, inspect, change and delete models", "",
		e.modelCreate(),
		verb{use: "get ID", short: "Show a model and its spec", run: func(c *call) error {
			return e.showModel(c.model().Get(c.ctx()))
		}},
		e.modelList(), e.modelDelete(),
		e.modelStats(), e.modelCompare(),
		verb{
			use: "snapshots ID", short: "List the snapshots of a model, the newest first",
			flags: func(f *flagSet) { f.BoolVar(&write, "write", false, "write a snapshot first") },
			run: func(c *call) error {
				if write {
					if _, err := c.model().Snapshot(c.ctx()); err != nil {
						return err
					}
				}
				all := func(s []*hindsightv1.Snapshot) proto.Message { return &hindsightv1.ListSnapshotsResponse{Snapshots: s} }
				return showList(e, all, []string{"sequence", "written", "bytes", "state_digest"}, func(s *hindsightv1.Snapshot) []any {
					return []any{s.GetSequence(), when(s.GetCreateTime()), s.GetBytes(), s.GetStateDigest()}
				})(c.model().Snapshots(c.ctx()))
			},
		},
		e.modelRestore(), e.modelExport(), e.modelImport(),
	)
}

func when(t *timestamppb.Timestamp) string { return t.AsTime().Format(time.RFC3339) }

func (e *env) modelCreate() verb {
	request := new(hindsightv1.CreateModelRequest)
	var spec string
	var validate bool
	return verb{
		use:   "create ID --spec JSON|@FILE",
		short: "Create a model, or show what its spec would cost",
		long: `Create a model. If a model with this id and this spec exists, it is the answer.

The spec is the JSON of a ModelSpec. Names are in snake_case or camelCase. A
missing field gets the default of the server. A spec without a learner means auto.`,
		example: `  hindsight model create energy --spec '{"dimension": 25}'
  hindsight model create energy --spec @energy.json
  hindsight model create energy-2 --spec '{"dimension": 25, "linear_awv": {}}' --follows energy`,
		flags: func(f *flagSet) {
			f.spec(&spec)
			f.StringVar(&request.DisplayName, "display-name", "", "display name")
			f.StringToStringVar(&request.Labels, "label", nil, "label KEY=VALUE for selecting models; may be repeated")
			f.StringVar(&request.Follows, "follows", "", "a model whose observations the new one learns as well, from the next one on")
			f.BoolVar(&validate, "validate-only", false, "show the features, memory and cost of the spec, and create nothing")
		},
		before: func(c *call) (err error) {
			for _, flag := range []string{"display-name", "label", "follows"} {
				if validate && c.given(flag) {
					return command.Usagef("--validate-only checks the spec alone: leave out --%s", flag)
				}
			}
			request.Spec, err = e.spec(spec)
			return err
		},
		run: func(c *call) error {
			if validate {
				return show(e, writeValidation)(c.client.Validate(c.ctx(), request.GetSpec()))
			}
			request.Id = c.args[0]
			return e.showModel(c.client.Create(c.ctx(), request))
		},
	}
}

func (e *env) showModel(m *hindsightv1.Model, err error) error {
	if err != nil {
		return err
	}
	return e.emit(m, func(w *command.Page) {
		w.Row("id", m.GetId())
		w.Row("learner", m.GetLearner())
		w.Row("dimension", m.GetSpec().GetDimension())
		w.Row("observations", m.GetSequence())
		w.Row("created", when(m.GetCreateTime()))
		writeMetadata(w, m)
		w.Row("spec", specText(m.GetSpec()))
	})
}

func writeMetadata(w *command.Page, m *hindsightv1.Model) {
	w.Text("display name", m.GetDisplayName())
	w.Text("labels", pairs(m.GetLabels()))
	w.Text("annotations", pairs(m.GetAnnotations()))
	if m.GetLabelTtl() != nil {
		w.Row("label ttl", m.GetLabelTtl().AsDuration())
	}
	command.Known(w, "pending labels at most", m.MaxPendingLabels)
	w.Text("aliases", strings.Join(m.GetAliases(), ", "))
	w.Text("follows", m.GetFollows())
	w.Text("etag", m.GetEtag())
	if m.GetDeleteTime() != nil {
		w.Row("deleted", when(m.GetDeleteTime()))
		w.Row("removed", when(m.GetPurgeTime()))
	}
}

func pairs(m map[string]string) string {
	out := make([]string, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		out = append(out, key+"="+m[key])
	}
	return strings.Join(out, ", ")
}

func (e *env) modelList() verb {
	request := &hindsightv1.ListModelsRequest{PageSize: pageSize, IncludeSummary: true}
	limit := 0
	return verb{
		use:   "list",
		short: "List the models: observations, served loss and skill, regret, rate",
		long: `List the models with their figures.

Loss and skill are of what was served for the last 1000 observations, of a classifier
the error rate. The regret is prequential. Figures of a model on disk are its last ones in
memory. "model stats --help" explains the skill.`,
		example: `  watch hindsight model list --order-by "'observation_rate desc'" --limit 50`,
		flags: func(f *flagSet) {
			f.StringVar(&request.Prefix, "prefix", "", "only ids with this prefix")
			f.StringVar(&request.Learner, "learner", "", "only models with this learner")
			f.fixed("learner", learners())
			columns := []string{"id", "sequence", "create_time", "recent_loss", "recent_skill", "regret", "observation_rate", "health"}
			last := len(columns) - 1
			f.StringVar(&request.OrderBy, "order-by", "",
				strings.Join(columns[:last], ", ")+" or "+columns[last]+"; with \" desc\" the largest first")
			var orders []string
			for _, name := range columns {
				orders = append(orders, name, name+" desc")
			}
			f.fixed("order-by", orders)
			f.StringVar(&request.Contains, "contains", "", "only models whose id or display name contains this")
			f.StringToStringVar(&request.Labels, "label", nil, "KEY=VALUE: only models with this label; may be repeated")
			f.BoolVar(&request.ShowDeleted, "deleted", false, "also deleted models that can be brought back")
			f.IntVar(&limit, "limit", 0, "at most this many models; 0: all")
		},
		before: func(*call) error {
			if limit < 0 {
				return command.Usagef("--limit %d is negative", limit)
			}
			if limit > 0 {
				request.PageSize = int32(min(limit, pageSize))
			}
			return nil
		},
		run: func(c *call) error {
			var models []*hindsightv1.Model
			for m, err := range c.client.List(c.ctx(), request) {
				if err != nil {
					return err
				}
				if models = append(models, m); len(models) == limit {
					break
				}
			}
			header := []string{"id", "learner", "observations", "per_second", "served_loss", "served_skill", "regret", "state", "created", "deleted"}
			if !request.GetShowDeleted() {
				header = header[:len(header)-1]
			}
			all := func(m []*hindsightv1.Model) proto.Message {
				return &hindsightv1.ListModelsResponse{Models: m, TotalSize: int64(len(m))}
			}
			return showList(e, all, header, func(m *hindsightv1.Model) []any { return listRow(m)[:len(header)] })(models, nil)
		},
	}
}

func listRow(m *hindsightv1.Model) []any {
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
	var deleted any
	if m.GetDeleteTime() != nil {
		deleted = when(m.GetDeleteTime())
	}
	return []any{m.GetId(), m.GetLearner(), m.GetSequence(), perSecond, loss, skill, regret, state, when(m.GetCreateTime()), deleted}
}

func (e *env) modelDelete() verb {
	request := new(hindsightv1.DeleteModelRequest)
	var yes bool
	return verb{
		use:   "delete ID --yes",
		short: "Delete a model and all that it has learned",
		long: `Delete a model. As long as the server keeps the model, model restore ID --undelete brings the model
back.`,
		flags: func(f *flagSet) {
			f.BoolVar(&yes, "yes", false, "delete the model; required")
			f.BoolVar(&request.Purge, "purge", false, "remove the model at once, so that it cannot be brought back")
			f.StringVar(&request.Etag, "etag", "", "delete the model only if it has this etag")
		},
		before: func(c *call) error {
			if !yes {
				return command.Usagef("this deletes %s and all that it has learned: give --yes", c.args[0])
			}
			return nil
		},
		run: func(c *call) error {
			id := c.args[0]
			m, err := c.model().Delete(c.ctx(), request)
			if err != nil {
				return err
			}
			deleted := struct {
				Model   string `json:"model"`
				Deleted bool   `json:"deleted"`
			}{id, true}
			return e.emit(deleted, func(w *command.Page) {
				w.Printf("deleted %s\n", id)
				if m != nil {
					w.Printf("until %s hindsight model restore %s --undelete brings it back\n", when(m.GetPurgeTime()), id)
				}
			})
		},
	}
}

func writeValidation(w *command.Page, v *hindsightv1.ValidateSpecResponse) {
	w.Row("features", v.GetFeatures())
	w.Row("state", fmt.Sprintf("%d bytes", v.GetStateBytes()))
	w.Row("predict", fmt.Sprintf("%d multiply-adds", v.GetPredictFlops()))
	w.Row("observe", fmt.Sprintf("%d multiply-adds", v.GetObserveFlops()))
	w.Row("spec", specText(v.GetSpec()))
}

func specText(spec *hindsightv1.ModelSpec) string {
	raw, err := encode(spec)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

func (e *env) modelCompare() verb {
	return verb{
		use:   "compare ID",
		short: "Compare a model with those that follow it, or the two models that share an alias",
		long: `Compare a model with the models that follow it, by prequential predictions of the
observations that the follower has learned. Of classifiers the losses are error rates.

By an alias with a share whose models each learn what they predicted, compare these
two since the share began.

The difference is the mean loss of a model minus that of the first. Its bounds hold
at all times at once with 95% confidence, so that one may look and stop at any time.`,
		run: func(c *call) error {
			all := func(m []*hindsightv1.Comparison) proto.Message {
				return &hindsightv1.CompareModelsResponse{Comparisons: m}
			}
			header := []string{"model", "learner", "observations", "behind", "prequential_loss", "followed", "prequential_skill", "difference", "lower", "upper"}
			return showList(e, all, header, func(m *hindsightv1.Comparison) []any {
				loss, skill := lossAndSkill(m.GetPerformance().GetPrequential(), m.GetClasses().GetPrequential())
				other, _ := lossAndSkill(m.GetFollowed().GetPrequential(), m.GetFollowedClasses().GetPrequential())
				var mean, lower, upper *float64
				if d := m.GetDifference(); d != nil {
					mean, lower, upper = &d.Mean, &d.Lower, &d.Upper
				}
				return []any{m.GetModel(), m.GetLearner(), m.GetObservations(), m.GetBehind(), loss, other, skill, mean, lower, upper}
			})(c.model().Compare(c.ctx()))
		},
	}
}

// lossAndSkill returns the mean loss and the skill of figures, of a classifier the error rate. Both
// are nil if neither message is given.
func lossAndSkill(f *hindsightv1.PerformanceFigures, c *hindsightv1.ClassFigures) (loss, skill *float64) {
	switch {
	case c != nil:
		rate := c.GetErrorRate()
		return &rate, c.Skill
	case f != nil:
		mean := f.GetMeanLoss()
		return &mean, f.Skill
	}
	return nil, nil
}
