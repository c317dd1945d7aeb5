package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
	"hindsight/cmd/client/internal/document"
	"hindsight/cmd/internal/command"
)

const (
	pageSize  = 1000
	maxSpec   = 64 << 20
	specUsage = "the spec as JSON; @FILE reads a file, @- standard input"
)

// newModel builds "model", the group of commands that manage models.
func newModel(e *env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "model",
		Short: "Create, inspect, change and delete models",
		RunE:  command.Group,
	}
	cmd.AddCommand(
		newModelCreate(e), newModelGet(e), newModelList(e),
		newModelDelete(e), newModelStats(e), newModelValidate(e),
		newModelSnapshot(e), newModelSnapshots(e), newModelRestore(e),
		newModelExport(e), newModelImport(e), newModelMove(e),
		newModelUpdate(e), newModelUndelete(e), newModelCompare(e), newModelWatch(e),
	)
	return cmd
}

func newModelCreate(e *env) *cobra.Command {
	var request hindsightv1.CreateModelRequest
	var spec string
	cmd := &cobra.Command{
		Use:   "create ID --spec JSON|@FILE",
		Short: "Create a model",
		Long: `Create a model. If a model with this id and this spec exists, it is the answer.

The spec is the JSON of a ModelSpec. Names are in snake_case or camelCase. A
missing field gets the default of the server. A spec without a learner means
auto, which mixes learners by what they have lost.`,
		Example: `  hindsight model create energy --spec '{"dimension": 25}'
  hindsight model create energy --spec '{"dimension": 25, "pkawv_taylor": {"degree": 2}}'
  hindsight model create energy --spec @energy.json
  hindsight model create energy-2 --spec '{"dimension": 25, "linear_awv": {}}' --follows energy`,
		Args: command.Exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := e.spec(spec)
			if err != nil {
				return err
			}
			return e.withClient(func(c *client.Client) error {
				request.Id, request.Spec = args[0], s
				m, err := c.Create(cmd.Context(), &request)
				if err != nil {
					return err
				}
				return e.emitModel(m)
			})
		},
	}
	e.specFlag(cmd, &spec)
	flags := cmd.Flags()
	flags.StringVar(&request.DisplayName, "display-name", "", "a name for people")
	flags.StringToStringVar(&request.Labels, "label", nil, "KEY=VALUE, for selecting models; may be repeated")
	flags.StringVar(&request.Follows, "follows", "", "a model whose observations the new one learns as well, from the next one on")
	e.modelCompletion(cmd, "follows")
	return cmd
}

func newModelGet(e *env) *cobra.Command {
	return &cobra.Command{
		Use:               "get ID",
		Short:             "Show a model and its spec",
		Args:              command.Exactly("ID"),
		ValidArgsFunction: e.completeModel,
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.withClient(func(c *client.Client) error {
				m, err := c.Model(args[0]).Get(cmd.Context())
				if err != nil {
					return err
				}
				return e.emitModel(m)
			})
		},
	}
}

// emitModel writes a model.
func (e *env) emitModel(m *hindsightv1.Model) error {
	spec, err := document.Encode(m.GetSpec())
	if err != nil {
		return err
	}
	return e.emit(m, func(w *command.Page) {
		w.Row("id", m.GetId())
		w.Row("learner", m.GetLearner())
		w.Printf("dimension\t%d\n", m.GetSpec().GetDimension())
		w.Printf("observations\t%d\n", m.GetSequence())
		w.Row("created", m.GetCreateTime().AsTime().Format(time.RFC3339))
		writeMetadata(w, m)
		w.Row("spec", string(spec))
	})
}

