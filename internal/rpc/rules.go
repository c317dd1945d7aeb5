package rpc

import (
	"fmt"
	"strings"

	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionv1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/auth"
)

// rule says who may make a call. A call of the API states its rule in the proto files.
type rule struct {
	// request and answer are the messages of a call of the API, nil for other calls.
	request, answer    protoreflect.MessageType
	role, unremembered auth.Role
	audit              bool
	// models lead to the fields of the request that name a model or an alias.
	models []path
	// predicts: the handler itself checks the model that the alias names.
	predicts   bool
	everyModel bool
	// omits is the text of the option, for the documentation.
	omits string
}

func services() []protoreflect.ServiceDescriptor {
	return []protoreflect.ServiceDescriptor{
		hindsightv1.File_hindsight_v1_prediction_proto.Services().ByName("PredictionService"),
		hindsightv1.File_hindsight_v1_model_proto.Services().ByName("ModelService"),
		hindsightv1.File_hindsight_v1_cluster_proto.Services().ByName("ClusterService"),
	}
}

// rules returns the rule of every call, by the full name of its method. A call of the API
// without the option hindsight.v1.access has no rule, and no caller may make it.
func rules() map[string]*rule {
	out := map[string]*rule{
		healthv1.Health_Check_FullMethodName:                                   {},
		healthv1.Health_List_FullMethodName:                                    {},
		healthv1.Health_Watch_FullMethodName:                                   {},
		reflectionv1.ServerReflection_ServerReflectionInfo_FullMethodName:      {role: auth.Read},
		reflectionv1alpha.ServerReflection_ServerReflectionInfo_FullMethodName: {role: auth.Read},
	}
	for n, service := range services() {
		for m := range service.Methods().Len() {
			method := service.Methods().Get(m)
			option, _ := proto.GetExtension(method.Options(), hindsightv1.E_Access).(*hindsightv1.Access)
			if option.GetRole() == hindsightv1.Access_ROLE_UNSPECIFIED {
				continue
			}
			r := &rule{
				request: messageType(method.Input()), answer: messageType(method.Output()),
				role: auth.Role(option.GetRole()), unremembered: auth.Role(option.GetUnremembered()),
				audit: option.GetAudit(), omits: option.GetOmits(), predicts: n == 0,
				everyModel: option.GetEveryModel(),
			}
			for _, name := range option.GetModels() {
				r.models = append(r.models, newPath(method.Input(), name))
			}
			out[fmt.Sprintf("/%s/%s", service.FullName(), method.Name())] = r
		}
	}
	return out
}

// messageType returns the type of a message, which the generated code has registered.
func messageType(d protoreflect.MessageDescriptor) protoreflect.MessageType {
	t, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		panic("rpc: " + err.Error())
	}
	return t
}

type path []protoreflect.FieldDescriptor

func newPath(message protoreflect.MessageDescriptor, names string) path {
	var p path
	for name := range strings.SplitSeq(names, ".") {
		f := message.Fields().ByName(protoreflect.Name(name))
		if f == nil {
			panic(fmt.Sprintf("rpc: %s has no field %s", message.FullName(), name))
		}
		p, message = append(p, f), f.Message()
	}
	return p
}

func (p path) in(m protoreflect.Message) string {
	for _, f := range p[:len(p)-1] {
		m = m.Get(f).Message()
	}
	return m.Get(p[len(p)-1]).String()
}

func (r *rule) names(to []string, request any) []string {
	m, ok := request.(proto.Message)
	if r == nil || !ok {
		return to
	}
	for _, path := range r.models {
		if name := path.in(m.ProtoReflect()); name != "" {
			to = append(to, name)
		}
	}
	return to
}
