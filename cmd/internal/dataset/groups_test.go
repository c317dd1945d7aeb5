package dataset_test

import (
	"testing"

	"hindsight/cmd/internal/dataset"
)

// A number that begins with a zero has no groups of thousands.
func TestPlainGroups(t *testing.T) {
	for text, want := range map[string]string{"1,234": "1234", "0,123": "0,123", "-0,500": "-0,500", "00,123": "00,123"} {
		if got, _ := dataset.Plain(text, false); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
