package rpc

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"

	"hindsight/internal/auth"
)

// The translation of specs, which the API shows only after defaults are
// filled in.
var (
	SpecFromProto = specFromProto
	SpecToProto   = specToProto
)

// StatsToProto is the translation of statistics.
var StatsToProto = statsToProto

// WithCluster makes a server the member of a cluster of one group.
func WithCluster(o *Options, c Cluster) { o.Groups = Single(o.Groups.Of("").Engine, c) }

// CallTimeout bounds the time of all calls that have a bound.
func CallTimeout(o *Options, timeout time.Duration) {
	o.admission = newAdmission(o.MemoryLimit)
	o.admission.predictionTimeout, o.admission.modelTimeout, o.admission.importTimeout = timeout, timeout, timeout
}

// Sentinels are the errors of the table.
func Sentinels() []error {
	var out []error
	for _, r := range table() {
		out = append(out, r.err)
	}
	return out
}

// RecordOf is the record of a request's inputs.
var RecordOf = recordOf

// HeldBytes is what a request is counted with.
var HeldBytes = heldBytes

// RuledMethods are the methods that have a rule.
func RuledMethods() []string { return slices.Sorted(maps.Keys(rules())) }

// NeededRole is the role that a call needs.
func NeededRole(method string) auth.Role { return rules()[method].role }

// IsOfEveryModel reports whether a call is about all models.
func IsOfEveryModel(method string) bool { return rules()[method].everyModel }

// AccessTable is the table of rules in Markdown: the calls of the API in the order of the
// proto files, then the others by name. Calls of a service with the same rules share a row.
func AccessTable() string {
	all := rules()
	var order []string
	for _, service := range services() {
		for n := range service.Methods().Len() {
			order = append(order, fmt.Sprintf("/%s/%s", service.FullName(), service.Methods().Get(n).Name()))
		}
	}
	for _, method := range slices.Sorted(maps.Keys(all)) {
		if !slices.Contains(order, method) {
			order = append(order, method)
		}
	}
	var b strings.Builder
	b.WriteString("| call | minimum role | the models that it names | left out of the answer | audited |\n" +
		"|---|---|---|---|---|\n")
	var rows []string
	calls := map[string][]string{}
	for _, method := range order {
		r := all[method]
		service, name, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
		var b strings.Builder
		fmt.Fprintf(&b, "| %s", r.role)
		if r.unremembered != auth.None {
			fmt.Fprintf(&b, "; %s with `remember: false`", r.unremembered)
		}
		b.WriteByte(' ')
		var models []string
		for _, path := range r.models {
			var names []string
			for _, field := range path {
				names = append(names, string(field.Name()))
			}
			models = append(models, "`"+strings.Join(names, ".")+"`")
		}
		if r.everyModel {
			models = []string{"all"}
		}
		audited := "rejections"
		switch {
		case r.audit:
			audited = "yes"
		case r.role == auth.None:
			audited = ""
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", strings.Join(models, ", "), r.omits, audited)
		row := strings.TrimPrefix(service, "hindsight.v1.") + " " + b.String()
		if calls[row] == nil {
			rows = append(rows, row)
		}
		calls[row] = append(calls[row], name)
	}
	for _, row := range rows {
		service, rules, _ := strings.Cut(row, " ")
		fmt.Fprintf(&b, "| %s: %s %s", service, strings.Join(calls[row], ", "), rules)
	}
	return b.String()
}

// CheckUnary is the interceptor that lets unary calls through.
func CheckUnary(s *Server) grpc.UnaryServerInterceptor { return s.access.unary }
