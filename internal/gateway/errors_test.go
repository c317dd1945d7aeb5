package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/gateway"
)

// detail is the detail of an error with a type.
func (a *answer) detail(kind string) map[string]any {
	details, _ := a.at("error", "details").([]any)
	for _, d := range details {
		if o, _ := d.(map[string]any); o["@type"] == "type.googleapis.com/google.rpc."+kind {
			return o
		}
	}
	return nil
}

// rejected checks an error.
func (a *answer) rejected(t *testing.T, what string, httpStatus int, code, reason, field, says string) {
	t.Helper()
	message, _ := a.at("error", "message").(string)
	if a.status != httpStatus || a.at("error", "code") != number(strconv.Itoa(httpStatus)) || a.at("error", "status") != code {
		t.Errorf("%s: %d %s, want %d %s", what, a.status, a.body, httpStatus, code)
	}
	got := a.detail("ErrorInfo")
	assert.True(t, got["reason"] == reason && got["domain"] == "hindsight", "%s: %s, want the reason %s", what, a.body, reason)
	assert.Contains(t, message, says, what)
	violations, _ := a.detail("BadRequest")["fieldViolations"].([]any)
	if field == "" {
		return
	}
	if len(violations) == 0 {
		t.Errorf("%s: %s, want a violation of %s", what, a.body, field)
		return
	}
	got, _ = violations[0].(map[string]any)
	assert.True(t, got["field"] == field && got["reason"] == reason && got["description"] != "", "%s: violation %v, want %s of %s", what, got, reason, field)
}

