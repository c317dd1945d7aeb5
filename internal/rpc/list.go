package rpc

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/auth"
	"hindsight/internal/engine"
	"hindsight/internal/model"
)

// maxPage is the default and the largest page of ListModels.
const maxPage = 1000

func (m *models) ListModels(ctx context.Context, r *hindsightv1.ListModelsRequest) (*hindsightv1.ListModelsResponse, error) {
	size := int(r.GetPageSize())
	var sizeErr error
	if size < 0 {
		sizeErr = &model.FieldError{Field: "page_size", Err: engine.ErrInvalidRequest, Got: strconv.Itoa(size), Want: "0 or more"}
	}
	if size == 0 || size > maxPage {
		size = maxPage
	}
	order, descending, orderErr := orderFromProto(r.GetOrderBy())
	after, tokenErr := cursorFromToken(r.GetPageToken(), r.GetOrderBy())
	if err := model.JoinFields(sizeErr, tokenErr, orderErr); err != nil {
		return nil, err
	}
	e, err := m.groups.engine("")
	if err != nil {
		return nil, err
	}
	page, err := e.ListModels(ctx, engine.ListOptions{
		Prefix: r.GetPrefix(), Contains: r.GetContains(), Learner: r.GetLearner(), Labels: r.GetLabels(), Deleted: r.GetShowDeleted(),
		Among: auth.FromContext(ctx).Prefixes(),
		Order: order, Descending: descending, After: after, Limit: size, Figures: r.GetIncludeSummary(),
	})
	if err != nil {
		return nil, err
	}
	response := &hindsightv1.ListModelsResponse{TotalSize: int64(page.Total)}
	if page.Next != nil {
		response.NextPageToken = tokenOf(page.Next, r.GetOrderBy())
	}
	for n := range page.Models {
		response.Models = append(response.Models, infoToProto(&page.Models[n]))
	}
	return response, nil
}

// orders are those of ListModels by name.
func orders() map[string]engine.Order {
	return map[string]engine.Order{
		"id": engine.ByID, "sequence": engine.BySequence, "create_time": engine.ByCreated, "recent_loss": engine.ByRecentLoss,
		"recent_skill": engine.ByRecentSkill, "regret": engine.ByRegret, "observation_rate": engine.ByRate,
	}
}

// orderFromProto reads order_by: a name, then nothing, " asc" or " desc".
func orderFromProto(text string) (order engine.Order, descending bool, err error) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return engine.ByID, false, nil
	}
	order, ok := orders()[words[0]]
	if len(words) == 2 {
		descending = words[1] == "desc"
		ok = ok && (descending || words[1] == "asc")
	}
	if !ok || len(words) > 2 {
		return 0, false, &model.FieldError{
			Field: "order_by", Err: engine.ErrInvalidRequest, Got: fmt.Sprintf("%.80q", text),
			Want: `id, sequence, create_time, recent_loss, recent_skill, regret or observation_rate, with " desc" behind it for the largest first`,
		}
	}
	return order, descending, nil
}

// tokenOf is the page token of a cursor: its key, the order of the list, and the id.
func tokenOf(c *engine.Cursor, order string) string {
	token := binary.BigEndian.AppendUint64(nil, c.Key)
	token = append(append(token, strings.Join(strings.Fields(order), " ")...), 0)
	return base64.RawURLEncoding.EncodeToString(append(token, c.ID...))
}

// cursorFromToken reads the token of a page in the same order, nil without a token.
func cursorFromToken(token, order string) (*engine.Cursor, error) {
	if token == "" {
		return nil, nil
	}
	bytes, err := base64.RawURLEncoding.DecodeString(token)
	if err == nil && len(bytes) > 8 {
		of, id, ok := strings.Cut(string(bytes[8:]), "\x00")
		if ok && of == strings.Join(strings.Fields(order), " ") && engine.CheckID(id) == nil {
			return &engine.Cursor{Key: binary.BigEndian.Uint64(bytes), ID: id}, nil
		}
	}
	return nil, &model.FieldError{
		Field: "page_token", Err: engine.ErrInvalidRequest,
		Got: fmt.Sprintf("%.80q", token), Want: "the next_page_token of the page before, with the same order_by",
	}
}

// figuresToProto omits unknown figures.
func figuresToProto(f *engine.Figures) *hindsightv1.ModelSummary {
	out := &hindsightv1.ModelSummary{State: hindsightv1.ModelSummary_State(f.State), ObservationRate: f.Rate}
	if !f.Known {
		return out
	}
	if f.Time > 0 {
		out.ObserveTime = momentToProto(f.Time)
	}
	out.Recent = performanceToProto(f.Recent, f.Classes == nil)
	if f.Classes != nil {
		out.RecentClasses = classPerformanceToProto(*f.Classes)
	}
	if !math.IsNaN(f.Regret) {
		out.Regret = &f.Regret
	}
	return out
}
