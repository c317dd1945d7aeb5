package rpc

import (
	"fmt"
	"strings"

	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionv1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/protobuf/reflect/protoreflect"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/auth"
)

// rule says who may make a call.
type rule struct {
	// method is the full name.
	method string
	role   auth.Role
	// unremembered is the role that is enough for a prediction that is not remembered,
	// which leaves nothing behind.
	unremembered auth.Role
	// models are the fields of the request that name a model or an alias.
	models []string
	// control: the call is in the audit log.
	control bool
	// answer says what of the answer a principal does not see who does not see all models.
	answer string
}

// rules are those of every call. A test fails when one is missing.
func rules() []rule {
	model := []string{"model"}
	const noNames = "names of other models"
	return []rule{
		{method: hindsightv1.PredictionService_Predict_FullMethodName, role: auth.Write, unremembered: auth.Read, models: model},
		{method: hindsightv1.PredictionService_PredictBatch_FullMethodName, role: auth.Write, unremembered: auth.Read, models: model},
		{method: hindsightv1.PredictionService_Observe_FullMethodName, role: auth.Write, models: model},
		{method: hindsightv1.PredictionService_ObserveBatch_FullMethodName, role: auth.Write, models: model},
		// Each of its messages is judged as the Predict or the Observe that it is.
		{method: hindsightv1.PredictionService_Session_FullMethodName, role: auth.Read},

		{method: hindsightv1.ModelService_GetModel_FullMethodName, role: auth.Read, models: model, answer: noNames},
		{method: hindsightv1.ModelService_ListModels_FullMethodName, role: auth.Read, answer: "other models"},
		{method: hindsightv1.ModelService_GetModelStats_FullMethodName, role: auth.Read, models: model},
		{method: hindsightv1.ModelService_GetModelHistory_FullMethodName, role: auth.Read, models: model},
		{method: hindsightv1.ModelService_WatchModel_FullMethodName, role: auth.Read, models: model},
		{method: hindsightv1.ModelService_CompareModels_FullMethodName, role: auth.Read, models: model, answer: "other models"},
		{method: hindsightv1.ModelService_ValidateSpec_FullMethodName, role: auth.Read},
		{method: hindsightv1.ModelService_ListSnapshots_FullMethodName, role: auth.Read, models: model},
		{method: hindsightv1.ModelService_ListAliases_FullMethodName, role: auth.Read, answer: "aliases of other names, and of other models"},

		{method: hindsightv1.ModelService_CreateModel_FullMethodName, role: auth.Admin, models: []string{"id", "follows"}, control: true, answer: noNames},
		{method: hindsightv1.ModelService_UpdateModel_FullMethodName, role: auth.Admin, models: []string{"model.id"}, control: true, answer: noNames},
		{method: hindsightv1.ModelService_DeleteModel_FullMethodName, role: auth.Admin, models: model, control: true, answer: noNames},
		{method: hindsightv1.ModelService_UndeleteModel_FullMethodName, role: auth.Admin, models: model, control: true, answer: noNames},
		{method: hindsightv1.ModelService_SnapshotModel_FullMethodName, role: auth.Admin, models: model, control: true},
		{method: hindsightv1.ModelService_RestoreModel_FullMethodName, role: auth.Admin, models: model, control: true, answer: noNames},
		{method: hindsightv1.ModelService_ExportModel_FullMethodName, role: auth.Admin, models: model, control: true},
		{method: hindsightv1.ModelService_ImportModel_FullMethodName, role: auth.Admin, models: []string{"id"}, control: true, answer: noNames},
		{method: hindsightv1.ModelService_SetAlias_FullMethodName, role: auth.Admin, models: []string{"alias", "model", "expected_model"}, control: true, answer: noNames},
		{method: hindsightv1.ModelService_DeleteAlias_FullMethodName, role: auth.Admin, models: []string{"alias"}, control: true},

		{method: healthv1.Health_Check_FullMethodName},
		{method: healthv1.Health_List_FullMethodName},
		{method: healthv1.Health_Watch_FullMethodName},
		{method: reflectionv1.ServerReflection_ServerReflectionInfo_FullMethodName, role: auth.Read},
		{method: reflectionv1alpha.ServerReflection_ServerReflectionInfo_FullMethodName, role: auth.Read},
	}
}

// path are the fields from a request to a name.
type path []protoreflect.FieldDescriptor

// paths are those of the rule's models. It panics if the request has no such field.
func (r *rule) paths() []path {
	var out []path
	for _, name := range r.models {
		message := requestOf(r.method)
		var p path
		for field := range strings.SplitSeq(name, ".") {
			f := message.Fields().ByName(protoreflect.Name(field))
			if f == nil {
				panic(fmt.Sprintf("rpc: %s has no field %s", message.FullName(), field))
			}
			p = append(p, f)
			message = f.Message()
		}
		out = append(out, p)
	}
	return out
}

// requestOf describes the request of a method of the API.
func requestOf(method string) protoreflect.MessageDescriptor {
	service, name, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	for _, file := range []protoreflect.FileDescriptor{hindsightv1.File_hindsight_v1_prediction_proto, hindsightv1.File_hindsight_v1_model_proto} {
		if s := file.Services().ByName(protoreflect.FullName(service).Name()); s != nil {
			return s.Methods().ByName(protoreflect.Name(name)).Input()
		}
	}
	panic("rpc: " + method + " is not of the API")
}

// in is the name that the path leads to in a request.
func (p path) in(m protoreflect.Message) string {
	for _, f := range p[:len(p)-1] {
		m = m.Get(f).Message()
	}
	return m.Get(p[len(p)-1]).String()
}

// AccessTable is the table of rules in Markdown, with a column for each role.
func AccessTable() string {
	var b strings.Builder
	b.WriteString("| call | nobody | read | write | admin | the models that it names | left out of the answer | audited |\n" +
		"|---|---|---|---|---|---|---|---|\n")
	for _, r := range rules() {
		service, name, _ := strings.Cut(strings.TrimPrefix(r.method, "/"), "/")
		fmt.Fprintf(&b, "| %s.%s ", strings.TrimPrefix(service, "hindsight.v1."), name)
		for _, role := range []auth.Role{auth.None, auth.Read, auth.Write, auth.Admin} {
			switch {
			case role >= r.role:
				b.WriteString("| yes ")
			case r.unremembered != auth.None && role >= r.unremembered:
				b.WriteString("| `remember: false` ")
			default:
				b.WriteString("| no ")
			}
		}
		models := "`" + strings.Join(r.models, "`, `") + "`"
		if len(r.models) == 0 {
			models = ""
		}
		audited := "refusals"
		if r.control {
			audited = "yes"
		}
		if r.role == auth.None {
			audited = ""
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", models, r.answer, audited)
	}
	return b.String()
}
