package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
	require.NoError(t, err)
}

// observeAs sends observations to a model.
func (p *process) observeAs(t *testing.T, id string, from, to int) (duplicates int) {
	t.Helper()
	for n := from; n < to; n++ {
		o := observation(n)
		o.Model = id
		r := must(p.predictor.Observe(t.Context(), o))(t)
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
	require.NoError(t, err)
	return r.GetModel()
}

func (p *process) digest(t *testing.T, id string) string {
	t.Helper()
	r := must(p.models.GetModelStats(t.Context(), &hindsightv1.GetModelStatsRequest{Model: id}))(t)
	return r.GetStats().GetStateDigest()
}

func (p *process) alias(t *testing.T, name, id string) {
	t.Helper()
	must(p.models.SetAlias(t.Context(), &hindsightv1.SetAliasRequest{Alias: name, Model: id}))(t)
}

// From one backup everything comes back as it was at a time before it: states, ids,
// models that were deleted since, aliases that were set since. Models that were created
// since are gone. A time that the logs do not reach back to is rejected.
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
	must(p.models.DeleteModel(t.Context(), &hindsightv1.DeleteModelRequest{Model: "deleted"}))(t)
	// One model, while the server serves.
	restore := &hindsightv1.RestoreModelRequest{Model: "later", Time: timestamppb.New(at)}
	if _, err := p.models.RestoreModel(t.Context(), restore); status.Code(err) == codes.OK || !strings.Contains(err.Error(), "was created at") {
		t.Errorf("a time before the model: %v", err)
	}
	succeed[backedUp](t, "backup", "--data-dir", dir, "--to", place)
	r, err := p.models.RestoreModel(t.Context(), &hindsightv1.RestoreModelRequest{Model: "m", Time: timestamppb.New(at)})
	assert.True(t, err == nil && r.GetUndone() == 30 && r.GetModel().GetSequence() == 60 && p.digest(t, "m") == want["m"], "one model: %v, %v", r, err)
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
	assert.True(t, len(report.Moment.Models) == 5 && len(report.Moment.Aliases) == 2, "%+v", report)
	p = launch(t, restored)
	for id, digest := range want {
		assert.Equal(t, digest, p.digest(t, id), id)
	}
	if p.model(t, "later") != nil || p.model(t, "new") != nil || p.model(t, "live").GetId() != "m" || p.model(t, "follower").GetFollows() != "leader" {
		t.Errorf("later %v, new %v, live %v, follower %v", p.model(t, "later"), p.model(t, "new"), p.model(t, "live"), p.model(t, "follower"))
	}
	list, err := p.models.ListAliases(t.Context(), &hindsightv1.ListAliasesRequest{})
	all := list.GetAliases()
	assert.True(t, err == nil && len(all) == 1 && all[0].GetModel() == "m", "aliases %v, %v", list, err)
	assert.Equal(t, 60, p.observeAs(t, "m", 0, 90))
	p.observeAs(t, "leader", 30, 40)
	p.follows(t, 40)
	p.terminate(t)
	a := execute(t, "fsck", "--data-dir", restored)
	assert.Equal(t, 0, a.code, "%v %v", a.out, a.errors)

	gone := filepath.Join(t.TempDir(), "gone")
	a = execute(t, "restore", "--from", place, "--at", early.Add(-time.Hour).Format(time.RFC3339Nano), "--data-dir", gone)
	assert.Equal(t, 0, a.code, a)
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
		must(p.models.CompareModels(t.Context(), &hindsightv1.CompareModelsRequest{Model: id}))(t)
		if p.model(t, id).GetSequence() == sequence {
			return
		}
	}
}

