package main_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// exported returns the export of a model whose state has about the given number of bytes.
func exported(t *testing.T, bytes int) []byte {
	t.Helper()
	dimension := 1
	for 4*dimension*dimension < bytes { // Half of a symmetric matrix.
		dimension++
	}
	p := launch(t, t.TempDir())
	_, err := p.models.CreateModel(t.Context(), &hindsightv1.CreateModelRequest{Id: "large", Spec: &hindsightv1.ModelSpec{
		Dimension: int32(dimension), Scaling: unscaled(), Learner: &hindsightv1.ModelSpec_LinearAwv{LinearAwv: &hindsightv1.LinearAwv{}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := p.models.ExportModel(t.Context(), &hindsightv1.ExportModelRequest{Model: "large"})
	if err != nil {
		t.Fatal(err)
	}
	var out []byte
	for len(out) == 0 || err == nil {
		var part *hindsightv1.ExportModelResponse
		part, err = stream.Recv()
		out = append(out, part.GetChunk()...)
	}
	p.terminate(t)
	return out
}

// imports sends a model to a server.
func (p *process) imports(t *testing.T, data []byte) error {
	t.Helper()
	stream, err := p.models.ImportModel(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for part := range slices.Chunk(data, 256<<10) {
		if stream.Send(&hindsightv1.ImportModelRequest{Id: "large", Chunk: part}) != nil {
			break // CloseAndRecv returns the error.
		}
	}
	_, err = stream.CloseAndRecv()
	return err
}

// A large import passes slow links among the servers. No server ends.
func TestALargeImportPassesSlowLinks(t *testing.T) {
	endToEnd(t)
	for _, c := range []struct{ megabytes, megabits int }{{8, 10}} {
		t.Run(fmt.Sprintf("%d MB at %d Mbit a second", c.megabytes, c.megabits), func(t *testing.T) {
			data := exported(t, c.megabytes*1_000_000)
			f := newFleet(t, 1, 3, 1)
			f.net.all(func(from, to int) bool { return from != clientsEnd && to != clientsEnd }, func(g *gate) { g.limit(c.megabits * 1_000_000 / 8) })
			stop := make(chan struct{})
			unowned := make(chan time.Duration)
			go func() { // The longest time without an owner.
				var longest time.Duration
				last := time.Now()
				for tick := time.Tick(20 * time.Millisecond); ; {
					select {
					case <-tick:
					case <-stop:
						unowned <- max(longest, time.Since(last))
						return
					}
					for _, m := range f.running() {
						if v := f.view(m, 0); v.GetOwner() != "" && v.GetOwner() == v.GetServer() {
							longest, last = max(longest, time.Since(last)), time.Now()
						}
					}
				}
			}()
			began, attempts := time.Now(), 0
			eventually(t, "an import", func() bool { // A busy machine may elect another owner meanwhile.
				attempts++
				err := f.owner().process.imports(t, data)
				if err != nil && status.Code(err) != codes.Unavailable && status.Code(err) != codes.AlreadyExists {
					t.Fatal(err)
				}
				return err == nil || status.Code(err) == codes.AlreadyExists
			})
			took := time.Since(began)
			close(stop)
			t.Logf("%d bytes after %v, %d attempts, at most %v without an owner", len(data), took, attempts, <-unowned)
			f.net.all(func(int, int) bool { return true }, func(g *gate) { g.limit(0) })
			for _, m := range f.members {
				eventually(t, "every server has the model", func() bool {
					_, err := m.process.models.GetModel(t.Context(), &hindsightv1.GetModelRequest{Model: "large"})
					return err == nil
				})
				m.process.terminate(t)
			}
		})
	}
}
