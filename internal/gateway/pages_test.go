package gateway_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/api/openapi"
	"hindsight/internal/gateway"
)

func TestDescription(t *testing.T) {
	h := serve(t)
	described := h.want(t, "GET", "/openapi.json", "")
	if !bytes.Equal(described.body, openapi.Document()) || described.header.Get("Content-Type") != "application/json" {
		t.Errorf("%d bytes of %s", len(described.body), described.header.Get("Content-Type"))
	}
}

// With a console its files are at /, beside the calls.
func TestConsole(t *testing.T) {
	h := serve(t, func(o *gateway.Options) {
		o.Console = fstest.MapFS{
			"index.html":       {Data: []byte("<!doctype html><title>console</title>")},
			"favicon.svg":      {Data: []byte("<svg/>")},
			"assets/app-1a.js": {Data: []byte("1")},
		}
	})
	for path, want := range map[string][2]string{
		"/":                 {"text/html", "no-cache"},
		"/favicon.svg":      {"image/svg+xml", "no-cache"},
		"/assets/app-1a.js": {"text/javascript", "public, max-age=31536000, immutable"},
	} {
		a := h.want(t, "GET", path, "")
		if !strings.HasPrefix(a.header.Get("Content-Type"), want[0]) || a.header.Get("Cache-Control") != want[1] ||
			!strings.HasPrefix(a.header.Get("Content-Security-Policy"), "default-src 'self'") {
			t.Errorf("%s: %v", path, a.header)
		}
	}
	for _, path := range []string{"/assets", "/assets/", "/other.js", "/../etc/passwd", "/%2e%2e/x"} {
		a := h.call(t, "GET", path, "")
		assert.True(t, a.status == http.StatusNotFound && a.at("error", "status") == "NOT_FOUND", "%s: %d %s", path, a.status, a.body)
	}
	h.want(t, "GET", "/v1/models", "")
}

// The console is told where gRPC listens; without a console nobody asks.
func TestGRPCAddressOfTheConsole(t *testing.T) {
	const path = "/server.json"
	for want, address := range map[string]net.Addr{
		`{"grpcHost":"127.0.0.1","grpcPort":4321}`: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4321},
		`{"grpcPort":4321}`:                        &net.TCPAddr{IP: net.IPv6unspecified, Port: 4321},
		`{}`:                                       nil,
	} {
		h := serve(t, func(o *gateway.Options) {
			o.Console, o.GRPC = fstest.MapFS{"index.html": {Data: []byte("<!doctype html>")}}, address
		})
		a := h.want(t, "GET", path, "")
		assert.True(t, string(a.body) == want && a.header.Get("Content-Type") == "application/json", "%v: %s %v", address, a.body, a.header)
		a = h.call(t, "POST", path, "")
		assert.EqualValues(t, http.StatusMethodNotAllowed, a.status)
	}
	h := serve(t, func(o *gateway.Options) { o.Console = fstest.MapFS{"index.html": {Data: []byte("<!doctype html>")}} })
	r, w := httptest.NewRequestWithContext(t.Context(), "GET", path, http.NoBody), httptest.NewRecorder()
	r.TLS = &tls.ConnectionState{HandshakeComplete: true}
	h.gateway.ServeHTTP(w, r)
	assert.Equal(t, `{"tls":true}`, w.Body.String(), "with TLS: %s", w.Body)
	assert.EqualValues(t, http.StatusNotFound, serve(t).call(t, "GET", path, "").status)
}