// writeMetadata writes what a model has of names, notes, limits and other models.
func writeMetadata(w *command.Page, m *hindsightv1.Model) {
	row := func(name, value string) {
		if value != "" {
			w.Row(name, value)
		}
	}
	row("display name", m.GetDisplayName())
	row("labels", pairs(m.GetLabels()))
	row("annotations", pairs(m.GetAnnotations()))
	if m.GetLabelTtl() != nil {
		w.Row("label ttl", m.GetLabelTtl().AsDuration().String())
	}
	if m.MaxPendingLabels != nil {
		w.Printf("pending labels at most\t%d\n", m.GetMaxPendingLabels())
	}
	row("aliases", strings.Join(m.GetAliases(), ", "))
	row("follows", m.GetFollows())
	if to := m.GetMove(); to.GetComplete() {
		w.Row("moved to", to.GetAddress())
	} else if to != nil {
		w.Row("being moved to", to.GetAddress())
	}
	if from := m.GetImported(); from != nil {
		w.Printf("imported with\t%d observations\n", from.GetSequence())
	}
	row("etag", m.GetEtag())
	if m.GetDeleteTime() != nil {
		w.Row("deleted", m.GetDeleteTime().AsTime().Format(time.RFC3339))
		w.Row("removed", m.GetPurgeTime().AsTime().Format(time.RFC3339))
	}
}

// pairs writes a map as KEY=VALUE, by key.
func pairs(m map[string]string) string {
	out := make([]string, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		out = append(out, key+"="+m[key])
	}
	return strings.Join(out, ", ")
}

func newModelList(e *env) *cobra.Command {
	var request hindsightv1.ListModelsRequest
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the models",
		Args:  command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return e.withClient(func(c *client.Client) error {
				request.PageSize = pageSize
				var models []*hindsightv1.Model
				for m, err := range c.List(cmd.Context(), &request) {
					if err != nil {
						return err
					}
					models = append(models, m)
				}
				return e.emitModels(models, request.GetShowDeleted())
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&request.Prefix, "prefix", "", "only ids with this prefix")
	flags.StringVar(&request.Contains, "contains", "", "only models whose id or display name contains this")
	flags.StringToStringVar(&request.Labels, "label", nil, "KEY=VALUE: only models with this label; may be repeated")
	flags.StringVar(&request.Learner, "learner", "", "only models with this learner")
	flags.BoolVar(&request.ShowDeleted, "deleted", false, "also deleted models that can be brought back")
	flags.StringVar(&request.OrderBy, "order-by", "", orderUsage)
	e.orderFlag(cmd)
	e.learnerFlag(cmd)
	return cmd
}

// emitModels writes a list of models, with a column that says when one was deleted if
// there may be deleted ones.
func (e *env) emitModels(models []*hindsightv1.Model, deleted bool) error {
	header := []string{"id", "learner", "dimension", "observations", "created"}
	if deleted {
		header = append(header, "deleted")
	}
	list := struct {
		Models []json.RawMessage `json:"models"`
	}{make([]json.RawMessage, len(models))}
	rows := make([][]any, len(models))
	for i, m := range models {
		raw, err := document.Encode(m)
		if err != nil {
			return err
		}
		list.Models[i] = raw
		rows[i] = []any{m.GetId(), m.GetLearner(), m.GetSpec().GetDimension(), m.GetSequence(), m.GetCreateTime().AsTime().Format(time.RFC3339)}
		if m.GetDeleteTime() != nil {
			rows[i] = append(rows[i], m.GetDeleteTime().AsTime().Format(time.RFC3339))
		} else if deleted {
			rows[i] = append(rows[i], nil)
		}
	}
	return e.EmitRows(list, header, rows)
}

func newModelDelete(e *env) *cobra.Command {
	var request hindsightv1.DeleteModelRequest
	var yes bool
	cmd := &cobra.Command{
		Use:   "delete ID",
		Short: "Delete a model and all that it has learned",
		Long: `Delete a model. For as long as the server keeps deleted models, undelete brings it
back with all that it had learned. On a terminal the command asks; elsewhere it
wants --yes.`,
		Args:              command.Exactly("ID"),
		ValidArgsFunction: e.completeModel,
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.withClient(func(c *client.Client) error {
				if !yes {
					m, err := c.Model(args[0]).Get(cmd.Context())
					if err != nil {
						return err
					}
					if err := e.confirm(cmd.Context(), fmt.Sprintf("%s and its %d observations would be deleted", m.GetId(), m.GetSequence())); err != nil {
						return err
					}
				}
				m, err := c.Model(args[0]).Delete(cmd.Context(), &request)
				if err != nil {
					return err
				}
				deleted := struct {
					Model   string `json:"model"`
					Deleted bool   `json:"deleted"`
				}{args[0], true}
				return e.emit(deleted, func(w *command.Page) {
					w.Printf("deleted %s\n", args[0])
					if m != nil {
						w.Printf("until %s hindsight model undelete %s brings it back\n", m.GetPurgeTime().AsTime().Format(time.RFC3339), args[0])
					}
				})
			})
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "delete it without asking")
	cmd.Flags().BoolVar(&request.Purge, "purge", false, "remove it at once, so that it cannot be brought back")
	cmd.Flags().StringVar(&request.Etag, "etag", "", "delete it only if it has this etag")
	return cmd
}

// confirm asks on a terminal whether to go on. Elsewhere it refuses: --yes is missing.
func (e *env) confirm(ctx context.Context, what string) error {
	if !command.IsTerminal(e.Stdin) || !e.Table() {
		return command.Usagef("%s: confirm with --yes", what)
	}
	_, _ = fmt.Fprintf(e.Stderr, "%s. Go on? [y/N] ", what)
	answer, err := readAnswer(ctx, e.Stdin)
	if ctx.Err() != nil {
		return errors.New("interrupted: nothing was changed")
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	default:
		return command.Usagef("nothing was changed")
	}
}

// readAnswer reads a line from a terminal until ctx ends. The terminal is opened again, because
// a read of standard input itself has no end.
func readAnswer(ctx context.Context, in io.Reader) (string, error) {
	if file, ok := in.(*os.File); ok {
		if tty, err := os.Open(file.Name()); err == nil {
			defer tty.Close() //nolint:errcheck // it was only read
			if tty.SetReadDeadline(time.Time{}) == nil {
				defer context.AfterFunc(ctx, func() { _ = tty.SetReadDeadline(time.Now()) })()
				in = tty
			}
		}
	}
	return bufio.NewReader(in).ReadString('\n')
}

func newModelValidate(e *env) *cobra.Command {
	var spec string
	cmd := &cobra.Command{
		Use:   "validate --spec JSON|@FILE",
		Short: "Show the features, memory and cost of a spec, without creating a model",
		Args:  command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := e.spec(spec)
			if err != nil {
				return err
			}
			return e.withClient(func(c *client.Client) error {
				v, err := c.Validate(cmd.Context(), s)
				if err != nil {
					return err
				}
				full, err := document.Encode(v.GetSpec())
				if err != nil {
					return err
				}
				return e.emit(v, func(w *command.Page) {
					w.Printf("features\t%d\n", v.GetFeatures())
					w.Printf("state\t%d bytes\n", v.GetStateBytes())
					w.Printf("predict\t%d multiply-adds\n", v.GetPredictFlops())
					w.Printf("observe\t%d multiply-adds\n", v.GetObserveFlops())
					w.Row("spec", string(full))
				})
			})
		},
	}
	e.specFlag(cmd, &spec)
	return cmd
}

