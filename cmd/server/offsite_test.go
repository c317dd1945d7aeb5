package main_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// What is copied to a bucket is what was written, and a server that has nothing
// else goes on from it, bit for bit.
func TestSnapshotsAreCopied(t *testing.T) {
	dir, bucket := t.TempDir(), t.TempDir()
	p := launch(t, dir, "--snapshot-url", "file://"+filepath.ToSlash(bucket), "--snapshot-replay", "1ms", "--snapshots-kept", "2")
	p.create(t)
	p.learn(t, 0, 100)
	want := p.stats(t).GetStateDigest()
	p.terminate(t)
	copies, err := filepath.Glob(filepath.Join(bucket, "m", "*", "*.hs"))
	if err != nil || len(copies) == 0 || len(copies) > 2 {
		t.Fatalf("copies %v, %v", copies, err)
	}
	newest := copies[len(copies)-1]
	if name := filepath.Base(newest); name != fmt.Sprintf("%020d.hs", 100) {
		t.Errorf("the newest copy is %s", name)
	}
	copied, err := os.ReadFile(newest)
	if err != nil {
		t.Fatal(err)
	}
	written, err := filepath.Glob(filepath.Join(dir, "snapshots", "*", "*100.hs"))
	if err != nil || len(written) != 1 {
		t.Fatalf("written %v, %v", written, err)
	}
	if data, err := os.ReadFile(written[0]); err != nil || !bytes.Equal(data, copied) {
		t.Errorf("%d bytes written, %d copied; %v", len(data), len(copied), err)
	}
	p = launch(t, t.TempDir())
	stream, err := p.models.ImportModel(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&hindsightv1.ImportModelRequest{Id: "m", Chunk: copied}); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.CloseAndRecv(); err != nil {
		t.Fatal(err)
	}
	if s := p.stats(t); s.GetStateDigest() != want || s.GetObservations() != 100 {
		t.Errorf("imported as %v", s)
	}
	p.terminate(t)
}

// A bucket that cannot be written stops nothing.
func TestBucketThatCannotBeWritten(t *testing.T) {
	bucket := t.TempDir()
	// Where the model's copies would be is a file.
	if err := os.WriteFile(filepath.Join(bucket, "m"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	p := launch(t, dir, "--snapshot-url", "file://"+filepath.ToSlash(bucket), "--snapshot-replay", "1ms")
	p.create(t)
	if got := p.learn(t, 0, 200); got != 200 {
		t.Errorf("stopped at %d", got)
	}
	want := p.stats(t).GetStateDigest()
	p.kill(t) // It would try for a while yet.
	p = launch(t, dir)
	if s := p.stats(t); s.GetStateDigest() != want || s.GetObservations() != 200 {
		t.Errorf("restarted as %v", s)
	}
}

func TestBadBucketIsNamed(t *testing.T) {
	for url, says := range map[string]string{
		"s3://bucket/dir":        "snapshot-url (from flag --snapshot-url)",
		"file:///does/not/exist": "--snapshot-url: ",
	} {
		out, err := launchOnce(t, "--snapshot-url", url)
		if err == nil || !strings.Contains(out, says) {
			t.Errorf("%s: %v, %s", url, err, out)
		}
	}
}

// launchOnce runs a server that is to end by itself.
func launchOnce(t *testing.T, flags ...string) (string, error) {
	t.Helper()
	arguments := append([]string{"--data-dir", t.TempDir(), "--grpc-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0"}, flags...)
	out, err := exec.CommandContext(t.Context(), binary, arguments...).CombinedOutput()
	return string(out), err
}
