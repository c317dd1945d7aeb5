package rpc

import (
	"context"
	"fmt"
	"strings"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/dataset"
	"hindsight/internal/engine"
	"hindsight/internal/infer"
)

const csvField = "csv"

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
	}
	result, err := infer.Read(table, o)
	if err != nil {
		return nil, err
	}
	out := &hindsightv1.InferSpecResponse{Spec: result.Spec, Rows: int64(result.Rows), Notes: result.Notes}
	if result.Question != "" {
		out.Notes = append(out.Notes, result.Question)
	}
	for _, c := range result.Columns {
		out.Columns = append(out.Columns, &hindsightv1.InferredColumn{Name: c.Name, Kind: kindToProto(c.Kind), Reason: c.Reason, Notice: c.Notice() != ""})
	}
	if r.GetValues() {
		spec := r.GetSpec()
		if spec == nil {
			spec = result.Spec
		}
		out.Values, err = infer.Values(r.GetCsv(), csvField, o, spec)
	}
	return out, err
}

func kindToProto(k infer.Kind) hindsightv1.InferredColumn_Kind {
	switch k {
	case infer.Number:
		return hindsightv1.InferredColumn_KIND_NUMBER
	case infer.Boolean:
		return hindsightv1.InferredColumn_KIND_BOOLEAN
	case infer.Category:
		return hindsightv1.InferredColumn_KIND_CATEGORY
	case infer.Moment:
		return hindsightv1.InferredColumn_KIND_TIME
	case infer.Label:
		return hindsightv1.InferredColumn_KIND_LABEL
	case infer.Class:
		return hindsightv1.InferredColumn_KIND_CLASS
	case infer.LeftOut:
		return hindsightv1.InferredColumn_KIND_LEFT_OUT
	case infer.Text:
		return hindsightv1.InferredColumn_KIND_TEXT
	case infer.Vector:
		return hindsightv1.InferredColumn_KIND_VECTOR
	}
	return hindsightv1.InferredColumn_KIND_UNSPECIFIED
}
