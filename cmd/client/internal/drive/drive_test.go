package drive_test

import (
	"testing"

	"hindsight/cmd/client/internal/drive"
)

// Options that exclude each other are refused before a call.
func TestBatchesAreNotDelayed(t *testing.T) {
	for name, o := range map[string]drive.Options{
		"Delay": {Batches: true, Delay: 1}, "Timed": {Batches: true, Timed: true},
	} {
		if result, err := drive.Run(t.Context(), nil, "m", nil, o); result == nil || err == nil {
			t.Errorf("Batches with %s: %v, %v, want an error", name, result, err)
		}
	}
}
