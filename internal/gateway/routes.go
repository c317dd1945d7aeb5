package gateway

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

type route struct {
	segments []string
	// verb follows the colon at the end of the path.
	verb  string
	calls map[string]*call
}

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
	handle     func(w http.ResponseWriter, r *http.Request, c *call) error
}

func messageType(m protoreflect.MessageDescriptor) protoreflect.MessageType {
	t, err := protoregistry.GlobalTypes.FindMessageByName(m.FullName())
	if err != nil {
		panic("gateway: " + err.Error())
	}
	return t
}

// routes are the routes of the option google.api.http of each call, an export and an import.
// Routes with a verb come first: a name in braces would match their verb.
func (g *Gateway) routes() []*route {
	byPath := map[string]*route{}
	add := func(method, path, body string, rpc protoreflect.MethodDescriptor, handle func(http.ResponseWriter, *http.Request, *call) error) {
		prefix, verb, _ := strings.Cut(path, ":")
		c := &call{
			name: fmt.Sprintf("/%s/%s", rpc.Parent().FullName(), rpc.Name()), request: messageType(rpc.Input()), response: messageType(rpc.Output()),
			body: body, fields: map[int]string{}, verb: verb, handle: handle,
		}
		segments, taken := strings.Split(prefix, "/"), []string{body}
		for n, s := range segments {
			if name, ok := strings.CutPrefix(s, "{"); ok {
				c.fields[n] = strings.TrimSuffix(name, "}")
				root, _, _ := strings.Cut(c.fields[n], ".")
				segments[n], taken = "{"+root+"}", append(taken, root)
			}
		}
		for n := range rpc.Input().Fields().Len() {
			f := rpc.Input().Fields().Get(n)
			if body == "*" || f.Kind() == protoreflect.BytesKind || slices.Contains(taken, string(f.Name())) {
				continue
			}
			c.parameters = append(c.parameters, f)
		}
		key := strings.Join(segments, "/") + ":" + verb
		if byPath[key] == nil {
			byPath[key] = &route{segments: segments, verb: verb, calls: map[string]*call{}}
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

// setEtag sets the etag that must match from the header If-Match. It rejects an empty one, which
// the call would take for none.
func (c *call) setEtag(r *http.Request, request protoreflect.Message) error {
	const name = "If-Match"
	headers := r.Header.Values(name)
	got := strings.Join(headers, ", ")
	if len(headers) == 0 || got == "*" || isSafe(r.Method) {
		return nil
	}
	if c.body != "" && c.body != "*" {
		request = request.Mutable(request.Descriptor().Fields().ByName(protoreflect.Name(c.body))).Message()
	}
	f := request.Descriptor().Fields().ByName("etag")
	if f == nil {
		return badParameter(name, fmt.Sprintf("%s: got %q, want nothing: PATCH and DELETE of a model alone have an etag", name, got))
	}
	tag := strings.Trim(got, `"`)
	if tag == "" {
		return badParameter(name, fmt.Sprintf("%s: got %q, want the etag of the model", name, got))
	}
	if given := request.Get(f).String(); given != "" && given != tag {
		return badParameter(name, fmt.Sprintf("%s: got %q, want the request's etag %q, or one of them", name, got, given))
	}
	request.Set(f, protoreflect.ValueOfString(tag))
	return nil
}

// setPath sets the fields that the path holds. It rejects a body that holds other values.
func (c *call) setPath(path string, request protoreflect.Message) error {
	if c.verb != "" {
		path = strings.TrimSuffix(path, ":"+c.verb)
	}
	segments := strings.Split(path, "/")
	for n, name := range c.fields {
		m, value := request, segments[n]
		for outer, inner, nested := strings.Cut(name, "."); nested; outer, inner, nested = strings.Cut(name, ".") {
			m, name = m.Mutable(m.Descriptor().Fields().ByName(protoreflect.Name(outer))).Message(), inner
		}
		f := m.Descriptor().Fields().ByName(protoreflect.Name(name))
		if got := m.Get(f).String(); got != "" && got != value {
			return invalidJSON(fmt.Sprintf("%s: got %.80q, want %q as in the path, or nothing", name, got, value))
		}
		m.Set(f, protoreflect.ValueOfString(value))
	}
	return nil
}

func (c *call) setQuery(r *http.Request, request protoreflect.Message) error {
	if r.URL.RawQuery == "" {
		return nil
	}
	given, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return badParameter("", "the query: "+err.Error())
	}
	seen := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		f, key := c.parameter(name)
		if f == nil {
			return badParameter(name, fmt.Sprintf("the query: got %q, want %s", name, c.parameterNames()))
		}
		place := f.JSONName() + "[" + key
		if other, twice := seen[place]; twice || len(given[name]) > 1 {
			return badParameter(name, fmt.Sprintf("the query: got %s more than once, want it once", cmp.Or(other, name)))
		}
		seen[place] = name
		value, field := given.Get(name), name
		if f.Message() != nil && !f.IsMap() {
			field = string(f.Name())
		}
		one := url.Values{name: {value}}
		if !utf8.ValidString(value) || runtime.PopulateQueryParameters(request.Interface(), one, utilities.NewDoubleArray(nil)) != nil {
			return badParameter(field, fmt.Sprintf("%s: got %.80q, want %s", name, value, wantOf(f)))
		}
	}
	return nil
}

func (c *call) parameter(name string) (f protoreflect.FieldDescriptor, key string) {
	plain, key, isMap := strings.Cut(name, "[")
	if isMap {
		var closed bool
		if key, closed = strings.CutSuffix(key, "]"); !closed || key == "" || strings.ContainsAny(key, "[]") {
			return nil, ""
		}
	}
	for _, f := range c.parameters {
		if (plain == f.JSONName() || plain == string(f.Name())) && isMap == f.IsMap() {
			return f, key
		}
	}
	return nil, ""
}

func (c *call) parameterNames() string {
	if len(c.parameters) == 0 {
		return "no parameter"
	}
	var names []string
	for _, f := range c.parameters {
		name := f.JSONName()
		if f.IsMap() {
			name += "[KEY]"
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

func wantOf(f protoreflect.FieldDescriptor) string {
	switch {
	case f.IsMap() || f.Kind() == protoreflect.StringKind:
		return "a text of UTF-8"
	case f.Message() != nil:
		return "a time with its unit, as 2s"
	case f.Kind() == protoreflect.BoolKind:
		return "true or false"
	case f.Kind() == protoreflect.DoubleKind:
		return "a number"
	case f.Kind() == protoreflect.Uint32Kind:
		return "an integer of 32 bits, 0 or more"
	default:
		return "an integer of 32 bits"
	}
}

func badParameter(name, message string) *failure {
	return invalid(name, hindsightv1.ErrorReason_INVALID_PARAMETER, message)
}