// What a request can do wrong, each with what it is told.
func TestRejections(t *testing.T) {
	own := []string{
		"BODY_INCOMPLETE", "CROSS_ORIGIN", "INVALID_JSON", "INVALID_PARAMETER", "INVALID_PATH", "METHOD_NOT_ALLOWED",
		"REQUEST_TOO_LARGE", "ROUTE_NOT_FOUND", "UNSUPPORTED_MEDIA_TYPE",
	}
	var rejected sync.Map
	h := serve(t, func(o *gateway.Options) {
		o.MemoryLimit = 64 << 20
		o.Rejected = func(reason string) { rejected.Store(reason, true) }
	})
	h.want(t, "POST", "/v1/models", linear("m"))
	h.want(t, "POST", "/v1/models/m:predict", `{"features":[1,2],"predictionId":"p","model":"m"}`)
	h.want(t, "POST", "/v1/models/m:observe", `{"predictionId":"p","label":1}`)
	const predict, observe = "/v1/models/m:predict", "/v1/models/m:observe"
	for _, c := range []struct {
		what, method, path, body  string
		status                    int
		code, reason, field, says string
	}{
		{"a dimension", "POST", predict, `{"features":[1]}`, 400, "INVALID_ARGUMENT", "DIMENSION_MISMATCH", "features", "want 2"},
		{"no number", "POST", predict, `{"features":[1,NaN]}`, 400, "INVALID_ARGUMENT", "INVALID_JSON", "body", "line 1, column 16"},
		{"an unknown model", "POST", "/v1/models/x:predict", `{"features":[1,2]}`, 404, "NOT_FOUND", "MODEL_NOT_FOUND", "", `"x"`},
		{"a conflict", "POST", observe, `{"predictionId":"p","label":2}`, 409, "ALREADY_EXISTS", "OBSERVATION_CONFLICT", "", `"p"`},
		{"a text that breaks off", "POST", predict, "{\n \"features\": [1,", 400, "INVALID_ARGUMENT", "INVALID_JSON", "body", "line 2, column 16"},
		{"half a dimension", "POST", "/v1/models", `{"spec":{"dimension":1.5}}`, 400, "INVALID_ARGUMENT", "INVALID_JSON", "body", "spec.dimension: got 1.5, want a whole number"},
		{"a negative seed", "POST", "/v1/models", `{"spec":{"seed":-1}}`, 400, "INVALID_ARGUMENT", "INVALID_JSON", "body", "spec.seed: got -1, want a whole number from 0"},
		{"two targets", "POST", observe, `{"label":1,"class":"a"}`, 400, "INVALID_ARGUMENT", "INVALID_JSON", "body", "label: got a target beside class, want one of them"},
		{"a number that is too large", "POST", predict, `{"features":[1e999]}`, 400, "INVALID_ARGUMENT", "INVALID_JSON", "body", "1e999"},
		{"a long number", "POST", predict, `{"features":[` + strings.Repeat("1", 1000) + `]}`, 400, "INVALID_ARGUMENT", "INVALID_JSON", "body", "11…"},
		{"two values", "POST", predict, `{"features":[1,2]} {}`, 400, "INVALID_ARGUMENT", "INVALID_JSON", "body", "line 1"},
		{"a list", "POST", predict, `[1,2]`, 400, "INVALID_ARGUMENT", "INVALID_JSON", "body", "line 1"},
		{"a deep value", "POST", predict, `{"inputs":{"a":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}}`, 400, "INVALID_ARGUMENT", "INVALID_JSON", "body", ""},
		{"a parameter", "GET", "/v1/models?page_sise=1", "", 400, "INVALID_ARGUMENT", "INVALID_PARAMETER", "page_sise", "pageSize"},
		{"a parameter where there is none", "POST", predict + "?id=1", `{"features":[1,2]}`, 400, "INVALID_ARGUMENT", "INVALID_PARAMETER", "id", "no parameter"},
		{"a parameter's value", "GET", "/v1/models?page_size=x", "", 400, "INVALID_ARGUMENT", "INVALID_PARAMETER", "page_size", "x"},
		{"a parameter twice", "GET", "/v1/models?page_size=1&pageSize=2", "", 400, "INVALID_ARGUMENT", "INVALID_PARAMETER", "page_size", "more than once"},
		{"a parameter with two values", "POST", "/v1/models:import?id=a&id=b", "", 400, "INVALID_ARGUMENT", "INVALID_PARAMETER", "id", "more than once"},
		{"a key within a key", "GET", "/v1/models?labels[a][b]=c", "", 400, "INVALID_ARGUMENT", "INVALID_PARAMETER", "labels[a][b]", "labels[KEY]"},
		{"no key", "GET", "/v1/models?labels=c", "", 400, "INVALID_ARGUMENT", "INVALID_PARAMETER", "labels", "labels[KEY]"},
		{"a key of no map", "GET", "/v1/models?prefix[a]=c", "", 400, "INVALID_ARGUMENT", "INVALID_PARAMETER", "prefix[a]", "prefix"},
		{"no integer", "GET", "/v1/models?pageSize=1.5", "", 400, "INVALID_ARGUMENT", "INVALID_PARAMETER", "pageSize", `got "1.5", want an integer`},
		{"no boolean", "GET", "/v1/models?showDeleted=yes", "", 400, "INVALID_ARGUMENT", "INVALID_PARAMETER", "showDeleted", `got "yes", want true or false`},
		{"no duration", "GET", "/v1/models/m/events?statsInterval=2", "", 400, "INVALID_ARGUMENT", "INVALID_PARAMETER", "stats_interval", "2s"},
		{"a parameter of no text", "GET", "/v1/models?prefix=%ff", "", 400, "INVALID_ARGUMENT", "INVALID_PARAMETER", "prefix", "UTF-8"},
		{"a path of no text", "GET", "/v1/models/%ff/events", "", 400, "INVALID_ARGUMENT", "INVALID_PATH", "", "UTF-8"},
		{"no model", "POST", "/v1/models/:predict", "{}", 400, "INVALID_ARGUMENT", "INVALID_ID", "model", "/v1/models/:predict"},
		{"no model to delete", "DELETE", "/v1/models/", "", 400, "INVALID_ARGUMENT", "INVALID_ID", "model", "got nothing"},
		{"a model that ends in a colon", "DELETE", "/v1/models/m:", "", 404, "NOT_FOUND", "ROUTE_NOT_FOUND", "", "m:"},
		{"no alias", "PUT", "/v1/aliases/", "{}", 400, "INVALID_ARGUMENT", "INVALID_ID", "alias", "got nothing"},
		{"another model", "POST", observe, `{"features":[1,2],"label":1,"model":"n"}`, 400, "INVALID_ARGUMENT", "INVALID_JSON", "body", `model: got "n", want "m"`},
		{"many values", "POST", "/v1/models/m:predictBatch", `{"rows":[` + strings.Repeat("{},", 300_000) + `{}]}`, 413, "RESOURCE_EXHAUSTED", "REQUEST_TOO_LARGE", "", "values"},
		{"many numbers of inputs", "POST", predict, `{"inputs":{"a":[` + strings.Repeat("1,", 300_000) + `1]}}`, 413, "RESOURCE_EXHAUSTED", "REQUEST_TOO_LARGE", "", "values"},
		{"another id", "PATCH", "/v1/models/m", `{"id":"other"}`, 400, "INVALID_ARGUMENT", "INVALID_JSON", "body", `body: id: got "other", want "m" as in the path, or nothing`},
		{"another id beside a change", "PATCH", "/v1/models/m", `{"max_pending_labels":7,"id":"other"}`, 400, "INVALID_ARGUMENT", "INVALID_JSON", "body", `body: id: got "other", want "m" as in the path, or nothing`},
		{"events of no model", "GET", "/v1/models/x/events", "", 404, "NOT_FOUND", "MODEL_NOT_FOUND", "", `"x"`},
		{"a parameter of events", "GET", "/v1/models/m/events?rate=1", "", 400, "INVALID_ARGUMENT", "INVALID_PARAMETER", "rate", "maxOutcomesPerSecond"},
		{"a query", "GET", "/v1/models?a=%zz", "", 400, "INVALID_ARGUMENT", "INVALID_PARAMETER", "", "%zz"},
		{"a route", "GET", "/v1/model", "", 404, "NOT_FOUND", "ROUTE_NOT_FOUND", "", "/openapi.json"},
		{"a verb", "POST", "/v1/models/m:forget", "{}", 404, "NOT_FOUND", "ROUTE_NOT_FOUND", "", "/v1/models/m:VERB with one of undelete, restore, predictBatch, predict, observeBatch, observe, export"},
		{"an empty verb", "POST", "/v1/models/m:", "{}", 404, "NOT_FOUND", "ROUTE_NOT_FOUND", "", "observe"},
		{"a method", "PUT", "/v1/models", "{}", 405, "UNIMPLEMENTED", "METHOD_NOT_ALLOWED", "", "want GET, HEAD, POST"},
		{"no duration", "POST", predict, `{"labelTtl":"1h"}`, 400, "INVALID_ARGUMENT", "INVALID_JSON", "body", `labelTtl: got "1h", want seconds such as "90s"`},
		{"half a surrogate pair", "POST", predict, `{"predictionId":"\ud83d"}`, 400, "INVALID_ARGUMENT", "INVALID_JSON", "body", "half of a surrogate pair"},
		{"an unknown field", "POST", predict, `{"inptus":{}}`, 400, "INVALID_ARGUMENT", "INVALID_JSON", "body", `"inptus", want model, features, predictionId`},
		{"a text for a list", "POST", predict, `{"features":"1,2"}`, 400, "INVALID_ARGUMENT", "INVALID_JSON", "body", `column 13: features: got "1,2", want a list`},
		{"a text in a list", "POST", predict, `{"features":[1,"a"]}`, 400, "INVALID_ARGUMENT", "INVALID_JSON", "body", `features[1]: got "a", want a number`},
		{"an unknown field of a spec", "POST", "/v1/models", `{"id":"x","spec":{"dimension":1,"linearAwv":{"rige":1}}}`, 400, "INVALID_ARGUMENT", "INVALID_JSON", "body", `"spec.linearAwv.rige", want `},
		{"a method of a call", "GET", predict, "", 405, "UNIMPLEMENTED", "METHOD_NOT_ALLOWED", "", "want POST"},
		{"a file", "GET", "/nothing.js", "", 404, "NOT_FOUND", "ROUTE_NOT_FOUND", "", "GET /nothing.js"},
		{"a call outside of /v1", "POST", "/models", "{}", 404, "NOT_FOUND", "ROUTE_NOT_FOUND", "", "POST /models"},
		{"a call of the page", "POST", "/openapi.json", "{}", 405, "UNIMPLEMENTED", "METHOD_NOT_ALLOWED", "", "want GET, HEAD"},
		{"a large body", "POST", predict, `{"features":[` + strings.Repeat("0,", 1<<19) + `0]}`, 413, "RESOURCE_EXHAUSTED", "REQUEST_TOO_LARGE", "", "1048576"},
		{"a large message in a small body", "POST", predict, `{"features":[` + strings.Repeat("0,", 200_000) + `0]}`, 413, "RESOURCE_EXHAUSTED", "REQUEST_TOO_LARGE", "", "1048576"},
		{"an import of nothing", "POST", "/v1/models:import?id=n", "", 400, "INVALID_ARGUMENT", "INVALID_REQUEST", "chunk", "got nothing, want the bytes that ExportModel gave"},
		{"an import without a name", "POST", "/v1/models:import", "", 400, "INVALID_ARGUMENT", "INVALID_ID", "", ""},
		{"an export of nothing", "GET", "/v1/models/x:export", "", 404, "NOT_FOUND", "MODEL_NOT_FOUND", "", `"x"`},
	} {
		headers := []string{}
		if strings.Contains(c.path, ":import") {
			headers = []string{"Content-Type", "application/octet-stream"}
		}
		a := h.call(t, c.method, c.path, c.body, headers...)
		a.rejected(t, c.what, c.status, c.code, c.reason, c.field, c.says)
		if c.status == http.StatusMethodNotAllowed && !strings.Contains(c.says, a.header.Get("Allow")) {
			t.Errorf("%s: Allow is %q, want what follows %q", c.what, a.header.Get("Allow"), c.says)
		}
		assert.Equal(t, "nosniff", a.header.Get("X-Content-Type-Options"), c.what)
		// The gateway counts what it rejects itself, and leaves the calls to the server.
		_, counted := rejected.LoadAndDelete(c.reason)
		assert.Equal(t, (slices.Contains(own, c.reason) || strings.HasPrefix(c.what, "no ") && c.reason == "INVALID_ID"), counted, c.what)
	}
	rejected.Range(func(reason, _ any) bool {
		t.Errorf("%v was counted", reason)
		return true
	})
}

