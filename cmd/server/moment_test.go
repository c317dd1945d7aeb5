package main_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// between is a time after all records of before and before all of after.
func between() time.Time {
	at := time.Now()
	for !time.Now().After(at) {
		continue
	}
	return at
}

// createAs creates a model like that of create.
func (p *process) createAs(t *testing.T, id, follows string) {
	t.Helper()
	degree := int32(3)
	_, err := p.models.CreateModel(t.Context(), &hindsightv1.CreateModelRequest{Id: id, Follows: follows, Spec: &hindsightv1.ModelSpec{
		Dimension: 2, Scaling: unscaled(), Learner: &hindsightv1.ModelSpec_PkawvTaylor{PkawvTaylor: &hindsightv1.PkawvTaylor{Degree: &degree}},
	}})
	if err != nil {
		t.Fatal(err)
	}
}

// observeAs sends observations to a model.
func (p *process) observeAs(t *testing.T, id string, from, to int) (duplicates int) {
	t.Helper()
	for n := from; n < to; n++ {
		o := observation(n)
		o.Model = id
		r, err := p.predictor.Observe(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if r.GetOutcome().GetDuplicate() {
			duplicates++
		}
	}
	return duplicates
}

// model is a model, nil if it is not there.
func (p *process) model(t *testing.T, id string) *hindsightv1.Model {
	t.Helper()
	r, err := p.models.GetModel(t.Context(), &hindsightv1.GetModelRequest{Model: id})
	if status.Code(err) == codes.NotFound {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return r.GetModel()
}

func (p *process) digest(t *testing.T, id string) string {
	t.Helper()
	r, err := p.models.GetModelStats(t.Context(), &hindsightv1.GetModelStatsRequest{Model: id})
	if err != nil {
		t.Fatal(err)
	}
	return r.GetStats().GetStateDigest()
}

func (p *process) alias(t *testing.T, name, id string) {
	t.Helper()
	if _, err := p.models.SetAlias(t.Context(), &hindsightv1.SetAliasRequest{Alias: name, Model: id}); err != nil {
		t.Fatal(err)
	}
}

// From one backup everything comes back as it was at a time before it: states, ids,
// models that were deleted since, aliases that were set since. Models that were created
// since are gone. A time that the logs do not reach back to is refused.
func TestRestoreOfATime(t *testing.T) {
	dir, place := t.TempDir(), t.TempDir()
	p := launch(t, dir)
	for _, id := range []string{"m", "deleted", "leader"} {
		p.createAs(t, id, "")
	}
	p.createAs(t, "follower", "leader")
	early := between()
	p.observeAs(t, "m", 0, 60)
	p.observeAs(t, "deleted", 0, 10)
	p.observeAs(t, "leader", 0, 30)
	p.follows(t, 30)
	p.alias(t, "live", "m")
	want := map[string]string{"m": p.digest(t, "m"), "leader": p.digest(t, "leader"), "follower": p.digest(t, "follower"), "deleted": p.digest(t, "deleted")}
	at := between()
	p.observeAs(t, "m", 60, 90)
	p.observeAs(t, "leader", 30, 40)
	p.follows(t, 40)
	p.createAs(t, "later", "")
	p.observeAs(t, "later", 0, 5)
	p.alias(t, "live", "leader")
	p.alias(t, "new", "later")
	if _, err := p.models.DeleteModel(t.Context(), &hindsightv1.DeleteModelRequest{Model: "deleted"}); err != nil {
		t.Fatal(err)
	}
	// One model, while the server serves.
	restore := &hindsightv1.RestoreModelRequest{Model: "later", Time: timestamppb.New(at)}
	if _, err := p.models.RestoreModel(t.Context(), restore); status.Code(err) == codes.OK || !strings.Contains(err.Error(), "was created at") {
		t.Errorf("a time before the model: %v", err)
	}
	succeed[backedUp](t, "backup", "--data-dir", dir, "--to", place)
	r, err := p.models.RestoreModel(t.Context(), &hindsightv1.RestoreModelRequest{Model: "m", Time: timestamppb.New(at)})
	if err != nil || r.GetUndone() != 30 || r.GetModel().GetSequence() != 60 || p.digest(t, "m") != want["m"] {
		t.Errorf("one model: %v, %v", r, err)
	}
	p.terminate(t)

	restored := filepath.Join(t.TempDir(), "restored")
	report := succeed[struct {
		Moment struct {
			Models []struct {
				ID                 string
				Undone             uint64
				Removed, Undeleted bool
			}
			Aliases []struct{ Name, Model string }
		}
	}](t, "restore", "--from", place, "--at", at.Format(time.RFC3339Nano), "--data-dir", restored)
	if len(report.Moment.Models) != 5 || len(report.Moment.Aliases) != 2 {
		t.Errorf("%+v", report)
	}
	p = launch(t, restored)
	for id, digest := range want {
		if got := p.digest(t, id); got != digest {
			t.Errorf("%s: %s, want %s", id, got, digest)
		}
	}
	if p.model(t, "later") != nil || p.model(t, "new") != nil || p.model(t, "live").GetId() != "m" || p.model(t, "follower").GetFollows() != "leader" {
		t.Errorf("later %v, new %v, live %v, follower %v", p.model(t, "later"), p.model(t, "new"), p.model(t, "live"), p.model(t, "follower"))
	}
	if got := p.observeAs(t, "m", 0, 90); got != 60 {
		t.Errorf("%d duplicates, want 60", got)
	}
	p.observeAs(t, "leader", 30, 40)
	p.follows(t, 40)
	p.terminate(t)
	if a := execute(t, "fsck", "--data-dir", restored); a.code != 0 {
		t.Errorf("fsck: %s%s", a.out, a.errors)
	}

	gone := filepath.Join(t.TempDir(), "gone")
	if a := execute(t, "restore", "--from", place, "--at", early.Add(-time.Hour).Format(time.RFC3339Nano), "--data-dir", gone); a.code != 0 {
		t.Errorf("a time before all models: %+v", a)
	}
	p = launch(t, gone)
	if list, err := p.models.ListModels(t.Context(), &hindsightv1.ListModelsRequest{}); err != nil || len(list.GetModels()) > 0 {
		t.Errorf("%v, %v", list, err)
	}
}

// follows waits until the follower has learned as many observations: a comparison learns
// what is left.
func (p *process) follows(t *testing.T, sequence uint64) {
	t.Helper()
	const id = "follower"
	for {
		if _, err := p.models.CompareModels(t.Context(), &hindsightv1.CompareModelsRequest{Model: id}); err != nil {
			t.Fatal(err)
		}
		if p.model(t, id).GetSequence() == sequence {
			return
		}
	}
}

// A time that the log of a model does not reach back to is refused, and names the model.
func TestRestoreOfATimeThatIsNotKept(t *testing.T) {
	dir, place := t.TempDir(), t.TempDir()
	p := launch(t, dir, "--snapshots-kept", "1")
	p.create(t)
	p.observeAs(t, "m", 0, 5)
	at := between()
	p.observeAs(t, "m", 5, 10)
	if _, err := p.models.SnapshotModel(t.Context(), &hindsightv1.SnapshotModelRequest{Model: "m"}); err != nil {
		t.Fatal(err)
	}
	succeed[backedUp](t, "backup", "--data-dir", dir, "--to", place)
	to := filepath.Join(t.TempDir(), "restored")
	a := execute(t, "restore", "--from", place, "--at", at.Format(time.RFC3339Nano), "--data-dir", to)
	if a.code != 1 || !strings.Contains(a.errors, `model "m"`) || !strings.Contains(a.errors, "the log begins at") {
		t.Errorf("%+v", a)
	}
	if left, err := os.ReadDir(to); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// One model of a backup comes into a server that serves, as it was at a time.
func TestOneModelOfABackup(t *testing.T) {
	dir, place := t.TempDir(), t.TempDir()
	p := launch(t, dir)
	p.create(t)
	p.observeAs(t, "m", 0, 40)
	want := p.digest(t, "m")
	at := between()
	p.observeAs(t, "m", 40, 50)
	succeed[backedUp](t, "backup", "--data-dir", dir, "--to", place)
	file := filepath.Join(t.TempDir(), "m.hs")
	for _, wrong := range [][]string{{"--model", "m"}, {"--export", file}} {
		if a := execute(t, append([]string{"restore", "--from", place}, wrong...)...); a.code != 2 {
			t.Errorf("%v: %+v", wrong, a)
		}
	}
	if a := execute(t, "restore", "--from", place, "--model", "none", "--export", file); a.code != 1 || !strings.Contains(a.errors, `no model "none"`) {
		t.Errorf("%+v", a)
	}
	succeed[struct{}](t, "restore", "--from", place, "--model", "m", "--export", file, "--at", at.Format(time.RFC3339Nano))
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p.importAs(t, "again", data)
	if got := p.digest(t, "again"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := p.observeAs(t, "again", 0, 50); got != 40 {
		t.Errorf("%d duplicates, want 40", got)
	}
}

func (p *process) importAs(t *testing.T, id string, data []byte) {
	t.Helper()
	stream, err := p.models.ImportModel(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&hindsightv1.ImportModelRequest{Id: id, Chunk: data}); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if _, err := stream.CloseAndRecv(); err != nil {
		t.Fatal(err)
	}
}

// A burnt machine comes back from the bucket of --snapshot-url alone: states, metadata,
// aliases and deletions. Lost are the observations since the last copy, the ids, and the
// predictions that wait.
func TestBurntMachine(t *testing.T) {
	dir, bucket := t.TempDir(), t.TempDir()
	url := "file://" + filepath.ToSlash(bucket)
	p := launch(t, dir, "--snapshot-url", url)
	for _, id := range []string{"m", "purged", "deleted", "leader", "young"} {
		p.createAs(t, id, "")
	}
	p.createAs(t, "follower", "leader")
	p.observeAs(t, "m", 0, 10)
	if _, err := p.models.SnapshotModel(t.Context(), &hindsightv1.SnapshotModelRequest{Model: "m"}); err != nil {
		t.Fatal(err)
	}
	before := p.digest(t, "m")
	p.copied(t, bucket, "m", 10)
	p.observeAs(t, "m", 10, 20)
	for _, id := range []string{"purged", "deleted", "leader"} {
		p.observeAs(t, id, 0, 20)
	}
	p.follows(t, 20)
	update := &hindsightv1.UpdateModelRequest{
		Model: &hindsightv1.Model{Id: "m", DisplayName: "the first"}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"display_name"}},
	}
	if _, err := p.models.UpdateModel(t.Context(), update); err != nil {
		t.Fatal(err)
	}
	p.alias(t, "live", "m")
	for _, id := range []string{"m", "purged"} {
		if _, err := p.models.SnapshotModel(t.Context(), &hindsightv1.SnapshotModelRequest{Model: id}); err != nil {
			t.Fatal(err)
		}
	}
	p.copied(t, bucket, "purged", 20)
	for id, purge := range map[string]bool{"purged": true, "deleted": false} {
		if _, err := p.models.DeleteModel(t.Context(), &hindsightv1.DeleteModelRequest{Model: id, Purge: purge}); err != nil {
			t.Fatal(err)
		}
	}
	want := p.digest(t, "m")
	p.terminate(t)
	// The machine burns after it has learned a little more.
	p = launch(t, dir, "--snapshot-url", url)
	p.observeAs(t, "m", 20, 27)
	if _, err := p.predictor.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "m", Features: []float64{1, 2}}); err != nil {
		t.Fatal(err)
	}
	p.kill(t)

	restored := filepath.Join(t.TempDir(), "restored")
	report := succeed[struct {
		Models []struct {
			ID       string
			Sequence uint64
			Note     string
		}
		Aliases int
		Removed []string
	}](t, "restore", "--from-snapshots", url, "--data-dir", restored)
	if len(report.Models) != 5 || report.Aliases != 1 || len(report.Removed) != 1 || report.Removed[0] != "purged" {
		t.Errorf("%+v", report)
	}
	p = launch(t, restored)
	m := p.model(t, "live")
	if m.GetId() != "m" || m.GetSequence() != 20 || m.GetDisplayName() != "the first" || p.digest(t, "m") != want {
		t.Errorf("%v", m)
	}
	if s := p.stats(t); s.GetPendingLabels() != 0 {
		t.Errorf("%d predictions wait", s.GetPendingLabels())
	}
	if y, f := p.model(t, "young"), p.model(t, "follower"); y.GetSequence() != 0 || f.GetSequence() != 20 || f.GetFollows() != "" {
		t.Errorf("young %v, follower %v", y, f)
	}
	if _, err := p.models.UndeleteModel(t.Context(), &hindsightv1.UndeleteModelRequest{Model: "deleted"}); err != nil {
		t.Errorf("undelete: %v", err)
	}
	// Ids are lost: what is sent again is learned again.
	if got := p.observeAs(t, "m", 0, 3); got != 0 {
		t.Errorf("%d duplicates", got)
	}
	p.terminate(t)
	if a := execute(t, "fsck", "--data-dir", restored, "--progress"); a.code != 0 || !strings.Contains(a.errors, "2/2 models: 5 of 5") || strings.Contains(a.out, "2/2") {
		t.Errorf("fsck: %s%s", a.out, a.errors)
	}
	if a := execute(t, "fsck", "--data-dir", restored, "--json"); a.code != 0 || a.errors != "" || !strings.HasPrefix(a.out, "{") {
		t.Errorf("fsck: %s%s", a.out, a.errors)
	}

	// A bucket of before has no registry: all models are there, and what is known of them
	// is in their snapshots.
	if err := os.Remove(filepath.Join(bucket, "_registry.json")); err != nil {
		t.Fatal(err)
	}
	// So has one whose newest copy is damaged: the one before it is taken.
	newest, err := filepath.Glob(filepath.Join(bucket, "m", "*", "*20.hs"))
	if err != nil || len(newest) != 1 {
		t.Fatalf("%v, %v", newest, err)
	}
	if err := os.Truncate(newest[0], 100); err != nil {
		t.Fatal(err)
	}
	bare := filepath.Join(t.TempDir(), "bare")
	if a := execute(t, "restore", "--from-snapshots", url, "--data-dir", bare); a.code != 0 || !strings.Contains(a.out, "no registry") || !strings.Contains(a.out, `model "m": sequence 10, 1 copies are bad`) {
		t.Errorf("%+v", a)
	}
	p = launch(t, bare)
	if m := p.model(t, "m"); m.GetSequence() != 10 || m.GetDisplayName() != "" || p.digest(t, "m") != before || p.model(t, "purged") == nil {
		t.Errorf("%v", m)
	}
}

