package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/client/internal/document"
)

const (
	pageSize  = 1000
	maxSpec   = 64 << 20
	specUsage = "the spec as JSON, @FILE or @- for standard input"
)

// newModel builds "model", which holds the commands of the control path.
func newModel(e *env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "model",
		Short: "Create, inspect and delete models",
		RunE:  group,
	}
	cmd.AddCommand(
		newModelCreate(e), newModelGet(e), newModelList(e),
		newModelDelete(e), newModelStats(e), newModelValidate(e),
		newModelSnapshot(e), newModelSnapshots(e), newModelRestore(e),
		newModelExport(e), newModelImport(e),
	)
	return cmd
}

func newModelCreate(e *env) *cobra.Command {
	var spec string
	cmd := &cobra.Command{
		Use:   "create ID --spec JSON|@FILE",
		Short: "Start a model",
		Long: `Start a model. The same id with the same spec answers the model that is there.

The spec is the JSON of a ModelSpec, names in snake_case or camelCase; whatever
is left out takes the server's default.`,
		Example: `  hindsight model create energy --spec '{"dimension": 25, "pkawv_taylor": {"degree": 2}}'
  hindsight model create energy --spec @energy.json`,
		Args: exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := e.spec(spec)
			if err != nil {
				return err
			}
			return e.withClient(func(c *client) error {
				m, err := c.create(cmd.Context(), args[0], s)
				if err != nil {
					return err
				}
				return e.emitModel(m)
			})
		},
	}
	cmd.Flags().StringVar(&spec, "spec", "", specUsage+" (required)")
	return cmd
}

// create starts a model.
func (c *client) create(ctx context.Context, id string, spec *hindsightv1.ModelSpec) (*hindsightv1.Model, error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	answer, err := c.models.CreateModel(ctx, &hindsightv1.CreateModelRequest{Id: id, Spec: spec})
	return answer.GetModel(), err
}

// get returns a model.
func (c *client) get(ctx context.Context, id string) (*hindsightv1.Model, error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	answer, err := c.models.GetModel(ctx, &hindsightv1.GetModelRequest{Id: id})
	return answer.GetModel(), err
}

func newModelGet(e *env) *cobra.Command {
	return &cobra.Command{
		Use:               "get ID",
		Short:             "Show what a model is",
		Args:              exactly("ID"),
		ValidArgsFunction: e.completeModel,
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.withClient(func(c *client) error {
				m, err := c.get(cmd.Context(), args[0])
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
	return e.emit(m, func(w *page) {
		w.row("id", m.GetId())
		w.row("learner", m.GetLearner())
		w.printf("dimension\t%d\n", m.GetSpec().GetDimension())
		w.printf("observations\t%d\n", m.GetSequence())
		w.row("created", m.GetCreateTime().AsTime().Format(time.RFC3339))
		w.row("spec", string(spec))
	})
}

func newModelList(e *env) *cobra.Command {
	var prefix string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the models by id",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return e.withClient(func(c *client) error {
				models, err := c.list(cmd.Context(), prefix)
				if err != nil {
					return err
				}
				return e.emitModels(models)
			})
		},
	}
	cmd.Flags().StringVar(&prefix, "prefix", "", "only ids that begin so")
	return cmd
}

// list returns the models of all pages.
func (c *client) list(ctx context.Context, prefix string) ([]*hindsightv1.Model, error) {
	var models []*hindsightv1.Model
	request := &hindsightv1.ListModelsRequest{Prefix: prefix, PageSize: pageSize}
	for {
		bounded, cancel := c.bounded(ctx)
		page, err := c.models.ListModels(bounded, request)
		cancel()
		if err != nil {
			return nil, err
		}
		models = append(models, page.GetModels()...)
		next := page.GetNextPageToken()
		switch next {
		case "":
			return models, nil
		case request.GetPageToken():
			return nil, errors.New("the server answered the same page twice")
		}
		request.PageToken = next
	}
}

