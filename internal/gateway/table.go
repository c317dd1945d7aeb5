package gateway

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
)

// A route is a path of the OpenAPI document.
type route struct {
	segments []string
	// verb is what follows the colon at the end of the path.
	verb string
	// parameters are the names in the query, by method. methods are sorted.
	parameters map[string][]string
	methods    []string
}

// table are the routes of a document. Those with a verb are first: what is in braces
// would match the verb too.
func (d *document) table() []route {
	var out []route
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		prefix, verb, _ := strings.Cut(path, ":")
		r := route{segments: strings.Split(prefix, "/"), verb: verb, parameters: map[string][]string{}}
		for method, operation := range d.Paths[path] {
			names := []string{}
			for _, p := range operation.Parameters {
				if p.In == "query" {
					names = append(names, p.Name)
				}
			}
			r.parameters[strings.ToUpper(method)] = names
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
		if g.table[i].matches(path) {
			return &g.table[i]
		}
	}
	return nil
}

// matches tells whether a path is one of the route.
func (r *route) matches(path string) bool {
	if r.verb != "" {
		var ok bool
		if path, ok = strings.CutSuffix(path, ":"+r.verb); !ok {
			return false
		}
	}
	segments := strings.Split(path, "/")
	return slices.EqualFunc(r.segments, segments, func(want, got string) bool {
		return want == got || (strings.HasPrefix(want, "{") && got != "")
	})
}

// methodsOf are the methods that a path takes.
func (g *Gateway) methodsOf(path string) []string {
	if r := g.find(path); r != nil {
		return r.methods
	}
	return nil
}

// checkRoute refuses a parameter that the call does not have, which would be ignored,
// and GET of m:predict, which would be that of a model with this name.
func (g *Gateway) checkRoute(next runtime.HandlerFunc) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, path map[string]string) {
		if methods := g.methodsOf(r.URL.Path); !slices.Contains(methods, r.Method) {
			write(w, methodNotAllowed(w, r, methods))
			return
		}
		if r.URL.RawQuery != "" {
			if f, bad := g.badQuery(r); bad {
				write(w, f)
				return
			}
		}
		next(w, r, path)
	}
}

func (g *Gateway) badQuery(r *http.Request) (failure, bool) {
	given, err := parseQuery(r)
	if err != nil {
		return badParameter("", err.Error()), true
	}
	var known []string
	if t := g.find(r.URL.Path); t != nil {
		known = t.parameters[r.Method]
	}
	for _, name := range given {
		plain, _, isMap := strings.Cut(name, "[")
		if isMap && !strings.HasSuffix(name, "]") {
			plain = name
		}
		if !slices.ContainsFunc(known, func(k string) bool { return plain == k || plain == snake(k) }) {
			want := "no parameter"
			if len(known) > 0 {
				want = strings.Join(known, ", ")
			}
			return badParameter(name, fmt.Sprintf("the query: got %q, want %s", name, want)), true
		}
	}
	return failure{}, false
}

// parseQuery are the names in the query, sorted.
func parseQuery(r *http.Request) ([]string, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("the query: %w", err)
	}
	return slices.Sorted(maps.Keys(values)), nil
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
