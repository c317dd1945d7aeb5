package gateway

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// route is a path and its calls by HTTP method.
type route struct {
	segments []string
	// verb follows the colon at the end of the path.
	verb  string
	calls map[string]*call
}

// call is a call of the gRPC services as one method of HTTP at one path makes it.
type call struct {
	// name is the name of the call in gRPC, and request and response are its messages.
	name              string
	request, response protoreflect.MessageType
	// body is the field of the request that the body holds, "*" for the request itself, empty
	// for a call without a body of JSON.
	body string
	// fields are the fields of the request that the path holds, by segment. verb ends the path.
	fields     map[int]string
	verb       string
	parameters []protoreflect.FieldDescriptor
	handle     handler
}

type handler = func(w http.ResponseWriter, r *http.Request, c *call) error

func messageType(m protoreflect.MessageDescriptor) protoreflect.MessageType {
	t, err := protoregistry.GlobalTypes.FindMessageByName(m.FullName())
	if err != nil {
		panic("gateway: " + err.Error())
	}
	return t
}

// newCall returns the call of a path such as /v1/models/{model}:predict, and the segments of the path. A segment of a
// nested field, such as {model.id}, is the segment of its outer field.
func newCall(path, body string, rpc protoreflect.MethodDescriptor, handle handler) (c *call, segments []string) {
	prefix, verb, _ := strings.Cut(path, ":")
	c = &call{
		name: fmt.Sprintf("/%s/%s", rpc.Parent().FullName(), rpc.Name()), request: messageType(rpc.Input()), response: messageType(rpc.Output()),
		body: body, fields: map[int]string{}, verb: verb, handle: handle,
	}
	segments, taken := strings.Split(prefix, "/"), []string{body}
	for n, s := range segments {
		if name, ok := strings.CutPrefix(s, "{"); ok {
			c.fields[n] = strings.TrimSuffix(name, "}")
			outer, _, _ := strings.Cut(c.fields[n], ".")
			segments[n], taken = "{"+outer+"}", append(taken, outer)
		}
	}
	for n := range rpc.Input().Fields().Len() {
		f := rpc.Input().Fields().Get(n)
		if body != "*" && f.Kind() != protoreflect.BytesKind && !slices.Contains(taken, string(f.Name())) {
			c.parameters = append(c.parameters, f)
		}
	}
	return c, segments
}

// routes are the routes of the option google.api.http of each call, an export and an import.
// Routes with a verb come first: a name in braces would match their verb.
func (g *Gateway) routes() []*route {
	byPath := map[string]*route{}
	add := func(method, path, body string, rpc protoreflect.MethodDescriptor, handle handler) {
		c, segments := newCall(path, body, rpc, handle)
		key := strings.Join(segments, "/") + ":" + c.verb
		if byPath[key] == nil {
			byPath[key] = &route{segments: segments, verb: c.verb, calls: map[string]*call{}}
		}
		byPath[key].calls[method] = c
		if method == http.MethodGet && !rpc.IsStreamingServer() {
			byPath[key].calls[http.MethodHead] = c // net/http drops the body.
		}
	}
	models := hindsightv1.File_hindsight_v1_model_proto.Services().Get(0)
	for _, service := range []protoreflect.ServiceDescriptor{
		hindsightv1.File_hindsight_v1_prediction_proto.Services().Get(0), models, hindsightv1.File_hindsight_v1_cluster_proto.Services().Get(0),
	} {
		for n := range service.Methods().Len() {
			m := service.Methods().Get(n)
			rule, _ := proto.GetExtension(m.Options(), annotations.E_Http).(*annotations.HttpRule)
			handle := g.unary
			if m.IsStreamingServer() {
				handle = g.events
			}
			if method, path := pathOf(rule); path != "" {
				add(method, path, rule.GetBody(), m, handle)
			}
		}
	}
	add(http.MethodGet, "/v1/models/{model}:export", "", models.Methods().ByName("ExportModel"), g.export)
	add(http.MethodPost, "/v1/models:import", "", models.Methods().ByName("ImportModel"), g.importModel)
	return slices.SortedFunc(maps.Values(byPath), func(a, b *route) int {
		return cmp.Or(-strings.Compare(a.verb, b.verb), slices.Compare(a.segments, b.segments))
	})
}

func pathOf(rule *annotations.HttpRule) (method, path string) {
	switch p := rule.GetPattern().(type) {
	case *annotations.HttpRule_Get:
		return http.MethodGet, p.Get
	case *annotations.HttpRule_Put:
		return http.MethodPut, p.Put
	case *annotations.HttpRule_Post:
		return http.MethodPost, p.Post
	case *annotations.HttpRule_Delete:
		return http.MethodDelete, p.Delete
	case *annotations.HttpRule_Patch:
		return http.MethodPatch, p.Patch
	}
	return "", ""
}

// matches reports whether the route has the path. If nameless, names in the path may be
// empty. A colon begins a verb, and is in no name of a model.
func (t *route) matches(path string, nameless bool) bool {
	if t.verb != "" {
		var ok bool
		if path, ok = strings.CutSuffix(path, ":"+t.verb); !ok {
			return false
		}
	}
	return slices.EqualFunc(t.segments, strings.Split(path, "/"), func(want, got string) bool {
		return want == got || (strings.HasPrefix(want, "{") && (got != "" || nameless) && (want != "{model}" || !strings.Contains(got, ":")))
	})
}

func (g *Gateway) find(path string, nameless bool) *route {
	if n := slices.IndexFunc(g.table, func(t *route) bool { return t.matches(path, nameless) }); n >= 0 {
		return g.table[n]
	}
	return nil
}

// callOf finds the call of a request. It rejects a condition that the call would ignore.
func (g *Gateway) callOf(w http.ResponseWriter, r *http.Request) (*call, error) {
	if !utf8.ValidString(r.URL.Path) {
		return nil, reject(http.StatusBadRequest, codes.InvalidArgument, hindsightv1.ErrorReason_INVALID_PATH, "the path is not UTF-8")
	}
	t := g.find(r.URL.Path, false)
	if t == nil {
		return nil, g.notFound(r)
	}
	c := t.calls[r.Method]
	if c == nil {
		return nil, methodNotAllowed(w, r, slices.Sorted(maps.Keys(t.calls)))
	}
	const condition = "If-Unmodified-Since"
	if got := r.Header.Get(condition); got != "" && !isSafe(r.Method) {
		return nil, badParameter(condition, fmt.Sprintf("%s: got %q, want If-Match with the etag", condition, got))
	}
	return c, nil
}
