package rpc_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc/status"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/auth"
)

// An alias goes back and forth between a model of the caller's and one of another team, while
// the caller calls by the alias: what answers is never the other model.
func TestScopeWhileAnAliasMoves(t *testing.T) {
	const foreign = "b-model"
	least := 100 * time.Millisecond
	if os.Getenv("HINDSIGHT_E2E") != "" {
		least = 2 * time.Second
	}
	g := guard(t, who("admin", auth.Admin), who("a", auth.Admin, "a-"))
	g.create2(t, "a-1", foreign)
	admin := as(t.Context(), "admin")
	marked := &hindsightv1.Model{Id: foreign, DisplayName: foreign}
	update := &hindsightv1.UpdateModelRequest{Model: marked}
	update.UpdateMask = mask("display_name")
	must(g.models.UpdateModel(admin, update))(t)
	set := func(model string) {
		_, err := g.models.SetAlias(admin, &hindsightv1.SetAliasRequest{Alias: "a-live", Model: model})
		assert.NoError(t, err)
	}
	set("a-1")
	within := hindsightv1.NewModelServiceClient(g.local(t))
	// Each answers what shows the model that answered.
	for name, call := range map[string]func(ctx context.Context) (string, error){
		"GetModel": func(ctx context.Context) (string, error) {
			r, err := within.GetModel(ctx, &hindsightv1.GetModelRequest{Model: "a-live"})
			return r.GetModel().GetId(), err
		},
		"GetModelStats": func(ctx context.Context) (string, error) {
			r, err := within.GetModelStats(ctx, &hindsightv1.GetModelStatsRequest{Model: "a-live"})
			return r.GetStats().GetModel(), err
		},
		"WatchModel": func(ctx context.Context) (string, error) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			watch, err := within.WatchModel(ctx, &hindsightv1.WatchModelRequest{Model: "a-live"})
			if err != nil {
				return "", err
			}
			r, err := watch.Recv()
			cancel() // The server bounds the watches: this one ends before the next begins.
			for err := err; err == nil; {
				_, err = watch.Recv()
			}
			return r.GetStats().GetModel(), err
		},
		"ExportModel": func(ctx context.Context) (string, error) {
			export, err := within.ExportModel(ctx, &hindsightv1.ExportModelRequest{Model: "a-live"})
			var data []byte
			for err == nil {
				var r *hindsightv1.ExportModelResponse
				r, err = export.Recv()
				data = append(data, r.GetChunk()...)
			}
			if err == io.EOF { //nolint:errorlint // As gRPC says.
				err = nil
			}
			if bytes.Contains(data, []byte(foreign)) { // Its display name.
				return foreign, err
			}
			return "a-1", err
		},
		"UpdateModel": func(ctx context.Context) (string, error) {
			r, err := within.UpdateModel(ctx, &hindsightv1.UpdateModelRequest{
				Model: &hindsightv1.Model{Id: "a-live", Labels: map[string]string{"by": "a"}}, UpdateMask: mask("labels"),
			})
			return r.GetModel().GetId(), err
		},
	} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan struct{})
			var group sync.WaitGroup
			group.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-ended:
						return
					default:
						set([]string{foreign, "a-1"}[n%2])
					}
				}
			})
			var calls, own, rejected, others atomic.Int64
			var callers sync.WaitGroup
			for range 4 {
				callers.Go(func() {
					for until := time.Now().Add(least); time.Now().Before(until) || own.Load() == 0 || rejected.Load() == 0; {
						ctx, cancel := context.WithCancel(as(t.Context(), "a"))
						answered, err := call(ctx)
						cancel()
						calls.Add(1)
						switch {
						case answered == foreign, err != nil && strings.Contains(err.Error(), foreign):
							others.Add(1)
						case err == nil:
							own.Add(1)
						case reason(status.Convert(err)) == "MODEL_OUT_OF_SCOPE":
							rejected.Add(1)
						default:
							t.Error(err)
							return
						}
					}
				})
			}
			callers.Wait()
			close(ended)
			group.Wait()
			t.Logf("%d calls: %d answers, %d rejections, %d by the other model", calls.Load(), own.Load(), rejected.Load(), others.Load())
			if others.Load() > 0 {
				t.Errorf("the other model answered %d of %d calls", others.Load(), calls.Load())
			}
		})
	}
	r, err := g.models.GetModel(admin, &hindsightv1.GetModelRequest{Model: foreign})
	assert.True(t, err == nil && len(r.GetModel().GetLabels()) == 0, "the other model was changed: %v, %v", r, err)
}
