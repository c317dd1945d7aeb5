package rpc_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/docs/reference"
	"hindsight/internal/auth"
	"hindsight/internal/rpc"
)

// guarded is a server with tokens, whose principals are named by their tokens.
type guarded struct {
	*service
	auth  *auth.Authenticator
	mu    sync.Mutex
	audit []auth.Record
}

func guard(tb testing.TB, entries ...auth.Entry) *guarded {
	tb.Helper()
	g := &guarded{auth: auth.New(auth.Options{Now: time.Now})}
	g.auth.Set(entries)
	g.service = serve(tb, func(o *rpc.Options) {
		o.Auth, o.Now = g.auth, time.Now
		o.Audit = func(r *auth.Record) {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.audit = append(g.audit, *r)
		}
	})
	return g
}

// records are those of the audit log so far.
func (g *guarded) records() []auth.Record {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.audit)
}

// who is an entry whose token is its name.
func who(name string, role auth.Role, models ...string) auth.Entry {
	hash := auth.HashOf(name)
	return auth.Entry{Name: name, Role: role, Models: models, Hash: &hash}
}

// as is the context of a call by one of the principals; nobody is without a token.
func as(ctx context.Context, name string) context.Context {
	if name == "nobody" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+name)
}

// methods are those of the server, with their descriptors.
func (g *guarded) methods(tb testing.TB) []protoreflect.MethodDescriptor {
	tb.Helper()
	var out []protoreflect.MethodDescriptor
	for service, info := range g.server.GetServiceInfo() {
		d := must(protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service)))(tb)
		described, ok := d.(protoreflect.ServiceDescriptor)
		require.True(tb, ok, "%s is no service", service)
		for _, m := range info.Methods {
			out = append(out, described.Methods().ByName(protoreflect.Name(m.Name)))
		}
	}
	return out
}

func fullName(m protoreflect.MethodDescriptor) string {
	return fmt.Sprintf("/%s/%s", m.Parent().FullName(), m.Name())
}

func TestEveryMethodHasARule(t *testing.T) {
	g := guard(t)
	have := map[string]bool{}
	for _, m := range g.methods(t) {
		have[fullName(m)] = true
	}
	ruled := rpc.RuledMethods()
	slices.Sort(ruled)
	assert.Equal(t, ruled, slices.Sorted(maps.Keys(have)))
}

// naming is a request that names a model wherever it can.
func naming(tb testing.TB, m protoreflect.MethodDescriptor, model string) proto.Message {
	tb.Helper()
	kind := must(protoregistry.GlobalTypes.FindMessageByName(m.Input().FullName()))(tb)
	r := kind.New()
	for _, name := range []protoreflect.Name{"model", "id", "alias", "expected_model", "follows"} {
		f := r.Descriptor().Fields().ByName(name)
		switch {
		case f == nil || f.ContainingOneof() != nil && !f.HasOptionalKeyword():
		case f.Kind() == protoreflect.StringKind:
			r.Set(f, protoreflect.ValueOfString(model))
		case f.Kind() == protoreflect.MessageKind && f.Message().Name() == "Model":
			inner := r.Mutable(f).Message()
			inner.Set(inner.Descriptor().Fields().ByName("id"), protoreflect.ValueOfString(model))
		}
	}
	return r.Interface()
}

// call makes a call of any kind, and answers the code of its first answer.
func (g *guarded) call(ctx context.Context, tb testing.TB, m protoreflect.MethodDescriptor, request proto.Message) codes.Code {
	tb.Helper()
	kind := must(protoregistry.GlobalTypes.FindMessageByName(m.Output().FullName()))(tb)
	response := kind.New().Interface()
	if !m.IsStreamingClient() && !m.IsStreamingServer() {
		return status.Code(g.connection.Invoke(ctx, fullName(m), request, response))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := g.connection.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, fullName(m))
	if err != nil {
		return status.Code(err)
	}
	_ = stream.SendMsg(request) // RecvMsg tells why it failed.
	_ = stream.CloseSend()
	return status.Code(stream.RecvMsg(response))
}