// emitModels writes a list of models.
func (e *env) emitModels(models []*hindsightv1.Model) error {
	list := struct {
		Models []json.RawMessage `json:"models"`
	}{make([]json.RawMessage, len(models))}
	for i, m := range models {
		raw, err := document.Encode(m)
		if err != nil {
			return err
		}
		list.Models[i] = raw
	}
	return e.emit(list, func(w *page) {
		w.printf("ID\tLEARNER\tDIMENSION\tOBSERVATIONS\tCREATED\n")
		for _, m := range models {
			w.printf("%s\t%s\t%d\t%d\t%s\n", m.GetId(), m.GetLearner(),
				m.GetSpec().GetDimension(), m.GetSequence(), m.GetCreateTime().AsTime().Format(time.RFC3339))
		}
	})
}

func newModelDelete(e *env) *cobra.Command {
	return &cobra.Command{
		Use:               "delete ID",
		Short:             "Delete a model and everything it has learned",
		Args:              exactly("ID"),
		ValidArgsFunction: e.completeModel,
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.withClient(func(c *client) error {
				ctx, cancel := c.bounded(cmd.Context())
				defer cancel()
				if _, err := c.models.DeleteModel(ctx, &hindsightv1.DeleteModelRequest{Id: args[0]}); err != nil {
					return err
				}
				deleted := struct {
					ID      string `json:"id"`
					Deleted bool   `json:"deleted"`
				}{args[0], true}
				return e.emit(deleted, func(w *page) { w.printf("deleted %s\n", args[0]) })
			})
		},
	}
}

func newModelValidate(e *env) *cobra.Command {
	var spec string
	cmd := &cobra.Command{
		Use:   "validate --spec JSON|@FILE",
		Short: "Tell what a spec would come to, without starting a model",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := e.spec(spec)
			if err != nil {
				return err
			}
			return e.withClient(func(c *client) error {
				ctx, cancel := c.bounded(cmd.Context())
				defer cancel()
				v, err := c.models.ValidateSpec(ctx, &hindsightv1.ValidateSpecRequest{Spec: s})
				if err != nil {
					return err
				}
				full, err := document.Encode(v.GetSpec())
				if err != nil {
					return err
				}
				return e.emit(v, func(w *page) {
					w.printf("features\t%d\n", v.GetFeatures())
					w.printf("state\t%d bytes\n", v.GetStateBytes())
					w.printf("predict\t%d multiply-adds\n", v.GetPredictFlops())
					w.printf("observe\t%d multiply-adds\n", v.GetObserveFlops())
					w.row("spec", string(full))
				})
			})
		},
	}
	cmd.Flags().StringVar(&spec, "spec", "", specUsage+" (required)")
	return cmd
}

// spec reads a spec as a flag gives it.
func (e *env) spec(text string) (*hindsightv1.ModelSpec, error) {
	if text == "" {
		return nil, usagef("--spec is missing")
	}
	raw := []byte(text)
	if name, ok := strings.CutPrefix(text, "@"); ok {
		var err error
		if raw, err = e.file(name); err != nil {
			return nil, usagef("spec: %w", err)
		}
	}
	spec := new(hindsightv1.ModelSpec)
	if err := protojson.Unmarshal(raw, spec); err != nil {
		return nil, usagef("spec: %s", oneLine(err))
	}
	return spec, nil
}

// file reads a file of bounded size, or standard input when it is called "-".
func (e *env) file(name string) ([]byte, error) {
	in := e.stdin
	if name != "-" {
		f, err := os.Open(name) //nolint:gosec // the user names the file
		if err != nil {
			return nil, err
		}
		defer f.Close() //nolint:errcheck // only read
		in = f
	}
	raw, err := io.ReadAll(io.LimitReader(in, maxSpec+1))
	if err == nil && len(raw) > maxSpec {
		err = fmt.Errorf("%s is larger than %d bytes", name, maxSpec)
	}
	return raw, err
}
