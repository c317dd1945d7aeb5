package rpc

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/auth"
	"hindsight/internal/engine"
	"hindsight/internal/model"
)

// maxPage is the default and the largest page of ListModels.
const maxPage = 1000

func listOptions(ctx context.Context, r *hindsightv1.ListModelsRequest) (engine.ListOptions, error) {
	size := int(r.GetPageSize())
	var sizeErr error
	if size < 0 {
		sizeErr = engine.Invalid("page_size", strconv.Itoa(size), "0 or more")
	}
	if size == 0 || size > maxPage {
		size = maxPage
	}
	order, descending, orderErr := orderFromProto(r.GetOrderBy())
	after, tokenErr := cursorFromToken(r.GetPageToken(), r.GetOrderBy())
	return engine.ListOptions{
		Prefix: r.GetPrefix(), Contains: r.GetContains(), Learner: r.GetLearner(), Labels: r.GetLabels(), Deleted: r.GetShowDeleted(),
		Among: auth.FromContext(ctx).Prefixes(),
		Order: order, Descending: descending, After: after, Limit: size, Figures: r.GetIncludeSummary(),
	}, model.JoinFields(sizeErr, tokenErr, orderErr)
}

// ListModels merges the lists of all groups. A list of a group that this server has a copy of is made here.
func (m *models) ListModels(ctx context.Context, r *hindsightv1.ListModelsRequest) (*hindsightv1.ListModelsResponse, error) {
	o, err := listOptions(ctx, r)
	if err != nil {
		return nil, err
	}
	groups, err := m.listedGroups(ctx)
	if err != nil {
		return nil, err
	}
	// Models are spread evenly over groups, so most pages need twice the mean of each group and a few.
	list := merged{models: m, request: r, chunk: min(o.Limit, 2*o.Limit/len(groups)+8)}
	for _, g := range groups {
		list.parts = append(list.parts, &listPart{group: g, token: r.GetPageToken(), more: true})
	}
	response, last := new(hindsightv1.ListModelsResponse), engine.Cursor{}
	var keys []byte
	for len(response.GetModels()) < o.Limit {
		if err := list.fill(ctx); err != nil {
			return nil, err
		}
		next := list.next(&o)
		if next == nil {
			break
		}
		last = next.head()
		keys = binary.BigEndian.AppendUint64(keys, last.Key)
		response.Models = append(response.Models, next.models[0])
		next.models, next.keys = next.models[1:], next.keys[1:]
	}
	for _, p := range list.parts {
		response.TotalSize += p.total
		if len(p.models) > 0 || p.more {
			response.NextPageToken = tokenOf(&last, r.GetOrderBy())
		}
	}
	if m.forward != nil && m.forward.member {
		_ = grpc.SetTrailer(ctx, metadata.MD{keysKey: {string(keys)}})
	}
	return response, nil
}

// keysKey is the metadata key of the keys of the models in a forwarded list, eight bytes each. A summary that is
// computed after the key may differ from the key.
const keysKey = "hindsight-keys-bin"

type merged struct {
	models  *models
	request *hindsightv1.ListModelsRequest
	// chunk is the number of models in one request to a group.
	chunk int
	parts []*listPart
}

type listPart struct {
	group Group
	// models are read and not merged yet. keys are their keys.
	models []*hindsightv1.Model
	keys   []uint64
	// token leads to the next models. more is false after the last.
	token string
	more  bool
	total int64
}

func (p *listPart) head() engine.Cursor {
	return engine.Cursor{Key: p.keys[0], ID: p.models[0].GetId()}
}

// fill reads the parts whose models are all merged.
func (l *merged) fill(ctx context.Context) error {
	asking, each := errgroup.WithContext(ctx)
	asking.SetLimit(asksAtOnce)
	for _, p := range l.parts {
		if len(p.models) == 0 && p.more {
			asking.Go(func() (err error) {
				for len(p.models) == 0 && p.more && err == nil { // All models of a page may be deleted meanwhile.
					err = l.read(each, p)
				}
				return err
			})
		}
	}
	return asking.Wait()
}

