package main_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// rejectsOtherHosts asks for what a page could read whose name points to this machine.
func (p *process) rejectsOtherHosts(t *testing.T) {
	t.Helper()
	for _, path := range []string{"/v1/models", "/metrics", "/server.json"} {
		r := must(http.NewRequestWithContext(t.Context(), http.MethodGet, p.http+path, http.NoBody))(t)
		r.Host = "rebound.example:9464"
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		err = answer.Body.Close()
		assert.True(t, err == nil && answer.StatusCode == http.StatusForbidden, "%s of another host: %s, %v", path, answer.Status, err)
	}
}

// Over HTTP a call is counted as over gRPC, and --cors-origins lets pages call.
func TestGatewayIsCounted(t *testing.T) {
	const page = "https://page.example"
	p := launch(t, t.TempDir(), "--cors-origins", page)
	r := must(http.NewRequestWithContext(t.Context(), http.MethodPost, p.http+"/v1/models", strings.NewReader(`{"id":"m","spec":{"dimension":1}}`)))(t)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Origin", page)
	response, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	_ = response.Body.Close()
	assert.True(t, response.StatusCode == http.StatusOK && response.Header.Get("Access-Control-Allow-Origin") == page, "%d %v", response.StatusCode, response.Header)
	families := p.scrape(t, "text/plain")
	var counted strings.Builder
	for _, m := range families["grpc_server_handled_total"].GetMetric() {
		if m.GetCounter().GetValue() == 1 {
			fmt.Fprint(&counted, m.GetLabel())
		}
	}
	assert.Contains(t, counted.String(), "CreateModel")
	_, err = p.models.GetModel(t.Context(), &hindsightv1.GetModelRequest{Model: "m"})
	assert.NoError(t, err)
	p.rejectsOtherHosts(t)
	p.terminate(t)
}
