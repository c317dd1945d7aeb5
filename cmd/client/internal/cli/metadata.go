package cli

import (
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
	"hindsight/cmd/internal/command"
)

// newModelUpdate builds "model update".
func newModelUpdate(e *env) *cobra.Command {
	var (
		request             hindsightv1.UpdateModelRequest
		name, etag          string
		labels, annotations map[string]string
		without             []string
		ttl                 time.Duration
		pending             int64
	)
	cmd := &cobra.Command{
		Use:   "update ID",
		Short: "Change the display name, labels, annotations and limits of a model",
		Long: `Change what may change of a model. The spec is fixed: another spec is another
model. A limit of 0 means that of the server.`,
		Example: `  hindsight model update energy --label stage=live --display-name 'Energy of the north'
  hindsight model update energy --without-label stage`,
		Args:              command.Exactly("ID"),
		ValidArgsFunction: e.completeModel,
		RunE: func(cmd *cobra.Command, args []string) error {
			m, mask := &hindsightv1.Model{Id: args[0], Etag: etag, Labels: labels, Annotations: annotations}, &fieldmaskpb.FieldMask{}
			if cmd.Flags().Changed("display-name") {
				m.DisplayName, mask.Paths = name, append(mask.Paths, "display_name")
			}
			for _, key := range slices.Sorted(maps.Keys(labels)) {
				mask.Paths = append(mask.Paths, "labels."+key)
			}
			for _, key := range without {
				mask.Paths = append(mask.Paths, "labels."+key)
			}
			for _, key := range slices.Sorted(maps.Keys(annotations)) {
				mask.Paths = append(mask.Paths, "annotations."+key)
			}
			if cmd.Flags().Changed("label-ttl") {
				mask.Paths = append(mask.Paths, "label_ttl")
				if ttl > 0 {
					m.LabelTtl = durationpb.New(ttl)
				}
			}
			if cmd.Flags().Changed("max-pending-labels") {
				mask.Paths = append(mask.Paths, "max_pending_labels")
				if pending > 0 {
					m.MaxPendingLabels = &pending
				}
			}
			if len(mask.GetPaths()) == 0 {
				return command.Usagef("nothing to change: see --help for the flags")
			}
			request.Model, request.UpdateMask = m, mask
			return e.withClient(func(c *client.Client) error {
				updated, err := c.Model(args[0]).Update(cmd.Context(), &request)
				if err != nil {
					return err
				}
				return e.emitModel(updated)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&name, "display-name", "", "a name for people")
	flags.StringToStringVar(&labels, "label", nil, "KEY=VALUE, for selecting models; may be repeated")
	flags.StringSliceVar(&without, "without-label", nil, "the key of a label to remove; may be repeated")
	flags.StringToStringVar(&annotations, "annotation", nil, "KEY=VALUE, a note; may be repeated")
	flags.DurationVar(&ttl, "label-ttl", 0, "how long a prediction waits for its label")
	flags.Int64Var(&pending, "max-pending-labels", 0, "how many predictions may wait")
	flags.StringVar(&etag, "etag", "", "change it only if it has this etag")
	flags.BoolVar(&request.ValidateOnly, "validate-only", false, "show the model as it would be, and change nothing")
	return cmd
}

func newModelUndelete(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "undelete ID",
		Short: "Bring a deleted model back",
		Args:  command.Exactly("ID"), ValidArgsFunction: e.completeDeleted,
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.withClient(func(c *client.Client) error {
				m, err := c.Model(args[0]).Undelete(cmd.Context())
				if err != nil {
					return err
				}
				return e.emitModel(m)
			})
		},
	}
}

// newModelCompare builds "model compare".
func newModelCompare(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "compare ID",
		Short: "Compare a model with those that follow it, on the same observations",
		Long: `Compare a model with those that follow it. Each follower is judged by the
observations that it has learned, beside the model that it follows on the same
ones, by prequential predictions: a follower serves none. Of classifiers the losses are
error rates.`,
		Args:              command.Exactly("ID"),
		ValidArgsFunction: e.completeModel,
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.withClient(func(c *client.Client) error {
				comparisons, err := c.Model(args[0]).Compare(cmd.Context())
				if err != nil {
					return err
				}
				rows := make([][]any, len(comparisons))
				for i, m := range comparisons {
					loss, skill := judge(m.GetPerformance().GetPrequential(), m.GetClasses().GetPrequential())
					other, _ := judge(m.GetFollowed().GetPrequential(), m.GetFollowedClasses().GetPrequential())
					rows[i] = []any{m.GetModel(), m.GetLearner(), m.GetObservations(), m.GetBehind(), loss, other, skill}
				}
				return e.emitRows(&hindsightv1.CompareModelsResponse{Comparisons: comparisons},
					[]string{"model", "learner", "observations", "behind", "prequential_loss", "followed", "prequential_skill"}, rows)
			})
		},
	}
}

// judge returns the mean loss and the skill of figures, of a classifier the error rate.
func judge(f *hindsightv1.PerformanceFigures, c *hindsightv1.ClassFigures) (loss, skill *float64) {
	if c != nil {
		rate := c.GetErrorRate()
		return &rate, c.Skill
	}
	if f != nil {
		mean := f.GetMeanLoss()
		return &mean, f.Skill
	}
	return nil, nil
}