// A time that the log of a model does not reach back to is rejected, and names the model.
func TestRestoreOfATimeThatIsNotKept(t *testing.T) {
	dir, place := t.TempDir(), t.TempDir()
	p := launch(t, dir, "--snapshots-kept", "1")
	p.create(t)
	p.observeAs(t, "m", 0, 5)
	at := between()
	p.observeAs(t, "m", 5, 10)
	must(p.models.SnapshotModel(t.Context(), &hindsightv1.SnapshotModelRequest{Model: "m"}))(t)
	succeed[backedUp](t, "backup", "--data-dir", dir, "--to", place)
	to := filepath.Join(t.TempDir(), "restored")
	a := execute(t, "restore", "--from", place, "--at", at.Format(time.RFC3339Nano), "--data-dir", to)
	assert.True(t, a.code == 1 && strings.Contains(a.errors, `model "m"`) && strings.Contains(a.errors, "the log begins at"), "%+v", a)
	left, err := os.ReadDir(to)
	assert.True(t, err == nil && len(left) == 0, "left %v, %v", left, err)
}

// A time that does not fit in nanoseconds is after all that was learned.
func TestFarTime(t *testing.T) {
	const far = "9999-12-31T23:59:59Z"
	dir, place := t.TempDir(), t.TempDir()
	p := launch(t, dir)
	p.createAs(t, "m", "")
	p.observeAs(t, "m", 0, 10)
	at := must(time.Parse(time.RFC3339, far))(t)
	r, err := p.models.RestoreModel(t.Context(), &hindsightv1.RestoreModelRequest{Model: "m", Time: timestamppb.New(at)})
	assert.True(t, err == nil && r.GetUndone() == 0 && r.GetModel().GetSequence() == 10, "while it serves: %v, %v", r, err)
	succeed[backedUp](t, "backup", "--data-dir", dir, "--to", place)
	restored := filepath.Join(t.TempDir(), "restored")
	a := execute(t, "restore", "--from", place, "--at", far, "--data-dir", restored)
	assert.True(t, a.code == 0 && !strings.Contains(a.out, "removed"), "%+v", a)
	m := launch(t, restored).model(t, "m")
	assert.EqualValues(t, 10, m.GetSequence(), m)
	a = execute(t, "restore", "--from", place, "--at", "0001-01-01T00:00:00Z", "--data-dir", t.TempDir())
	assert.Equal(t, 2, a.code, a)
}

const backupTaken = `"msg":"backup taken"`

// newestBackup is the newest backup of a place.
func newestBackup(t *testing.T, place string) manifest {
	t.Helper()
	names := succeed[struct{ Backups []string }](t, "restore", "--list", "--from", place).Backups
	require.True(t, len(names) != 0, "the place has no backup")
	return manifestOf(t, place, names[len(names)-1])
}

