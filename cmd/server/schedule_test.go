package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

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
