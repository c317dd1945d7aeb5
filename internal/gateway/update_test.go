package gateway_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// The mask of an update is in the query, with either kind of names, or is what the body
// has.
func TestUpdateMask(t *testing.T) {
	w := &watched{updates: make(chan *hindsightv1.UpdateModelRequest, 1)}
	h := w.serve(t)
	const body = `{"etag":"e","displayName":"M","labels":{"cost_center":"x"},"labelTtl":"3s"}`
	for _, c := range []struct {
		query, body string
		want        []string
	}{
		{"?updateMask=displayName,labels.costCenter,labels.cost_center,maxPendingLabels", body, []string{"display_name", "labels.costCenter", "labels.cost_center", "max_pending_labels"}},
		{"?update_mask=display_name,label_ttl&validateOnly=true", body, []string{"display_name", "label_ttl"}},
		{"?updateMask=*", body, []string{"*"}},
		{"?updateMask=colour", body, []string{"colour"}},
		{"", body, []string{"display_name", "label_ttl", "labels"}},
		{"", `{"max_pending_labels":7,"id":"m"}`, []string{"max_pending_labels"}},
		{"", `{}`, nil},
		{"", "", nil},
	} {
		h.want(t, "PATCH", "/v1/models/m"+c.query, c.body, "Content-Type", "application/json")
		got := <-w.updates
		assert.True(t, slices.Equal(got.GetUpdateMask().GetPaths(), c.want), "%s %s: mask %v, want %v", c.query, c.body, got.GetUpdateMask().GetPaths(), c.want)
		assert.True(t, got.GetModel().GetId() == "m" && (c.body != body || (got.GetModel().GetEtag() == "e" && got.GetModel().GetLabelTtl().GetSeconds() == 3)), "%s %s: %v", c.query, c.body, got)
	}
}

// A body that names another model than the path does is rejected, with the name that is wrong.
func TestUpdateOfAnotherModel(t *testing.T) {
	w := &watched{updates: make(chan *hindsightv1.UpdateModelRequest, 2)}
	h := w.serve(t)
	for _, body := range []string{`{"max_pending_labels":7,"id":"other"}`, `{"id":"other"}`} {
		a := h.call(t, "PATCH", "/v1/models/m", body)
		message, _ := a.at("error", "message").(string)
		assert.True(t, a.status == http.StatusBadRequest && message == `body: id: got "other", want "m" as in the path, or nothing`, "%s: %d %s", body, a.status, a.body)
	}
	select {
	case got := <-w.updates:
		t.Errorf("the server was called with %v", got)
	default:
	}
}