// If-Match is the etag. A condition that would be ignored is rejected: the client would overwrite
// what another client has changed.
func TestConditions(t *testing.T) {
	h := serve(t)
	h.want(t, "POST", "/v1/models", linear("m"))
	for method, body := range map[string]string{"PATCH": `{"displayName":"M"}`, "DELETE": ""} {
		h.call(t, method, "/v1/models/m", body, "If-Unmodified-Since", "x").rejected(t, method, 400, "INVALID_ARGUMENT", "INVALID_PARAMETER", "If-Unmodified-Since", "etag")
		h.call(t, method, "/v1/models/m", body, "If-Match", `"x"`).rejected(t, method, 412, "ABORTED", "ETAG_MISMATCH", "", "")
		for _, empty := range []string{"", `""`} {
			r := h.request(t, method, "/v1/models/m", body)
			r.Header.Set("If-Match", empty)
			h.do(t, r).rejected(t, method, 400, "INVALID_ARGUMENT", "INVALID_PARAMETER", "If-Match", "want the etag")
		}
	}
	h.call(t, "POST", "/v1/models/m:predict", "{}", "If-Match", "x").rejected(t, "a call without an etag", 400, "INVALID_ARGUMENT", "INVALID_PARAMETER", "If-Match", "")
	h.want(t, "GET", "/v1/models/m", "", "If-Match", `"x"`)
	tag := func() string {
		m, _ := h.want(t, "GET", "/v1/models/m", "").json["model"].(map[string]any)
		text, _ := m["etag"].(string)
		return `"` + text + `"`
	}
	h.call(t, "PATCH", "/v1/models/m", `{"displayName":"M","etag":"y"}`, "If-Match", tag()).rejected(t, "two etags", 400, "INVALID_ARGUMENT", "INVALID_PARAMETER", "If-Match", "y")
	h.want(t, "PATCH", "/v1/models/m", `{"displayName":"M"}`, "If-Match", tag())
	h.want(t, "DELETE", "/v1/models/m", "", "If-Match", tag())
}