// Every call of every service, by everyone: who is not known is UNAUTHENTICATED, who may
// not is PERMISSION_DENIED, and all others get what the call itself says.
func TestEveryCallByEveryRole(t *testing.T) {
	expired := who("expired", auth.Admin)
	expired.NotAfter = time.Now().Add(-time.Second)
	stay := []auth.Entry{
		who("read", auth.Read), who("write", auth.Write), who("admin", auth.Admin), who("scoped", auth.Admin, "m"),
		who("elsewhere", auth.Admin, "other-"), expired,
	}
	g := guard(t, append(stay, who("revoked", auth.Admin))...)
	must(g.auth.Token("revoked"))(t)
	g.auth.Set(stay)
	rank := map[string]int{"none": 0, "read": 1, "write": 2, "admin": 3, "scoped": 3, "elsewhere": 3}
	for _, m := range g.methods(t) {
		need := rpc.NeededRole(fullName(m)).String()
		request := naming(t, m, "m-1")
		names := strings.Contains(fmt.Sprint(request), "m-1")
		for _, caller := range []string{"nobody", "expired", "revoked", "malformed token", "read", "write", "admin", "scoped", "elsewhere"} {
			// The handlers answer: there is no such model, the request is wrong, or all is well.
			want := "let through"
			switch rank, known := rank[caller]; {
			case need == "none":
			case !known:
				want = codes.Unauthenticated.String()
			case rank < map[string]int{"read": 1, "write": 2, "admin": 3}[need], caller == "elsewhere" && names,
				rpc.IsOfEveryModel(fullName(m)) && (caller == "elsewhere" || caller == "scoped"):
				want = codes.PermissionDenied.String()
			}
			got := g.call(as(t.Context(), caller), t, m, request)
			text := got.String()
			if got != codes.Unauthenticated && got != codes.PermissionDenied {
				text = "let through"
			}
			assert.Equal(t, want, text, "%s by %s: %s", m.Name(), caller, got)
		}
	}
}

func TestAccessReference(t *testing.T) {
	const head = "# Access\n\nGenerated from the proto files by `make reference`; do not edit. " +
		"[Security](../security.md#who-may-do-what) explains the roles.\n\n"
	assert.NoError(t, reference.Compare("../../docs/reference/access.md", head+rpc.AccessTable(), *update))
}

// Every rejection has a reason, and those of limits say how long to wait.
func TestAccessRejections(t *testing.T) {
	limited := who("limited", auth.Read)
	limited.Rate = 0.001 // No second call within 1,000 s.
	busy := who("busy", auth.Read)
	busy.Concurrency = 1
	g := guard(t, who("read", auth.Read), who("scoped", auth.Read, "x-"), limited, busy, who("admin", auth.Admin))
	for _, c := range []struct {
		caller, model, reason string
		code                  codes.Code
	}{
		{"nobody", "m", "TOKEN_MISSING", codes.Unauthenticated},
		{"unknown", "m", "TOKEN_INVALID", codes.Unauthenticated},
		{"read", "m", "MODEL_NOT_FOUND", codes.NotFound},
		{"scoped", "m", "MODEL_OUT_OF_SCOPE", codes.PermissionDenied},
		{"scoped", "x-", "MODEL_NOT_FOUND", codes.NotFound},
		{"limited", "m", "MODEL_NOT_FOUND", codes.NotFound},
		{"limited", "m", "RATE_LIMIT", codes.ResourceExhausted},
	} {
		_, err := g.models.GetModel(as(t.Context(), c.caller), &hindsightv1.GetModelRequest{Model: c.model})
		if s := status.Convert(err); s.Code() != c.code || reason(s) != c.reason || (c.reason == "RATE_LIMIT") != (retryDelay(s) > 0) {
			t.Errorf("%s, %s: %v %s %s", c.caller, c.model, s.Code(), reason(s), retryDelay(s))
		}
	}
	_, err := g.models.DeleteModel(as(t.Context(), "read"), &hindsightv1.DeleteModelRequest{Model: "m"})
	s := status.Convert(err)
	assert.True(t, reason(s) == "ROLE_TOO_LOW" && strings.Contains(s.Message(), "read is read, the call needs admin"), err)
	// Two tokens in one call.
	twice := metadata.AppendToOutgoingContext(as(t.Context(), "read"), "authorization", "Bearer read")
	_, err = g.models.ListModels(twice, &hindsightv1.ListModelsRequest{})
	assert.Equal(t, codes.Unauthenticated, status.Code(err), "two tokens: %v", err)
	// A stream holds a place as long as it is open.
	g.create2(t, "m")
	ctx, cancel := context.WithCancel(as(t.Context(), "busy"))
	watch := must(g.models.WatchModel(ctx, &hindsightv1.WatchModelRequest{Model: "m"}))(t)
	must(watch.Recv())(t)
	_, err = g.models.GetModel(as(t.Context(), "busy"), &hindsightv1.GetModelRequest{Model: "m"})
	s = status.Convert(err)
	assert.True(t, reason(s) == "CONCURRENCY_LIMIT" && retryDelay(s) != 0, "%v %v", "a second call at once:", err)
	cancel()
	for err == nil || status.Code(err) == codes.ResourceExhausted {
		if _, err = g.models.GetModel(as(t.Context(), "busy"), &hindsightv1.GetModelRequest{Model: "m"}); err == nil {
			break // The place came back with the end of the stream.
		}
	}
}

