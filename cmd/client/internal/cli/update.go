package cli

import (
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/internal/command"
)

func (e *env) modelUpdate() verb {
	m, mask := new(hindsightv1.Model), new(fieldmaskpb.FieldMask)
	request := &hindsightv1.UpdateModelRequest{Model: m, UpdateMask: mask}
	var (
		without []string
		ttl     time.Duration
		pending int64
	)
	return verb{
		use:   "update ID",
		short: "Change the display name, labels, annotations and limits of a model",
		long: `Change what may change of a model. The spec is fixed: another spec is another
model. A limit of 0 means that of the server.`,
		example: `  hindsight model update energy --label stage=live --display-name 'Energy of the north'
  hindsight model update energy --without-label stage`,
		flags: func(f *flagSet) {
			f.StringVar(&m.DisplayName, "display-name", "", "display name")
			f.StringToStringVar(&m.Labels, "label", nil, "label KEY=VALUE for selecting models; may be repeated")
			f.StringSliceVar(&without, "without-label", nil, "the key of a label to remove; may be repeated")
			f.StringToStringVar(&m.Annotations, "annotation", nil, "annotation KEY=VALUE; may be repeated")
			f.DurationVar(&ttl, "label-ttl", 0, "how long a prediction stays pending")
			f.Int64Var(&pending, "max-pending-labels", 0, "maximum number of pending predictions")
			f.StringVar(&m.Etag, "etag", "", "change the model only if it has this etag")
			f.BoolVar(&request.ValidateOnly, "validate-only", false, "show the model as it would be, and change nothing")
		},
		before: func(c *call) error {
			m.Id = c.args[0]
			for flag, field := range map[string]string{
				"display-name": "display_name", "label-ttl": "label_ttl", "max-pending-labels": "max_pending_labels",
			} {
				if c.given(flag) {
					mask.Paths = append(mask.Paths, field)
				}
			}
			for _, key := range append(slices.Collect(maps.Keys(m.GetLabels())), without...) {
				mask.Paths = append(mask.Paths, "labels."+key)
			}
			for key := range m.GetAnnotations() {
				mask.Paths = append(mask.Paths, "annotations."+key)
			}
			slices.Sort(mask.GetPaths())
			if ttl > 0 {
				m.LabelTtl = durationpb.New(ttl)
			}
			if pending > 0 {
				m.MaxPendingLabels = &pending
			}
			if len(mask.GetPaths()) == 0 {
				return command.Usagef("nothing to change: see --help for the flags")
			}
			return nil
		},
		run: func(c *call) error { return e.showModel(c.model().Update(c.ctx(), request)) },
	}
}

func (e *env) modelCompare() verb {
	return verb{
		use:   "compare ID",
		short: "Compare a model with those that follow it",
		long: `Compare a model with the models that follow it, by prequential predictions of the
observations that the follower has learned. Of classifiers the losses are error rates.

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
