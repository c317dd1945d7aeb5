package gateway_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/auth"
)

// A model goes out and comes in in pieces, larger than a message may be.
func TestExportAndImport(t *testing.T) {
	h := serve(t)
	h.want(t, "POST", "/v1/models", `{"id":"m","spec":{"dimension":600,"linearAwv":{},"scaling":{"none":{}}}}`)
	features := strings.TrimSuffix(strings.Repeat("0.5,", 600), ",")
	h.want(t, "POST", "/v1/models/m:predict", `{"features":[`+features+`],"predictionId":"p"}`)
	out := h.want(t, "GET", "/v1/models/m:export", "")
	require.GreaterOrEqual(t, len(out.body), int(1<<20), "%d bytes, want more than a message has", len(out.body))
	got := out.header.Get("Content-Disposition")
	assert.True(t, got == `attachment; filename="m.hindsight"` && out.header.Get("Content-Type") == "application/octet-stream", "header %v", out.header)
	const bytesType = "application/octet-stream"
	in := h.want(t, "POST", "/v1/models:import?id=n", string(out.body), "Content-Type", bytesType)
	assert.True(t, in.at("model", "id") == "n", "imported %s", in.body)
	a, b := h.want(t, "GET", "/v1/models/m/stats", ""), h.want(t, "GET", "/v1/models/n/stats", "")
	assert.True(t, a.at("stats", "stateDigest") == b.at("stats", "stateDigest") && b.at("stats", "pendingLabels") == "1", "statistics %s, want those of %s", b.body, a.body)
	h.call(t, "POST", "/v1/models:import?id=n", string(out.body[:len(out.body)/2]), "Content-Type", bytesType).
		rejected(t, "a half", 400, "INVALID_ARGUMENT", "INVALID_REQUEST", "chunk", "")
	other := h.want(t, "GET", "/v1/models/m:export?withoutIds=true", "")
	assert.Less(t, len(other.body), len(out.body), "%d bytes without ids, %d with", len(other.body), len(out.body))
}

// An upload that breaks off creates nothing.
func TestImportThatBreaksOff(t *testing.T) {
	h := serve(t)
	h.want(t, "POST", "/v1/models", linear("m"))
	out := h.want(t, "GET", "/v1/models/m:export", "")
	r := h.request(t, "POST", "/v1/models:import?id=n", "x", "Content-Type", "application/octet-stream")
	broken := errors.New("broken")
	r.Body, r.ContentLength, r.GetBody = io.NopCloser(io.MultiReader(bytes.NewReader(out.body[:64]), failingReader{broken})), -1, nil
	response, err := h.client.Do(r)
	if err == nil {
		_ = response.Body.Close()
		t.Fatalf("status %d", response.StatusCode)
	}
	h.call(t, "GET", "/v1/models/n", "").rejected(t, "the model", 404, "NOT_FOUND", "MODEL_NOT_FOUND", "", `"n"`)
}

// An import that is rejected is answered at once, also if its body does not come.
func TestRejectedImportWithoutABody(t *testing.T) {
	g := guard(t, who("read", auth.Read))
	for _, length := range []int{100, 1 << 20} {
		connection := must(new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(g.url, "http://")))(t)
		defer func() { _ = connection.Close() }()
		must(fmt.Fprintf(connection, "POST /v1/models:import?id=n HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer read\r\n"+
			"Content-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n", length))(t)
		// The server would wait a minute for the body.
		require.NoError(t, connection.SetReadDeadline(time.Now().Add(30*time.Second)))
		line, err := bufio.NewReader(connection).ReadString('\n')
		assert.True(t, err == nil && line == "HTTP/1.1 403 Forbidden\r\n", "%d bytes: %q, %v", length, line, err)
	}
}

type failingReader struct{ err error }

func (f failingReader) Read([]byte) (int, error) { return 0, f.err }

// An export that fails on its way is no whole answer, and one that fails before it is
// an error.
func TestExportThatFails(t *testing.T) {
	piece := make([]byte, 64<<10)
	for i := range piece {
		piece[i] = byte(rand.Uint32())
	}
	pieces := 0
	w := &watched{export: func(s grpc.ServerStreamingServer[hindsightv1.ExportModelResponse]) error {
		for range pieces {
			if err := s.Send(&hindsightv1.ExportModelResponse{Chunk: piece}); err != nil {
				return err
			}
		}
		return status.Error(codes.DataLoss, "corrupt")
	}}
	h := w.serve(t)
	a := h.call(t, "GET", "/v1/models/m:export", "")
	assert.True(t, a.status == 500 && a.at("error", "status") == "DATA_LOSS", "%d %s", a.status, a.body)
	pieces = 8
	response := must(h.client.Do(h.request(t, http.MethodGet, "/v1/models/m:export", "")))(t)
	defer func() { _ = response.Body.Close() }()
	_, err := io.ReadAll(response.Body)
	assert.Error(t, err, "a part was taken for the whole")
}