// copied waits until a snapshot was copied.
func (p *process) copied(t *testing.T, bucket, id string, sequence uint64) {
	t.Helper()
	for {
		found, err := filepath.Glob(filepath.Join(bucket, id, "*", fmt.Sprintf("%020d.hs", sequence)))
		if err != nil {
			t.Fatal(err)
		}
		if len(found) == 1 {
			return
		}
		p.model(t, id) // The server has something to do, and t.Context ends the wait.
	}
}

// A server does not start on a directory that was not restored to its end.
func TestHalfRestoredDirectoryIsRefused(t *testing.T) {
	dir := t.TempDir()
	p := launch(t, dir)
	p.create(t)
	p.observe(t, 0, 3, new(atomic.Int64))
	p.terminate(t)
	if err := os.WriteFile(filepath.Join(dir, "restoring"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, arguments := range [][]string{{"--grpc-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0"}, {"fsck"}} {
		if a := execute(t, append(arguments, "--data-dir", dir)...); a.code == 0 || !strings.Contains(a.errors+a.out, "did not end") {
			t.Errorf("%v: %+v", arguments, a)
		}
	}
}

// A time that does not fit in nanoseconds is after all that was learned.
func TestFarTime(t *testing.T) {
	const far = "9999-12-31T23:59:59Z"
	dir, place := t.TempDir(), t.TempDir()
	p := launch(t, dir)
	p.createAs(t, "m", "")
	p.observeAs(t, "m", 0, 10)
	at, err := time.Parse(time.RFC3339, far)
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.models.RestoreModel(t.Context(), &hindsightv1.RestoreModelRequest{Model: "m", Time: timestamppb.New(at)})
	if err != nil || r.GetUndone() != 0 || r.GetModel().GetSequence() != 10 {
		t.Errorf("while it serves: %v, %v", r, err)
	}
	succeed[backedUp](t, "backup", "--data-dir", dir, "--to", place)
	restored := filepath.Join(t.TempDir(), "restored")
	if a := execute(t, "restore", "--from", place, "--at", far, "--data-dir", restored); a.code != 0 || strings.Contains(a.out, "removed") {
		t.Errorf("%+v", a)
	}
	if m := launch(t, restored).model(t, "m"); m.GetSequence() != 10 {
		t.Errorf("restored %v", m)
	}
	if a := execute(t, "restore", "--from", place, "--at", "0001-01-01T00:00:00Z", "--data-dir", t.TempDir()); a.code != 2 {
		t.Errorf("the zero time: %+v", a)
	}
}

// A bucket without copies and without a registry is the wrong one: no empty server is made.
func TestRebuildOfAnEmptyBucket(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "restored")
	a := execute(t, "restore", "--from-snapshots", "file://"+filepath.ToSlash(t.TempDir()), "--data-dir", dir)
	if a.code != 1 || !strings.Contains(a.errors, "no copies of snapshots") {
		t.Errorf("%+v", a)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("made %s: %v", dir, err)
	}
}
