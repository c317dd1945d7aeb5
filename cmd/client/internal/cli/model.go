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
		e.modelList(), e.modelUpdate(), e.modelDelete(),
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
	request := &hindsightv1.ListModelsRequest{PageSize: pageSize}
	return verb{
		use:   "list",
		short: "List the models",
		flags: func(f *flagSet) {
			f.selection(request, "")
			f.StringVar(&request.Contains, "contains", "", "only models whose id or display name contains this")
			f.StringToStringVar(&request.Labels, "label", nil, "KEY=VALUE: only models with this label; may be repeated")
			f.BoolVar(&request.ShowDeleted, "deleted", false, "also deleted models that can be brought back")
		},
		run: func(c *call) error {
			var models []*hindsightv1.Model
			for m, err := range c.client.List(c.ctx(), request) {
				if err != nil {
					return err
				}
				models = append(models, m)
			}
			return e.emitModels(models, request.GetShowDeleted())
		},
	}
}

func (f *flagSet) selection(request *hindsightv1.ListModelsRequest, order string) {
	f.StringVar(&request.Prefix, "prefix", "", "only ids with this prefix")
	f.StringVar(&request.Learner, "learner", "", "only models with this learner")
	f.fixed("learner", learners())
	columns := []string{"id", "sequence", "create_time", "recent_loss", "recent_skill", "regret", "observation_rate", "health"}
	last := len(columns) - 1
	f.StringVar(&request.OrderBy, "order-by", order,
		strings.Join(columns[:last], ", ")+" or "+columns[last]+"; with \" desc\" the largest first")
	var orders []string
	for _, name := range columns {
		orders = append(orders, name, name+" desc")
	}
	f.fixed("order-by", orders)
}

// emitModels writes a list of models, with a column of the times of their deletion if deleted
// models are asked for.
func (e *env) emitModels(models []*hindsightv1.Model, deleted bool) error {
	header := []string{"id", "learner", "dimension", "observations", "created"}
	if deleted {
		header = append(header, "deleted")
	}
	all := func(m []*hindsightv1.Model) proto.Message {
		return &hindsightv1.ListModelsResponse{Models: m, TotalSize: int64(len(m))}
	}
	return showList(e, all, header, func(m *hindsightv1.Model) []any {
		row := []any{m.GetId(), m.GetLearner(), m.GetSpec().GetDimension(), m.GetSequence(), when(m.GetCreateTime())}
		if m.GetDeleteTime() != nil {
			return append(row, when(m.GetDeleteTime()))
		}
		return append(row, nil)[:len(header)]
	})(models, nil)
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
