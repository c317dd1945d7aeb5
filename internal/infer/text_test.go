package infer_test

import (
	"fmt"
	"strings"
	"testing"

	"hindsight/internal/infer"
)

func TestTextsOfSeveralWords(t *testing.T) {
	message := func(i int) string { return fmt.Sprintf("call %d now to win a prize", i) }
	for name, c := range map[string]struct {
		cells []string
		kind  infer.Kind
	}{
		"messages":         {each(100, message), infer.Text},
		"long messages":    {each(100, func(i int) string { return strings.Repeat(message(i)+" ", 20) }), infer.Text},
		"names":            {each(100, func(i int) string { return fmt.Sprintf("Ann %d Doe", i) }), infer.LeftOut},
		"ids":              {each(100, func(i int) string { return fmt.Sprintf("x%d", i) }), infer.LeftOut},
		"repeated phrases": {each(400, func(i int) string { return message(i % 5) }), infer.Category},
		"too long":         {each(100, func(i int) string { return strings.Repeat(message(i)+" ", 1000) }), infer.LeftOut},
	} {
		got := column(t, c.cells...)
		if got.Kind != c.kind {
			t.Errorf("%s: a %s, want a %s: %s", name, got.Kind, c.kind, got.Reason)
		}
		if c.kind != infer.Text {
			continue
		}
		if got.Input.GetText() == nil || infer.KindOf(got.Input) != infer.Text {
			t.Errorf("%s: declared as %v", name, got.Input)
		}
		if v, err := got.Value(c.cells[3]); err != nil || v != strings.TrimSpace(c.cells[3]) {
			t.Errorf("%s: the value %v, %v", name, v, err)
		}
	}
}