// Pages of other origins may call if they are named, and not otherwise.
func TestOrigins(t *testing.T) {
	named := func(origins ...string) func(*gateway.Options) {
		return func(o *gateway.Options) { o.Origins = origins }
	}
	const page, stranger = "https://page.example", "https://stranger.example"
	for _, c := range []struct {
		what     string
		set      func(*gateway.Options)
		origin   string
		status   int
		allowed  string
		preRight bool
	}{
		{"nobody is named", named(), page, 403, "", false},
		{"it is named", named(page, "http://localhost:1"), page, 200, page, true},
		{"another is named", named(page), stranger, 403, "", false},
		{"all are", named("*"), stranger, 200, "*", true},
	} {
		h := serve(t, c.set)
		a := h.call(t, "POST", "/v1/models", linear("m"), "Origin", c.origin, "Sec-Fetch-Site", "cross-site")
		assert.True(t, a.status == c.status && a.header.Get("Access-Control-Allow-Origin") == c.allowed, "%s: %d %v %s", c.what, a.status, a.header, a.body)
		if c.status == 403 {
			a.rejected(t, c.what, 403, "PERMISSION_DENIED", "CROSS_ORIGIN", "", c.origin)
			h.call(t, "GET", "/v1/models/m", "").rejected(t, c.what, 404, "NOT_FOUND", "MODEL_NOT_FOUND", "", "")
		}
		before := h.call(t, "OPTIONS", "/v1/models", "", "Origin", c.origin,
			"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "content-type")
		right := before.header.Get("Access-Control-Allow-Methods") == "POST" && before.header.Get("Access-Control-Allow-Headers") == "content-type"
		assert.Equal(t, c.preRight, right, "%v %v %v", c.what, before.status, before.header)
	}
	// The page of the server itself, and a program that is no browser.
	h := serve(t)
	a := h.call(t, "POST", "/v1/models", linear("a"), "Origin", h.url, "Sec-Fetch-Site", "same-origin")
	assert.Equal(t, 200, a.status, a.body)
	a = h.call(t, "POST", "/v1/models", linear("b"))
	assert.Equal(t, 200, a.status, a.body)
}

func TestBadOrigin(t *testing.T) {
	_, err := gateway.New(gateway.Options{Origins: []string{"page.example"}})
	assert.True(t, err != nil && strings.Contains(err.Error(), `"page.example"`), "an origin without a scheme: %v", err)
}

// contract checks requests and answers against the OpenAPI document.
type contract struct {
	*host
	document *openapi3.T
	// routes are by operation; called are those that were checked.
	routes map[string]*routers.Route
	called map[string]bool
}

func load(t *testing.T) *openapi3.T {
	t.Helper()
	document := must(openapi3.NewLoader().LoadFromData(openapi.Document()))(t)
	require.NoError(t, document.Validate(t.Context()))
	return document
}

// newContract rejects what the document does not name, which a client may do without.
func newContract(t *testing.T, h *host) *contract {
	t.Helper()
	c := &contract{h, load(t), map[string]*routers.Route{}, map[string]bool{}}
	no := false
	for name, s := range c.document.Components.Schemas {
		if len(s.Value.Properties) > 0 && name != "ErrorDetail" {
			s.Value.AdditionalProperties.Has = &no
		}
	}
	for path, item := range c.document.Paths.Map() {
		for method, operation := range item.Operations() {
			c.routes[operation.OperationID] = &routers.Route{
				Spec: c.document, Path: path, PathItem: item, Method: method, Operation: operation,
			}
		}
	}
	return c
}

// call makes a call of an operation, and checks that request and answer are those of
// the document. The path is that of the operation with names for the braces.
func (c *contract) call(t *testing.T, operation, method, path, body string, headers ...string) *answer {
	t.Helper()
	route := c.routes[operation]
	require.NotNil(t, route, "no operation %s", operation)
	c.called[operation] = true
	pattern := regexp.MustCompile(`\\\{(\w+)\\\}`).ReplaceAllString(regexp.QuoteMeta(route.Path), `(?P<$1>[^/]+)`)
	bare, _, _ := strings.Cut(path, "?")
	found := regexp.MustCompile("^" + pattern + "$")
	values := found.FindStringSubmatch(bare)
	require.True(t, route.Method == method && values != nil, "%s is %s %s, not %s %s", operation, route.Method, route.Path, method, path)
	parameters := map[string]string{}
	for i, name := range found.SubexpNames() {
		if name != "" {
			parameters[name] = values[i]
		}
	}
	request := c.request(t, method, path, body, headers...)
	checked := c.request(t, method, path, body, headers...)
	input := &openapi3filter.RequestValidationInput{Request: checked, PathParams: parameters, Route: route}
	openapi3filter.RegisterBodyDecoder("application/octet-stream", openapi3filter.FileBodyDecoder)
	assert.NoError(t, openapi3filter.ValidateRequest(t.Context(), input), operation)
	a := c.do(t, request)
	response := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: a.status, Header: a.header, Body: io.NopCloser(bytes.NewReader(a.body)),
	}
	assert.NoError(t, openapi3filter.ValidateResponse(t.Context(), response), "%v %v", operation, a.body)
	return a
}