// A burnt machine comes back from the place of --backup-to alone: states, metadata, aliases,
// deletions, followers, remembered ids and predictions that wait.
func TestBurntMachine(t *testing.T) {
	t.Parallel()
	dir, place := t.TempDir(), filepath.Join(t.TempDir(), "made", "place")
	p := launch(t, dir, "--backup-to", "file://"+filepath.ToSlash(place), "--backup-every", "1s", "--backup-keep", "2")
	for _, id := range []string{"m", "deleted", "leader", "young"} {
		p.createAs(t, id, "")
	}
	p.createAs(t, "follower", "leader")
	for _, id := range []string{"m", "deleted", "leader"} {
		p.observeAs(t, id, 0, 20)
	}
	p.follows(t, 20)
	update := &hindsightv1.UpdateModelRequest{
		Model: &hindsightv1.Model{Id: "m", DisplayName: "the first"}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"display_name"}},
	}
	must(p.models.UpdateModel(t.Context(), update))(t)
	p.alias(t, "live", "m")
	must(p.models.DeleteModel(t.Context(), &hindsightv1.DeleteModelRequest{Model: "deleted"}))(t)
	must(p.predictor.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "m", Features: []float64{1, 2}}))(t)
	want := p.digest(t, "m")
	// A backup in progress may have begun before. Another one has not.
	p.logged(t, backupTaken, p.logged(t, backupTaken, 0)+2)
	p.kill(t)

	found, err := filepath.Glob(filepath.Join(place, "backups", "*.json"))
	assert.True(t, err == nil && len(found) != 0 && len(found) <= 3, "backups %v, %v", found, err)
	restored := filepath.Join(t.TempDir(), "restored")
	succeed[struct{}](t, "restore", "--from", place, "--data-dir", restored)
	p = launch(t, restored)
	m := p.model(t, "live")
	assert.True(t, m.GetId() == "m" && m.GetSequence() == 20 && m.GetDisplayName() == "the first" && p.digest(t, "m") == want, "%v", m)
	assert.EqualValues(t, 1, p.stats(t).GetPendingLabels())
	y, f := p.model(t, "young"), p.model(t, "follower")
	assert.True(t, y.GetSequence() == 0 && f.GetSequence() == 20 && f.GetFollows() == "leader", "young %v, follower %v", y, f)
	_, err = p.models.UndeleteModel(t.Context(), &hindsightv1.UndeleteModelRequest{Model: "deleted"})
	assert.NoError(t, err)
	assert.Equal(t, 3, p.observeAs(t, "m", 0, 3))
	p.terminate(t)
	a := execute(t, "fsck", "--data-dir", restored, "--progress")
	assert.True(t, a.code == 0 && strings.Contains(a.errors, "2/2 models: 5") && !strings.Contains(a.out, "2/2"), "fsck: %s%s", a.out, a.errors)
	a = execute(t, "fsck", "--data-dir", restored, "--json")
	assert.True(t, a.code == 0 && a.errors == "" && strings.HasPrefix(a.out, "{"), "fsck: %s%s", a.out, a.errors)
}

// A server takes no backup while the newest one is young, whoever took it, and takes one when
// it ends.
func TestBackupAtTheEnd(t *testing.T) {
	dir, place := t.TempDir(), t.TempDir()
	p := launch(t, dir)
	p.createAs(t, "m", "")
	p.terminate(t)
	succeed[backedUp](t, "backup", "--data-dir", dir, "--to", place)
	p = launch(t, dir, "--backup-to", place)
	p.observeAs(t, "m", 0, 10)
	first := newestBackup(t, place)
	last := p.gauge(t, "hindsight_backup_last_success_timestamp_seconds")
	assert.True(t, last != 0 && len(first.Models) == 1 && first.Models[0].Sequence == 0, "the last backup, at %v, is %+v: want the backup before the start", last, first)
	p.terminate(t)
	m := newestBackup(t, place)
	assert.True(t, len(m.Models) == 1 && m.Models[0].Sequence == 10, "%+v", m.Models)
}

// A place that cannot be written stops nothing.
func TestPlaceThatCannotBeWritten(t *testing.T) {
	dir, place := t.TempDir(), t.TempDir()
	// Where the files would be is a file.
	require.NoError(t, os.WriteFile(filepath.Join(place, "objects"), nil, 0o600))
	p := launch(t, dir, "--backup-to", place)
	p.create(t)
	assert.Equal(t, 200, p.learn(t, 0, 200))
	p.logged(t, `"msg":"the backup failed"`, 1)
	assert.EqualValues(t, 1, p.gauge(t, "hindsight_backup_failures_total"))
	p.terminate(t)
}

func TestBadPlaceIsNamed(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ flag, value, says string }{
		{"--backup-to", "s3://bucket/dir", "backup-to (from flag --backup-to)"},
		{"--backup-to", filepath.Join(dir, "backups"), "--backup-to: " + filepath.Join(dir, "backups") + " is in the data directory"},
		{"--backup-to", filepath.Join(os.Args[0], "place"), "--backup-to: backup: "},
	} {
		command := exec.CommandContext(t.Context(), binary, "--data-dir", dir, "--grpc-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0", c.flag, c.value)
		out, err := command.CombinedOutput()
		assert.True(t, err != nil && strings.Contains(string(out), c.says), "%s %s: %v, %s", c.flag, c.value, err, out)
	}
}
