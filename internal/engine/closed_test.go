package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"hindsight/internal/engine"
)

// TestClosed: every call about a model fails with ErrClosed.
func TestClosed(t *testing.T) {
	e, ctx := engine.Closed(), t.Context()
	assert.Equal(t, "", e.AliasTarget("a"), "an alias")
	for name, call := range map[string]func() error{
		"Await":         func() error { return e.Await(ctx, "m", "", 1) },
		"CompareModels": func() error { _, err := e.CompareModels(ctx, "m"); return err },
		"CreateModel":   func() error { _, err := e.CreateModel(ctx, "m", linear(2), engine.CreateOptions{}); return err },
		"a follower": func() error {
			_, err := e.CreateModel(ctx, "m", linear(2), engine.CreateOptions{Follows: "n"})
			return err
		},
		"DeleteAlias":   func() error { return e.DeleteAlias(ctx, "a") },
		"DeleteModel":   func() error { _, err := e.DeleteModel(ctx, "m", engine.DeleteOptions{}); return err },
		"ExportModel":   func() error { _, err := e.ExportModel(ctx, "m", engine.ExportOptions{}); return err },
		"GetModel":      func() error { _, err := e.GetModel(ctx, "m"); return err },
		"ListSnapshots": func() error { _, err := e.ListSnapshots(ctx, "m"); return err },
		"ModelHistory":  func() error { _, err := e.ModelHistory(ctx, "m"); return err },
		"ModelStats":    func() error { _, err := e.ModelStats(ctx, "m", engine.StatsOptions{}); return err },
		"Resolve":       func() error { _, err := e.Resolve("m"); return err },
		"RestoreModel":  func() error { _, _, err := e.RestoreModel(ctx, "m", 1, false); return err },
		"Route":         func() error { _, err := e.Route(ctx, "m"); return err },
		"SequenceAt":    func() error { _, err := e.SequenceAt(ctx, "m", time.Now()); return err },
		"ShareAlias":    func() error { _, err := e.ShareAlias(ctx, "a", "m", "", nil); return err },
		"SnapshotModel": func() error { _, err := e.SnapshotModel(ctx, "m"); return err },
		"UndeleteModel": func() error { _, err := e.UndeleteModel(ctx, "m"); return err },
		"UpdateModel":   func() error { _, err := e.UpdateModel(ctx, "m", engine.UpdateOptions{}); return err },
		"Watch":         func() error { _, err := e.Watch(ctx, "m", 1); return err },
	} {
		assert.ErrorIs(t, call(), engine.ErrClosed, name)
	}
}