func retryDelay(s *status.Status) time.Duration {
	for _, d := range s.Details() {
		if d, ok := d.(*errdetails.RetryInfo); ok {
			return d.GetRetryDelay().AsDuration()
		}
	}
	return 0
}

// create2 creates a model of two inputs as the principal admin.
func (g *guarded) create2(tb testing.TB, ids ...string) {
	tb.Helper()
	for _, id := range ids {
		must(g.models.CreateModel(as(tb.Context(), "admin"), &hindsightv1.CreateModelRequest{Id: id, Spec: linear(2)}))(tb)
	}
}

// A client certificate is a principal if it was verified, and if the call has no token.
func TestCertificatePrincipals(t *testing.T) {
	g := guard(t, who("admin", auth.Admin), auth.Entry{Name: "scraper", Role: auth.Read, Certificate: "host.example"})
	check := rpc.CheckUnary(g.server)
	known, unknown := &x509.Certificate{DNSNames: []string{"host.example"}}, &x509.Certificate{DNSNames: []string{"evil.example"}}
	for name, c := range map[string]struct {
		state  tls.ConnectionState
		token  string
		reason string
		who    string
	}{
		"verified":               {tls.ConnectionState{PeerCertificates: []*x509.Certificate{known}, VerifiedChains: [][]*x509.Certificate{{known}}}, "", "", "scraper"},
		"not verified":           {tls.ConnectionState{PeerCertificates: []*x509.Certificate{known}}, "", "TOKEN_MISSING", ""},
		"not named":              {tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{unknown}}}, "", "CERTIFICATE_UNKNOWN", ""},
		"with a token":           {tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{known}}}, "admin", "", "admin"},
		"with a wrong token":     {tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{known}}}, "x", "TOKEN_INVALID", ""},
		"TLS and no certificate": {tls.ConnectionState{}, "", "TOKEN_MISSING", ""},
	} {
		ctx := peer.NewContext(t.Context(), &peer.Peer{AuthInfo: credentials.TLSInfo{State: c.state}})
		if c.token != "" {
			ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("authorization", "Bearer "+c.token))
		}
		got := ""
		_, err := check(ctx, &hindsightv1.GetModelRequest{Model: "m"}, &grpc.UnaryServerInfo{FullMethod: hindsightv1.ModelService_GetModel_FullMethodName},
			func(ctx context.Context, _ any) (any, error) {
				got = auth.FromContext(ctx).Name
				return nil, nil
			})
		assert.True(t, got == c.who && (err == nil) == (c.reason == "") && (err == nil || reason(rpc.StatusOf(err)) == c.reason), "%s: %q, %v", name, got, err)
	}
}

// checked is a call of a Predict that does nothing, by a principal of some models with
// limits.
func checked(tb testing.TB) func() error {
	tb.Helper()
	token := auth.NewToken()
	e := who(token, auth.Write, "a-", "m")
	e.Rate, e.Concurrency = 1e6, 8
	g := guard(tb, e)
	check := rpc.CheckUnary(g.server)
	ctx := metadata.NewIncomingContext(tb.Context(), metadata.Pairs("authorization", "Bearer "+token, "user-agent", "x"))
	request, response := &hindsightv1.PredictRequest{Model: "m", Remember: proto.Bool(false)}, &hindsightv1.PredictResponse{}
	info := &grpc.UnaryServerInfo{FullMethod: hindsightv1.PredictionService_Predict_FullMethodName}
	handle := func(ctx context.Context, _ any) (any, error) { return response, ctx.Err() }
	return func() error {
		return errOf(check(ctx, request, info, handle))
	}
}