// next returns the part with the next model of the list, nil at its end.
func (l *merged) next(o *engine.ListOptions) *listPart {
	var next *listPart
	for _, p := range l.parts {
		if len(p.models) > 0 && (next == nil || o.Compare(p.head(), next.head()) < 0) {
			next = p
		}
	}
	return next
}

func (l *merged) read(ctx context.Context, p *listPart) error {
	r := proto.CloneOf(l.request)
	r.PageSize, r.PageToken = int32(l.chunk), p.token
	var trailer metadata.MD
	answer, err := l.models.ask(ctx, p.group, hindsightv1.ModelService_ListModels_FullMethodName, r, func(e *engine.Engine) (any, error) {
		var response *hindsightv1.ListModelsResponse
		var err error
		response, p.keys, err = listHere(ctx, e, r)
		return response, err
	}, grpc.Trailer(&trailer))
	if err != nil {
		return err
	}
	response, _ := answer.(*hindsightv1.ListModelsResponse)
	p.models, p.token, p.total = response.GetModels(), response.GetNextPageToken(), response.GetTotalSize()
	p.more = p.token != ""
	if sent := trailer.Get(keysKey); len(sent) > 0 {
		for keys := []byte(sent[0]); len(keys) >= 8; keys = keys[8:] {
			p.keys = append(p.keys, binary.BigEndian.Uint64(keys))
		}
	}
	if len(p.keys) != len(p.models) {
		return fmt.Errorf("rpc: group %d has sent %d keys of %d models", p.group.Number, len(p.keys), len(p.models))
	}
	return nil
}

func listHere(ctx context.Context, e *engine.Engine, r *hindsightv1.ListModelsRequest) (*hindsightv1.ListModelsResponse, []uint64, error) {
	o, err := listOptions(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	page, err := e.ListModels(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	response := &hindsightv1.ListModelsResponse{TotalSize: int64(page.Total)}
	if page.Next != nil {
		response.NextPageToken = tokenOf(page.Next, r.GetOrderBy())
	}
	for n := range page.Models {
		response.Models = append(response.Models, infoToProto(&page.Models[n]))
	}
	return response, page.Keys, nil
}

func orders() map[string]engine.Order {
	return map[string]engine.Order{
		"id": engine.ByID, "sequence": engine.BySequence, "create_time": engine.ByCreated, "recent_loss": engine.ByRecentLoss,
		"recent_skill": engine.ByRecentSkill, "regret": engine.ByRegret, "observation_rate": engine.ByRate, "health": engine.ByHealth,
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
		return 0, false, engine.Invalid("order_by", fmt.Sprintf("%.80q", text),
			`id, sequence, create_time, recent_loss, recent_skill, regret, observation_rate or health, with " desc" behind it for the largest first`)
	}
	return order, descending, nil
}

func tokenOf(c *engine.Cursor, order string) string {
	token := binary.BigEndian.AppendUint64(nil, c.Key)
	token = append(append(token, strings.Join(strings.Fields(order), " ")...), 0)
	return base64.RawURLEncoding.EncodeToString(append(token, c.ID...))
}

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
	return nil, engine.Invalid("page_token", fmt.Sprintf("%.80q", token), "the next_page_token of the page before, with the same order_by")
}

func figuresToProto(f *engine.Figures) *hindsightv1.ModelSummary {
	out := &hindsightv1.ModelSummary{State: hindsightv1.ModelSummary_State(f.State), ObservationRate: f.Rate}
	if !f.Known {
		return out
	}
	if f.Time > 0 {
		out.ObserveTime = momentToProto(f.Time)
	}
	out.Recent = performanceToProto(f.Recent, f.Classes == nil)
	out.RecentClasses = classPerformanceToProto(f.Classes)
	out.Regret = known(f.Regret)
	return out
}
