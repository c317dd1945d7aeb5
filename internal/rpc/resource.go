package rpc

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/engine"
	"hindsight/internal/model"
)

func (m *models) UpdateModel(ctx context.Context, r *hindsightv1.UpdateModelRequest) (*hindsightv1.UpdateModelResponse, error) {
	if r.GetModel().GetId() == "" {
		return nil, &model.FieldError{Field: "model.id", Err: engine.ErrInvalidID, Got: "nothing", Want: "the id of a model"}
	}
	edit, err := editOf(r)
	if err != nil {
		return nil, err
	}
	info, err := m.groups.engine(r.GetModel().GetId()).UpdateModel(ctx, r.GetModel().GetId(), engine.UpdateOptions{
		ETag: r.GetModel().GetEtag(), Edit: edit, ValidateOnly: r.GetValidateOnly(),
	})
	if err != nil {
		return nil, model.FieldsAt(err, "model")
	}
	return &hindsightv1.UpdateModelResponse{Model: infoToProto(&info)}, nil
}

func (m *models) DeleteModel(ctx context.Context, r *hindsightv1.DeleteModelRequest) (*hindsightv1.DeleteModelResponse, error) {
	info, err := m.groups.engine(r.GetModel()).DeleteModel(ctx, r.GetModel(), engine.DeleteOptions{
		ETag: r.GetEtag(), Purge: r.GetPurge(), ValidateOnly: r.GetValidateOnly(),
	})
	if err != nil {
		return nil, err
	}
	response := new(hindsightv1.DeleteModelResponse)
	if info != nil {
		response.Model = infoToProto(info)
	}
	return response, nil
}

func (m *models) UndeleteModel(ctx context.Context, r *hindsightv1.UndeleteModelRequest) (*hindsightv1.UndeleteModelResponse, error) {
	info, err := m.groups.engine(r.GetModel()).UndeleteModel(ctx, r.GetModel())
	if err != nil {
		return nil, err
	}
	return &hindsightv1.UndeleteModelResponse{Model: infoToProto(&info)}, nil
}

type described interface {
	GetDisplayName() string
	GetLabels() map[string]string
	GetAnnotations() map[string]string
	GetLabelTtl() *durationpb.Duration
	GetMaxPendingLabels() int64
}

// metadataFromProto reads metadata. It checks only what the engine cannot see: a duration out of
// range, and a limit that is present and below 1. If limited, max_pending_labels is present.
func metadataFromProto(p described, limited bool) (engine.Metadata, error) {
	m := engine.Metadata{
		DisplayName: p.GetDisplayName(), Labels: p.GetLabels(), Annotations: p.GetAnnotations(), MaxPending: p.GetMaxPendingLabels(),
	}
	ttl, ttlErr := labelTTL(p.GetLabelTtl())
	m.LabelTTL = int64(ttl)
	var limitErr error
	if limited && m.MaxPending < 1 {
		limitErr = engine.Invalid("max_pending_labels", strconv.FormatInt(m.MaxPending, 10), "1 or more, or nothing for the server's limit")
		m.MaxPending = 0
	}
	return m, model.JoinFields(ttlErr, limitErr)
}

const changeable = "display_name, labels, annotations, label_ttl, max_pending_labels, labels.KEY or annotations.KEY"

func editOf(r *hindsightv1.UpdateModelRequest) (func(*engine.Metadata), error) {
	given, err := metadataFromProto(r.GetModel(), r.GetModel() != nil && r.GetModel().MaxPendingLabels != nil)
	if err = model.FieldsAt(err, "model"); err != nil {
		return nil, err
	}
	var edits []func(*engine.Metadata)
	var errs []error
	fields := r.GetModel().ProtoReflect().Descriptor().Fields()
	for _, path := range r.GetUpdateMask().GetPaths() {
		if field := fields.ByJSONName(path); field != nil {
			path = string(field.Name())
		}
		if edit := editAt(path, &given); edit != nil {
			edits = append(edits, edit)
			continue
		}
		field, _, _ := strings.Cut(path, ".")
		got, want := fmt.Sprintf("%q, which is no field of a model", path), changeable
		if fields.ByName(protoreflect.Name(field)) != nil {
			got, want = fmt.Sprintf("%q, which is fixed", path), changeable+"; for another spec create another model"
		}
		errs = append(errs, engine.Invalid("update_mask", got, want))
	}
	if len(edits)+len(errs) == 0 {
		errs = append(errs, engine.Invalid("update_mask", "nothing", changeable))
	}
	return func(m *engine.Metadata) {
		for _, edit := range edits {
			edit(m)
		}
	}, model.JoinFields(errs...)
}

// editAt returns the change of one path, nil if the path is fixed.
func editAt(path string, given *engine.Metadata) func(*engine.Metadata) {
	switch path {
	case "*":
		return func(m *engine.Metadata) { *m = given.Clone() }
	case "display_name":
		return func(m *engine.Metadata) { m.DisplayName = given.DisplayName }
	case "labels":
		return func(m *engine.Metadata) { m.Labels = given.Clone().Labels }
	case "annotations":
		return func(m *engine.Metadata) { m.Annotations = given.Clone().Annotations }
	case "label_ttl":
		return func(m *engine.Metadata) { m.LabelTTL = given.LabelTTL }
	case "max_pending_labels":
		return func(m *engine.Metadata) { m.MaxPending = given.MaxPending }
	}
	switch field, key, _ := strings.Cut(path, "."); {
	case key == "":
		return nil
	case field == "labels":
		return func(m *engine.Metadata) { m.Labels = put(m.Labels, given.Labels, key) }
	case field == "annotations":
		return func(m *engine.Metadata) { m.Annotations = put(m.Annotations, given.Annotations, key) }
	}
	return nil
}

func put(texts, given map[string]string, key string) map[string]string {
	value, ok := given[key]
	if !ok {
		delete(texts, key)
		return texts
	}
	if texts == nil {
		texts = map[string]string{}
	}
	texts[key] = value
	return texts
}
