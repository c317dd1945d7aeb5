package gateway

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
)

// A route is a path of the OpenAPI document.
type route struct {
	segments []string
	// verb is what follows the colon at the end of the path.
	verb string
	// parameters are those of the query, by method. methods are sorted.
	parameters map[string][]parameter
	methods    []string
}

// parameter is one of a query.
type parameter struct {
	name string
	schema
}

// table are the routes of a document. Those with a verb are first: what is in braces
// would match the verb too.
func (d *document) table() []route {
	var out []route
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		prefix, verb, _ := strings.Cut(path, ":")
		r := route{segments: strings.Split(prefix, "/"), verb: verb, parameters: map[string][]parameter{}}
		for method, operation := range d.Paths[path] {
			known := []parameter{}
			for _, p := range operation.Parameters {
				if p.In == "query" {
					known = append(known, parameter{p.Name, p.Schema})
				}
			}
			r.parameters[strings.ToUpper(method)] = known
		}
		r.methods = slices.Sorted(maps.Keys(r.parameters))
		out = append(out, r)
	}
	slices.SortStableFunc(out, func(a, b route) int { return -strings.Compare(a.verb, b.verb) })
	return out
}

// find is the route of a path, nil when there is none.
func (g *Gateway) find(path string) *route {
	for i := range g.table {
		if g.table[i].matches(path, false) {
			return &g.table[i]
		}
	}
	return nil
}

// matches tells whether a path is one of the route. Nameless, its name may be empty.
func (r *route) matches(path string, nameless bool) bool {
	if r.verb != "" {
		var ok bool
		if path, ok = strings.CutSuffix(path, ":"+r.verb); !ok {
			return false
		}
	}
	segments := strings.Split(path, "/")
	return slices.EqualFunc(r.segments, segments, func(want, got string) bool {
		return want == got || (strings.HasPrefix(want, "{") && (got != "" || nameless))
	})
}

// missing is what a path does not name, "model" of /v1/models/:predict, empty if it names
// all.
func (g *Gateway) missing(path string) string {
	for i := range g.table {
		if r := &g.table[i]; r.matches(path, true) && !r.matches(path, false) {
			return strings.Trim(r.segments[3], "{}")
		}
	}
	return ""
}

// methodsOf are the methods that a path takes.
func (g *Gateway) methodsOf(path string) []string {
	if r := g.find(path); r != nil {
		return r.methods
	}
	return nil
}

// checkRoute refuses what would be ignored: a parameter that the call does not have, and
// a header that says when to make the call. It refuses GET of m:predict, which would be
// that of a model with this name.
func (g *Gateway) checkRoute(next runtime.HandlerFunc) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, path map[string]string) {
		methods := g.methodsOf(r.URL.Path)
		switch {
		case !utf8.ValidString(r.URL.Path):
			g.write(w, refuse(http.StatusBadRequest, codes.InvalidArgument, "INVALID_PATH", "the path is no UTF-8"))
			return
		case methods == nil:
			g.write(w, g.notFound(r))
			return
		case !slices.Contains(methods, r.Method):
			g.write(w, methodNotAllowed(w, r, methods))
			return
		}
		for _, name := range []string{"If-Match", "If-Unmodified-Since"} {
			if r.Header.Get(name) != "" && r.Method != http.MethodGet {
				g.write(w, badParameter(name, fmt.Sprintf("%s: got %q, want nothing: the etag is a field of the body of PATCH, and a parameter of DELETE", name, r.Header.Get(name))))
				return
			}
		}
		if r.URL.RawQuery != "" {
			if f, bad := g.badQuery(r); bad {
				g.write(w, f)
				return
			}
		}
		next(w, r, path)
	}
}

func (g *Gateway) badQuery(r *http.Request) (failure, bool) {
	given, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return badParameter("", "the query: "+err.Error()), true
	}
	var known []parameter
	if t := g.find(r.URL.Path); t != nil {
		known = t.parameters[r.Method]
	}
	seen := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		p, key := parameterOf(known, name)
		if p == nil {
			return badParameter(name, fmt.Sprintf("the query: got %q, want %s", name, namesOf(known))), true
		}
		if other, twice := seen[p.name+"["+key]; twice || len(given[name]) > 1 {
			return badParameter(name, fmt.Sprintf("the query: got %s more than once, want it once", cmp.Or(other, name))), true
		}
		seen[p.name+"["+key] = name
		if want := p.refuses(given.Get(name)); want != "" {
			return badParameter(name, fmt.Sprintf("%s: got %.80q, want %s", name, given.Get(name), want)), true
		}
	}
	return failure{}, false
}

// parameterOf is the parameter that a name in a query means, and the key in brackets of
// a map; nil if there is none.
func parameterOf(known []parameter, name string) (p *parameter, key string) {
	plain, key, isMap := strings.Cut(name, "[")
	if isMap {
		var closed bool
		if key, closed = strings.CutSuffix(key, "]"); !closed || key == "" || strings.ContainsAny(key, "[]") {
			return nil, ""
		}
	}
	for i := range known {
		if p := &known[i]; (plain == p.name || plain == snake(p.name)) && isMap == (p.Type == "object") {
			return p, key
		}
	}
	return nil, ""
}

// namesOf says what a query may have.
func namesOf(known []parameter) string {
	if len(known) == 0 {
		return "no parameter"
	}
	var names []string
	for _, p := range known {
		if p.Type == "object" {
			p.name += "[KEY]"
		}
		names = append(names, p.name)
	}
	return strings.Join(names, ", ")
}

// refuses says what the parameter wants instead of a value, empty if it takes it.
func (p *parameter) refuses(value string) (want string) {
	var err error
	switch p.Type {
	case "integer":
		want = "an integer of 32 bits" // There are no others.
		_, err = strconv.ParseInt(value, 10, 32)
	case "number":
		want = "a number"
		_, err = strconv.ParseFloat(value, 64)
	case "boolean":
		want = "true or false"
		_, err = strconv.ParseBool(value)
	default:
		want = "a text of UTF-8"
		if utf8.ValidString(value) {
			return ""
		}
		return want
	}
	if err == nil {
		return ""
	}
	return want
}

func badParameter(name, message string) failure {
	const reason = "INVALID_PARAMETER"
	return refuse(http.StatusBadRequest, codes.InvalidArgument, reason, message, &errdetails.BadRequest{
		FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: name, Description: message, Reason: reason}},
	})
}

// snake is pageSize as page_size.
func snake(camel string) string {
	var b strings.Builder
	for _, c := range camel {
		if unicode.IsUpper(c) {
			b.WriteByte('_')
			c = unicode.ToLower(c)
		}
		b.WriteRune(c)
	}
	return b.String()
}