// HEAD is GET without the body.
func TestHead(t *testing.T) {
	h := serve(t)
	h.want(t, "POST", "/v1/models", linear("m"))
	for path, want := range map[string]int{"/openapi.json": 200, "/v1/models": 200, "/v1/models/m": 200, "/v1/models/m/stats": 200, "/v1/models/n": 404, "/v1/models/m/events": 405} {
		a := h.call(t, "HEAD", path, "")
		assert.True(t, a.status == want && len(a.body) == 0, "HEAD %s: %d with %d bytes, want %d with none", path, a.status, len(a.body), want)
	}
}

func TestContentTypes(t *testing.T) {
	h := serve(t)
	h.want(t, "POST", "/v1/models", linear("m"))
	for _, good := range []string{"application/json", "application/json; charset=utf-8", "Application/JSON;charset=UTF-8"} {
		h.want(t, "POST", "/v1/models/m:predict", `{"features":[1,2]}`, "Content-Type", good)
	}
	for _, bad := range []string{"application/x-www-form-urlencoded", "text/plain", "application/octet-stream", "application/json; charset=latin1", "", ";"} {
		a := h.call(t, "POST", "/v1/models/m:predict", `{"features":[1,2]}`, "Content-Type", bad)
		a.rejected(t, bad, 415, "INVALID_ARGUMENT", "UNSUPPORTED_MEDIA_TYPE", "", "want application/json")
	}
	a := h.call(t, "POST", "/v1/models/m:predict", "\x1f\x8b", "Content-Encoding", "gzip")
	a.rejected(t, "gzip", 415, "INVALID_ARGUMENT", "UNSUPPORTED_MEDIA_TYPE", "", `Content-Encoding: got "gzip"`)
	h.want(t, "POST", "/v1/models/m:predict", `{"features":[1,2]}`, "Content-Encoding", "identity")
	// What has no body needs no type. A browser's form would have a type.
	h.want(t, "POST", "/v1/models/m/snapshots", "")
	a = h.call(t, "POST", "/v1/models/m/snapshots", "", "Content-Type", "application/x-www-form-urlencoded")
	a.rejected(t, "a form", 415, "INVALID_ARGUMENT", "UNSUPPORTED_MEDIA_TYPE", "", "want application/json")
	a = h.call(t, "POST", "/v1/models:import?id=n", "x")
	a.rejected(t, "an import", 415, "INVALID_ARGUMENT", "UNSUPPORTED_MEDIA_TYPE", "", "want application/octet-stream")
	// A method in a header is none.
	a = h.call(t, "POST", "/v1/models/m", "{}", "X-HTTP-Method-Override", "DELETE", "Content-Type", "application/x-www-form-urlencoded")
	assert.Equal(t, 405, a.status, "a method in a header")
	h.want(t, "GET", "/v1/models/m", "")
}