// To check a call allocates the context that carries the principal, and the copy of the
// header that gRPC hands out.
func TestCheckingAllocatesTheContext(t *testing.T) {
	call := checked(t)
	if n := testing.AllocsPerRun(100, func() { require.NoError(t, call()) }); n > 2 {
		t.Errorf("%v allocations, want 2", n)
	}
}

// An alias goes back and forth between a model of the caller's and one of another team, while
// the caller calls by the alias: what answers is never the other model.
func TestScopeWhileAnAliasMoves(t *testing.T) {
	const foreign = "b-model"
	least := 100 * time.Millisecond
	if os.Getenv("HINDSIGHT_E2E") != "" {
		least = 2 * time.Second
	}
	g := guard(t, who("admin", auth.Admin), who("a", auth.Admin, "a-"))
	g.create2(t, "a-1", foreign)
	admin := as(t.Context(), "admin")
	marked := &hindsightv1.Model{Id: foreign, DisplayName: foreign}
	update := &hindsightv1.UpdateModelRequest{Model: marked}
	update.UpdateMask = mask("display_name")
	must(g.models.UpdateModel(admin, update))(t)
	set := func(model string) {
		assert.NoError(t, errOf(g.models.SetAlias(admin, &hindsightv1.SetAliasRequest{Alias: "a-live", Model: model})))
	}
	set("a-1")
	within, scoped := hindsightv1.NewModelServiceClient(g.local()), must(g.auth.Token("a"))(t)
	// Each answers what shows the model that answered.
	for name, call := range map[string]func(ctx context.Context) (string, error){
		"GetModel": func(ctx context.Context) (string, error) {
			r, err := within.GetModel(ctx, &hindsightv1.GetModelRequest{Model: "a-live"})
			return r.GetModel().GetId(), err
		},
		"GetModelStats": func(ctx context.Context) (string, error) {
			r, err := within.GetModelStats(ctx, &hindsightv1.GetModelStatsRequest{Model: "a-live"})
			return r.GetStats().GetModel(), err
		},
		"WatchModel": func(ctx context.Context) (string, error) {
			var model string
			enough := status.Error(codes.Canceled, "enough")
			err := g.watchWithin(ctx, "a-live", func(r *hindsightv1.WatchModelResponse) error { model = r.GetStats().GetModel(); return enough })
			if model != "" {
				err = nil
			}
			return model, err
		},
		"ExportModel": func(ctx context.Context) (string, error) {
			data, err := g.exportWithin(ctx, "a-live")
			if bytes.Contains(data, []byte(foreign)) { // Its display name.
				return foreign, err
			}
			return "a-1", err
		},
		"UpdateModel": func(ctx context.Context) (string, error) {
			r, err := within.UpdateModel(ctx, &hindsightv1.UpdateModelRequest{
				Model: &hindsightv1.Model{Id: "a-live", Labels: map[string]string{"by": "a"}}, UpdateMask: mask("labels"),
			})
			return r.GetModel().GetId(), err
		},
	} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan struct{})
			var group sync.WaitGroup
			group.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-ended:
						return
					default:
						set([]string{foreign, "a-1"}[n%2])
					}
				}
			})
			var calls, own, rejected, others atomic.Int64
			var callers sync.WaitGroup
			for range 4 {
				callers.Go(func() {
					for until := time.Now().Add(least); time.Now().Before(until) || own.Load() == 0 || rejected.Load() == 0; {
						ctx, cancel := context.WithCancel(auth.NewContext(t.Context(), scoped))
						answered, err := call(ctx)
						cancel()
						calls.Add(1)
						switch {
						case answered == foreign, err != nil && strings.Contains(err.Error(), foreign):
							others.Add(1)
						case err == nil:
							own.Add(1)
						case reason(status.Convert(err)) == "MODEL_OUT_OF_SCOPE":
							rejected.Add(1)
						default:
							t.Error(err)
							return
						}
					}
				})
			}
			callers.Wait()
			close(ended)
			group.Wait()
			t.Logf("%d calls: %d answers, %d rejections, %d by the other model", calls.Load(), own.Load(), rejected.Load(), others.Load())
			assert.Zero(t, others.Load(), "the other model answered %d of %d calls", others.Load(), calls.Load())
		})
	}
	r, err := g.models.GetModel(admin, &hindsightv1.GetModelRequest{Model: foreign})
	assert.True(t, err == nil && len(r.GetModel().GetLabels()) == 0, "the other model was changed: %v, %v", r, err)
}
