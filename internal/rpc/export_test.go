package rpc

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/structpb"

	"hindsight/internal/model/input"
)

// The translation of specs, which the API shows only after defaults are
// filled in.
var (
	SpecFromProto = specFromProto
	SpecToProto   = specToProto
)

// StatsToProto is the translation of statistics.
var StatsToProto = statsToProto

// CallTimeout bounds the time of all calls that have a bound.
func CallTimeout(o *Options, timeout time.Duration) {
	o.admission = newAdmission(o.MemoryLimit)
	o.admission.predictionTimeout, o.admission.modelTimeout = timeout, timeout
}

// PeriodOf is the time between two outcomes at so many a second.
var PeriodOf = periodOf

// Sentinels are the errors of the table.
func Sentinels() []error {
	var out []error
	for _, r := range table() {
		out = append(out, r.err)
	}
	return out
}

// TableReasons are the reasons of the table, some of them more than once.
func TableReasons() []string {
	var out []string
	for _, r := range table() {
		out = append(out, r.reason)
	}
	return out
}

// Records are lent as a server lends them.
type Records struct{ records }

// Of is the record of a request's inputs.
func (r *Records) Of(schema *input.Schema, inputs *structpb.Struct) (*input.Record, error) {
	return r.of(schema, inputs)
}

// GiveBack takes a record back.
func (r *Records) GiveBack(record *input.Record) { r.giveBack(record) }

// PredictionToProto is a prediction as a client gets it.
var PredictionToProto = predictionToProto

// HeldBytes is what a request is counted with.
var HeldBytes = heldBytes

// RuledMethods are the methods that have a rule.
func RuledMethods() []string {
	var out []string
	for _, r := range rules() {
		out = append(out, r.method)
	}
	return out
}

// JudgeUnary is the interceptor that lets unary calls through.
func JudgeUnary(s *Server) grpc.UnaryServerInterceptor { return s.access.unary }