// A body whose length is not known is bounded too.
func TestChunkedBody(t *testing.T) {
	h := serve(t)
	h.want(t, "POST", "/v1/models", linear("m"))
	send := func(body string) *answer {
		r := h.request(t, "POST", "/v1/models/m:predict", "{}")
		r.Body, r.ContentLength, r.GetBody = io.NopCloser(io.MultiReader(strings.NewReader(body))), -1, nil
		return h.do(t, r)
	}
	a := send(`{"features":[1,2]}`)
	assert.Equal(t, 200, a.status, a.body)
	send(`{"features":[`+strings.Repeat("0,", 1<<19)+`0]}`).rejected(t, "a large body", 413, "RESOURCE_EXHAUSTED", "REQUEST_TOO_LARGE", "", "1048576")
}

// An import whose body breaks off is rejected for that, and not as a whole model that is corrupt. It creates nothing.
func TestAnImportThatBreaksOff(t *testing.T) {
	h := serve(t)
	c := h.dial(t)
	_, err := io.WriteString(c, "POST /v1/models:import?id=m HTTP/1.1\r\nHost: h\r\nContent-Type: application/octet-stream\r\nContent-Length: 100\r\n\r\nHINDSNAP")
	tcp, ok := c.(*net.TCPConn)
	require.True(t, ok)
	require.NoError(t, errors.Join(err, tcp.CloseWrite()))
	answer, err := io.ReadAll(c)
	require.NoError(t, err)
	assert.Contains(t, string(answer), `"message":"the body broke off: unexpected EOF"`)
	assert.Contains(t, string(answer), "BODY_INCOMPLETE")
	h.call(t, "GET", "/v1/models/m", "").rejected(t, "the model", 404, "NOT_FOUND", "MODEL_NOT_FOUND", "", `"m"`)
}

