package infer_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

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
		assert.Equal(t, c.kind, got.Kind, "%s: a, want a: %s", name, got.Reason)
		if c.kind != infer.Text {
			continue
		}
		assert.True(t, got.Input.GetText() != nil && infer.KindOf(got.Input) == infer.Text, "%s: declared as %v", name, got.Input)
		v, err := got.Value(c.cells[3])
		assert.True(t, err == nil && v == strings.TrimSpace(c.cells[3]), "%s: the value %v, %v", name, v, err)
	}
}
