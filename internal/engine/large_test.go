package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"hindsight/internal/engine"
	"hindsight/internal/model"
)

// An import or a restore that the log of a cluster does not take is rejected with its size and the limit, and changes
// nothing.
func TestTooLargeForTheLog(t *testing.T) {
	const limit = 16 << 10
	s := startServers(t, 2)
	owner := s.move(0)
	owner.host.create(t, "m", linear(60))
	row := make([]float64, 60)
	for n := range 20 {
		row[n] = 1
		owner.host.observe(t, "m", engine.Observation{ObservationID: fmt.Sprint("o", n), Features: row, Labels: []float64{float64(n)}, Weight: 1})
	}
	export := mustExport(t, owner.host, "m")
	owner.maxCommand = limit
	owner.restart(false)
	s.move(0)
	before, ctx := s.equal()["m"], t.Context()
	_, imported := owner.host.ImportModel(ctx, "other", export)
	_, restored := owner.host.RestoreModel(ctx, "m", 10)
	for what, err := range map[string]error{"import": imported, "restore": restored} {
		if !errors.Is(err, model.ErrSpecTooLarge) || !strings.HasSuffix(err.Error(), fmt.Sprintf("bytes, want at most %d", limit)) {
			t.Errorf("%s: %v, want the size and the limit of %d bytes", what, err, limit)
		}
	}
	if after := s.equal()["m"]; after.Digest != before.Digest || after.Sequence != 20 {
		t.Errorf("%+v after rejections, want %+v", after, before)
	}
	owner.host.create(t, "other", linear(1)) // The name is free.
	owner.host.observe(t, "m", engine.Observation{ObservationID: "o20", Features: row, Labels: []float64{20}, Weight: 1})
	if after := s.equal()["m"]; after.Sequence != 21 {
		t.Errorf("%+v after another observation, want sequence 21", after)
	}
}