// A client that sends the whole of a large body before it reads has its answer, and the
// connection is closed after it.
func TestAnAnswerBeforeTheBodyIsRead(t *testing.T) {
	h := serve(t)
	h.want(t, "POST", "/v1/models", linear("m"))
	for _, kind := range []string{"application/json", "text/plain"} {
		c := h.dial(t)
		const size = 32 << 20 // More than the buffers of the two sockets.
		_, err := fmt.Fprintf(c, "POST /v1/models/m:predict HTTP/1.1\r\nHost: h\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", kind, size)
		if err == nil {
			_, err = c.Write(make([]byte, size))
		}
		require.NoError(t, err, kind)
		response, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err, kind)
		assert.Equal(t, map[string]int{"application/json": 413, "text/plain": 415}[kind], response.StatusCode, kind)
		assert.NoError(t, errors.Join(response.Body.Close(), c.Close()))
	}
}

// failing is a server whose every call ends with an error.
type failing struct {
	gateway.Server
	err error
}

func (f failing) Invoke(context.Context, string, any, any, ...grpc.CallOption) error { return f.err }

// Every code has its HTTP status, and RetryInfo is in the header too.
func TestCodes(t *testing.T) {
	want := map[codes.Code]int{
		codes.Canceled: 499, codes.Unknown: 500, codes.InvalidArgument: 400, codes.DeadlineExceeded: 504, codes.NotFound: 404,
		codes.AlreadyExists: 409, codes.PermissionDenied: 403, codes.ResourceExhausted: 429, codes.FailedPrecondition: 400,
		codes.Aborted: 409, codes.OutOfRange: 400, codes.Unimplemented: 501, codes.Internal: 500, codes.Unavailable: 503,
		codes.DataLoss: 500, codes.Unauthenticated: 401,
	}
	for _, code := range slices.Sorted(maps.Keys(want)) {
		s, err := status.New(code, "so").WithDetails(
			&errdetails.ErrorInfo{Reason: "WHY", Domain: "hindsight"}, &errdetails.RetryInfo{RetryDelay: durationpb.New(1050 * time.Millisecond)})
		require.NoError(t, err)
		h := new(host)
		h.start(t, failing{err: s.Err()})
		a := h.call(t, "GET", "/v1/models", "")
		name := map[codes.Code]string{codes.Canceled: "CANCELLED"}[code]
		if name == "" {
			name = strings.ToUpper(strings.Join(words(code.String()), "_"))
		}
		a.rejected(t, name, want[code], name, "WHY", "", "so")
		if a.header.Get("Retry-After") != "2" || a.detail("RetryInfo")["retryDelay"] != "1.050s" {
			t.Errorf("%s: Retry-After %q, %s", name, a.header.Get("Retry-After"), a.body)
		}
		got := a.header.Get("WWW-Authenticate")
		assert.Equal(t, (code == codes.Unauthenticated), (got != ""), "%v %v", name, got)
	}
}

