package rpc

import (
	"context"
	"fmt"
	"slices"
	"strings"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/dataset"
	"hindsight/internal/engine"
	"hindsight/internal/infer"
)

const (
	csvField = "csv"
	// Of a file that is read by a spec.
	defaultTarget = "y"
)

func (m *models) InferSpec(_ context.Context, r *hindsightv1.InferSpecRequest) (*hindsightv1.InferSpecResponse, error) {
	out, err := inferSpec(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", engine.ErrInvalidRequest, err)
	}
	return out, nil
}

func inferSpec(r *hindsightv1.InferSpecRequest) (*hindsightv1.InferSpecResponse, error) {
	table, err := dataset.NewTable(strings.NewReader(r.GetCsv()), csvField, 0)
	if err != nil {
		return nil, err
	}
	o := infer.Options{Target: r.GetTarget(), Classes: r.GetClasses(), Texts: r.GetTexts()}
	if o.Target == "" {
		if o.Target, err = table.LikelyTarget(); err != nil {
			return nil, err
		}
		targets, _ := table.Targets(o.Target) // Y also means y1 and y2.
		isInput := func(in *hindsightv1.Input) bool {
			i, err := table.Column(in.GetName())
			return err == nil && slices.Contains(targets, i)
		}
		if r.GetSpec() != nil && (o.Target != defaultTarget || slices.ContainsFunc(r.GetSpec().GetInputs(), isInput)) {
			o.Target = "" // The spec does not need the labels of rows to predict.
		}
	}
	result, err := infer.Read(table, o)
	if err != nil && o.Target != "" && r.GetSpec() != nil && r.GetValues() { // The spec reads labels, of which rows to predict have none.
		if table, err = dataset.NewTable(strings.NewReader(r.GetCsv()), csvField, 0); err == nil {
			result, err = infer.Read(table, infer.Options{Texts: o.Texts})
		}
	}
	if err != nil {
		return nil, err
	}
	out := &hindsightv1.InferSpecResponse{Spec: result.Spec, Rows: int64(result.Rows), Notes: result.Notes}
	if result.Question != "" && r.GetSpec() == nil {
		out.Notes = append(out.Notes, result.Question)
	}
	kinds := hindsightv1.InferredColumn_KIND_UNSPECIFIED.Descriptor()
	for _, c := range result.Columns {
		kind := enumNumber(kinds, strings.ReplaceAll(string(c.Kind), " ", "_"))
		out.Columns = append(out.Columns, &hindsightv1.InferredColumn{
			Name: c.Name, Kind: hindsightv1.InferredColumn_Kind(kind), Reason: c.Reason, Notice: c.Notice() != "",
		})
	}
	if r.GetValues() {
		spec := r.GetSpec()
		if spec == nil {
			spec = result.Spec
		}
		var notices []string
		out.Values, notices, err = infer.Values(r.GetCsv(), csvField, o, spec)
		if r.GetSpec() != nil { // Those of the inferred spec belong to the columns.
			out.Notes = append(out.Notes, notices...)
		}
	}
	return out, err
}