// good makes a call that is to succeed.
func (c *contract) good(t *testing.T, operation, method, path, body string, headers ...string) *answer {
	t.Helper()
	a := c.call(t, operation, method, path, body, headers...)
	assert.EqualValues(t, http.StatusOK, a.status, "%v %v", operation, a.body)
	return a
}

// Every operation of the document is served as the document says, and nothing but these.
func TestTheDocumentIsServed(t *testing.T) {
	c := newContract(t, serve(t))
	spec := `{"dimension":2,"seed":"9007199254740993","pkawvTaylor":{},"scaling":{"none":{}}}`
	created := c.good(t, "CreateModel", "POST", "/v1/models", `{"id":"m","spec":`+spec+`}`)
	got := created.at("model", "spec", "seed")
	assert.True(t, got == "9007199254740993", "a seed of 64 bits came back as %v", got)
	c.good(t, "ValidateSpec", "POST", "/v1/specs:validate", `{"spec":`+spec+`}`)
	got = c.good(t, "InferSpec", "POST", "/v1/specs:infer", `{"csv":"x,y\n1,5\nNA,7\n","values":true}`).at("values")
	assert.True(t, got == "[1,5]\n[null,7]\n", "values %q", got)
	c.good(t, "ListLearners", "GET", "/v1/learners", "")
	predicted := c.good(t, "Predict", "POST", "/v1/models/m:predict", `{"features":[0.5,0.25],"predictionId":"p"}`)
	assert.True(t, predicted.at("prediction", "predictionId") == "p" && predicted.at("prediction", "stateSequence") == "0", "predicted %s", predicted.body)
	observed := c.good(t, "Observe", "POST", "/v1/models/m:observe", `{"predictionId":"p","label":0}`)
	assert.True(t, observed.at("outcome", "sequence") == "1" && observed.at("outcome", "duplicate") == false, "observed %s", observed.body)
	// Names as in the proto files, and integers as texts, are read too.
	again := c.want(t, "POST", "/v1/models/m:observe", `{"prediction_id":"p","label":"0"}`)
	assert.True(t, again.at("outcome", "duplicate") == true, "observed again %s", again.body)
	batch := c.good(t, "PredictBatch", "POST", "/v1/models/m:predictBatch", `{"rows":[{"features":[1,0]},{"features":[0,1]}],"remember":false}`)
	assert.True(t, batch.at("predictions", 1, "stateSequence") == "1" && batch.at("predictions", 1, "predictionId") == "", "predicted %s", batch.body)
	learned := c.good(t, "ObserveBatch", "POST", "/v1/models/m:observeBatch",
		`{"observations":[{"features":[1,0],"label":1,"observationId":"a"},{"features":[0,1],"label":-1,"observationId":"b"}]}`)
	assert.True(t, learned.at("outcomes", 1, "sequence") == "3", "learned %s", learned.body)
	got = c.good(t, "GetModel", "GET", "/v1/models/m", "").at("model", "sequence")
	assert.True(t, got == "3", "sequence %v", got)
	c.good(t, "ListModels", "GET", "/v1/models?pageSize=10&prefix=m&labels[site]=oslo", "")
	stats := c.good(t, "GetModelStats", "GET", "/v1/models/m/stats?includeEffectiveDimension=true", "")
	assert.True(t, stats.at("stats", "observations") == "3" && stats.at("stats", "effectiveDimension") != nil, "statistics %s", stats.body)
	snapshot := c.good(t, "SnapshotModel", "POST", "/v1/models/m/snapshots", "{}")
	kept := c.good(t, "ListSnapshots", "GET", "/v1/models/m/snapshots", "")
	assert.True(t, kept.at("snapshots", 0, "stateDigest") == snapshot.at("snapshot", "stateDigest"), "snapshots %s", kept.body)
	bytesOf := c.good(t, "ExportModel", "GET", "/v1/models/m:export?withoutIds=true", "")
	c.good(t, "ImportModel", "POST", "/v1/models:import?id=copy", string(bytesOf.body), "Content-Type", "application/octet-stream")
	got = c.want(t, "GET", "/v1/models/copy/stats", "").at("stats", "stateDigest")
	assert.True(t, got == snapshot.at("snapshot", "stateDigest"), "the digest of the copy is %v", got)
	restored := c.good(t, "RestoreModel", "POST", "/v1/models/m:restore", `{"sequence":"1"}`)
	assert.True(t, restored.at("model", "sequence") == "1", "restored %s", restored.body)
	c.good(t, "DeleteModel", "DELETE", "/v1/models/copy", "")
	c.good(t, "GetModelStats", "GET", "/v1/models/m/stats", "")
	for _, o := range [][4]string{
		{"UndeleteModel", "POST", "/v1/models/copy:undelete", "{}"},
		{"UpdateModel", "PATCH", "/v1/models/m?updateMask=displayName,labels.site", `{"displayName":"M","labels":{"site":"oslo"}}`},
		{"GetModelHistory", "GET", "/v1/models/m/history", ""},
		{"CompareModels", "GET", "/v1/models/m/comparison", ""},
		{"SetAlias", "PUT", "/v1/aliases/champion", `{"model":"m"}`},
		{"ListAliases", "GET", "/v1/aliases", ""},
		{"DeleteAlias", "DELETE", "/v1/aliases/champion", ""},
		{"GetCluster", "GET", "/v1/cluster?group=0", ""},
	} {
		c.good(t, o[0], o[1], o[2], o[3])
	}
	// This server has no cluster.
	for _, o := range [][4]string{
		{"MoveOwner", "POST", "/v1/cluster:moveOwner", `{"server":"a"}`},
		{"RebalanceCluster", "POST", "/v1/cluster:rebalance", `{"leaving":["a"]}`},
		{"DrainServer", "POST", "/v1/servers/a:drain", "{}"},
		{"RemoveServer", "DELETE", "/v1/servers/127.0.0.1:7946", ""},
	} {
		a := c.call(t, o[0], o[1], o[2], o[3])
		assert.True(t, a.status == http.StatusBadRequest && strings.Contains(string(a.body), "NO_CLUSTER"), "%s: %d %s", o[0], a.status, a.body)
	}
	c.called["WatchModel"] = true // See TestEvents.
	for operation := range c.routes {
		assert.True(t, c.called[operation], "%s was not called", operation)
	}
}

// The document says that integers of 64 bits are texts, and how calls are rejected.
func TestTheDocument(t *testing.T) {
	document := load(t)
	sequence := document.Components.Schemas["Outcome"].Value.Properties["sequence"].Value
	assert.True(t, sequence.Type.Is("string") && sequence.Format == "uint64", "a sequence is %v", sequence)
	if got, want := document.Components.Schemas["Outcome"].Value.Required, []string{"class", "duplicate", "model", "predictions", "sequence", "servedClass", "servedPredictions", "setAside"}; !slices.Equal(got, want) {
		t.Errorf("an outcome always has %v, want %v", got, want)
	}
	got := document.Components.Schemas["ModelSpec"].Value.Required
	assert.LessOrEqual(t, len(got), 0, "a spec must have %v", got)
	for path, item := range document.Paths.Map() {
		for method, operation := range item.Operations() {
			assert.True(t, operation.Responses.Default() != nil && operation.Responses.Default().Ref == "#/components/responses/Error", "%s %s: no word of errors", method, path)
			assert.True(t, operation.Summary != "", "%s %s: no summary", method, path)
		}
	}
	assert.Nil(t, document.Components.Schemas["google.rpc.Status"], "what is not served is in the document")
}