// spec parses the spec in a flag.
func (e *env) spec(text string) (*hindsightv1.ModelSpec, error) {
	if text == "" {
		return nil, command.Usagef("--spec is missing")
	}
	raw, err := e.argument(text)
	if err != nil {
		return nil, command.Usagef("spec: %w", err)
	}
	spec := new(hindsightv1.ModelSpec)
	if err := protojson.Unmarshal(raw, spec); err != nil {
		return nil, command.Usagef("spec: %s", specMistake(err))
	}
	return spec, nil
}

// argument is the JSON of a flag: the text itself, or what a file has after "@".
func (e *env) argument(text string) ([]byte, error) {
	if name, ok := strings.CutPrefix(text, "@"); ok {
		return e.file(name)
	}
	return []byte(text), nil
}

// file reads a file of bounded size. "-" is standard input.
func (e *env) file(name string) ([]byte, error) {
	in := e.Stdin
	if name != "-" {
		f, err := os.Open(name) //nolint:gosec // the user names the file
		if err != nil {
			return nil, err
		}
		defer f.Close() //nolint:errcheck // it was only read
		in = f
	}
	raw, err := io.ReadAll(io.LimitReader(in, maxSpec+1))
	if err == nil && len(raw) > maxSpec {
		err = fmt.Errorf("%s is larger than %d bytes", name, maxSpec)
	}
	return raw, err
}

// oneLine removes the special characters that protojson puts into its errors.
func oneLine(err error) string {
	s := strings.ReplaceAll(err.Error(), "\u00a0", " ")
	return strings.TrimPrefix(s, "proto: ")
}