// words are those of a name like InvalidArgument.
func words(name string) []string {
	var out []string
	for _, c := range name {
		if c >= 'A' && c <= 'Z' {
			out = append(out, "")
		}
		out[len(out)-1] += string(c)
	}
	return out
}

// The interceptors of the server count calls over HTTP, and bound their time.
func TestCallsPassTheInterceptors(t *testing.T) {
	h := serve(t)
	h.want(t, "POST", "/v1/models", linear("m"))
	assert.EqualValues(t, 1, h.handled(t, hindsightv1.ModelService_CreateModel_FullMethodName))
	a := h.call(t, "GET", "/v1/models/m/stats", "", "Grpc-Timeout", "1n")
	assert.True(t, a.status == 504 && a.at("error", "status") == "DEADLINE_EXCEEDED", "a call without time: %d %s", a.status, a.body)
	a = h.call(t, "GET", "/v1/models/m/stats", "", "Grpc-Timeout", "soon")
	a.rejected(t, "a timeout", 400, "INVALID_ARGUMENT", "INVALID_PARAMETER", "", "soon")
}

// Requests that hold too much together are rejected, and taken again later.
func TestBodiesHoldMemory(t *testing.T) {
	began, release := make(chan struct{}), make(chan struct{})
	h := new(host)
	h.start(t, blocking{began: began, release: release}, func(o *gateway.Options) { o.MemoryLimit = 8 << 20 })
	body := `{"features":[` + strings.Repeat("0,", 100_000) + `0]}`
	first := make(chan int, 1)
	go func() {
		r := h.request(t, "POST", "/v1/models/m:predict", body)
		response, err := h.client.Do(r)
		if err != nil {
			t.Error(err)
			first <- 0
			return
		}
		_ = response.Body.Close()
		first <- response.StatusCode
	}()
	<-began
	a := h.call(t, "POST", "/v1/models/m:predict", body)
	a.rejected(t, "the second body", 429, "RESOURCE_EXHAUSTED", "OVERLOADED", "", "memory")
	assert.Equal(t, "1", a.header.Get("Retry-After"))
	close(release)
	assert.Equal(t, 200, <-first)
	a = h.call(t, "POST", "/v1/models/m:predict", body)
	assert.Equal(t, 200, a.status, "a body after the first %s", a.body)
}

// blocking is a server that answers when it is released.
type blocking struct {
	gateway.Server
	began, release chan struct{}
}

func (b blocking) Invoke(ctx context.Context, _ string, _, _ any, _ ...grpc.CallOption) error {
	select {
	case b.began <- struct{}{}:
	case <-b.release:
	}
	select {
	case <-b.release:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

// Drain waits for requests in flight, and rejects others.
func TestDrain(t *testing.T) {
	began, release := make(chan struct{}), make(chan struct{})
	h := new(host)
	h.start(t, blocking{began: began, release: release})
	first := make(chan []byte, 1)
	go func() {
		response, err := h.client.Do(h.request(t, "GET", "/v1/models", ""))
		if err != nil {
			t.Error(err)
			first <- nil
			return
		}
		text, err := io.ReadAll(response.Body)
		assert.NoError(t, err)
		_ = response.Body.Close()
		first <- text
	}()
	<-began
	drained := make(chan struct{})
	go func() {
		h.gateway.Drain()
		close(drained)
	}()
	for h.call(t, "GET", "/openapi.json", "").status == 200 { // Until the draining has begun.
	}
	h.call(t, "GET", "/v1/models", "").rejected(t, "a request while it drains", 503, "UNAVAILABLE", "SHUTTING_DOWN", "", "shutting down")
	select {
	case <-drained:
		t.Error("drained before the call in flight ended")
	default:
	}
	close(release)
	<-drained
	got := <-first
	assert.True(t, bytes.Contains(got, []byte(`"models":[]`)), "the call in flight was answered %q", got)
}
