package main_test

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/internal/dataset"
)

var backupRows = flag.Int("backup-rows", 1500, "rows of each stream that TestTimesOnRealData learns")

// stream is a published stream, of which a model learns.
type stream struct {
	*dataset.Reader
	name string
	sent int
}

func streams(t *testing.T) []*stream {
	t.Helper()
	directory := os.Getenv("HINDSIGHT_STREAMS")
	if directory == "" {
		t.Skip("HINDSIGHT_STREAMS does not name the directory of the streams")
	}
	var out []*stream
	for _, name := range []string{"casp", "elec2", "bike"} {
		file, err := os.Open(filepath.Join(directory, name+".csv.gz"))
		if errors.Is(err, os.ErrNotExist) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := file.Close(); err != nil {
				t.Error(err)
			}
		})
		r, err := dataset.NewReader(file, name, "y")
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, &stream{r, name, 0})
	}
	return out
}

// learn sends the next rows, a hundred at a time.
func (s *stream) learn(t *testing.T, p *process, rows int) {
	t.Helper()
	if s.sent == 0 {
		_, err := p.models.CreateModel(t.Context(), &hindsightv1.CreateModelRequest{Id: s.name, Spec: &hindsightv1.ModelSpec{
			Dimension: int32(s.Dimension()), Learner: &hindsightv1.ModelSpec_Auto{Auto: &hindsightv1.Auto{}},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	for end := s.sent + rows; s.sent < end; {
		batch := &hindsightv1.ObserveBatchRequest{Model: s.name}
		for len(batch.GetObservations()) < 100 && s.sent < end {
			label := make([]float64, 1)
			features, err := s.Read(nil, label)
			if errors.Is(err, io.EOF) {
				end = s.sent
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			batch.Observations = append(batch.Observations, &hindsightv1.ObserveRequest{
				Model: s.name, Features: features, ObservationId: strconv.Itoa(s.sent), Target: &hindsightv1.ObserveRequest_Label{Label: label[0]},
			})
			s.sent++
		}
		if len(batch.GetObservations()) == 0 {
			return
		}
		if _, err := p.predictor.ObserveBatch(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
}

// The times of all that docs/backup.md tells of, on published streams, beside that of
// cp -r. What is restored is what was there.
func TestTimesOnRealData(t *testing.T) {
	all := streams(t)
	dir, place, base := t.TempDir(), t.TempDir(), t.TempDir()
	p := launch(t, dir, "--durability", "async")
	learn := func(rows int) {
		for _, s := range all {
			s.learn(t, p, rows)
		}
	}
	timed := func(what string, do func()) time.Duration {
		started := time.Now()
		do()
		took := time.Since(started)
		t.Logf("%-50s %8.2f s", what, took.Seconds())
		return took
	}
	timed(fmt.Sprintf("learn %d rows of %d streams", *backupRows, len(all)), func() { learn(*backupRows) })
	at := between()
	learn(200)
	var first, second, third struct {
		backedUp
		Bytes    int64 `json:"bytes"`
		NewBytes int64 `json:"new_bytes"`
	}
	full := timed("backup", func() { succeedInto(t, &first, "backup", "--data-dir", dir, "--to", place) })
	timed("backup again", func() { succeedInto(t, &second, "backup", "--data-dir", dir, "--to", place) })
	learn(50)
	timed("backup after 50 rows more of each", func() { succeedInto(t, &third, "backup", "--data-dir", dir, "--to", place) })
	digests := map[string]string{}
	for _, s := range all {
		digests[s.name] = p.digest(t, s.name)
	}
	p.terminate(t)
	copied := timed("cp -r", func() {
		if out, err := exec.CommandContext(t.Context(), "cp", "-r", dir, filepath.Join(base, "copied")).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	})
	var r struct{}
	timed("verify", func() { succeedInto(t, &r, "verify", "--from", place) })
	restored := timed("restore", func() { succeedInto(t, &r, "restore", "--from", place, "--data-dir", filepath.Join(base, "restored")) })
	timed("restore --at", func() {
		succeedInto(t, &r, "restore", "--from", place, "--at", at.Format(time.RFC3339Nano), "--data-dir", filepath.Join(base, "at"))
	})
	timed("fsck", func() { succeedInto(t, &r, "fsck", "--data-dir", filepath.Join(base, "restored")) })
	t.Logf("backup of %s in %d files; again %s in %d files; after 50 rows %s in %d files", size(first.NewBytes), first.NewFiles,
		size(second.NewBytes), second.NewFiles, size(third.NewBytes), third.NewFiles)
	t.Logf("backup / cp -r %.1f, restore / cp -r %.1f", full.Seconds()/copied.Seconds(), restored.Seconds()/copied.Seconds())
	// A compaction after the first backup may have written many tables anew.
	if second.NewBytes >= first.NewBytes {
		t.Errorf("the second backup wrote %d bytes, the first %d", second.NewBytes, first.NewBytes)
	}
	for name, sequence := range map[string]int{"restored": *backupRows + 250, "at": *backupRows} {
		p = launch(t, filepath.Join(base, name))
		for _, s := range all {
			if got := p.model(t, s.name).GetSequence(); got != uint64(min(sequence, s.sent)) {
				t.Errorf("%s: %s at sequence %d, want %d", name, s.name, got, sequence)
			}
			if name != "at" && p.digest(t, s.name) != digests[s.name] {
				t.Errorf("%s: another state of %s", name, s.name)
			}
		}
		if name == "at" {
			timed("RestoreModel by time", func() {
				_, err := p.models.RestoreModel(t.Context(), &hindsightv1.RestoreModelRequest{Model: "casp", Time: timestamppb.New(at)})
				if err != nil {
					t.Error(err)
				}
			})
		}
		p.terminate(t)
	}
}

func size(bytes int64) string { return fmt.Sprintf("%.1f MB", float64(bytes)/1e6) }

func succeedInto[T any](t *testing.T, out *T, arguments ...string) {
	t.Helper()
	*out = succeed[T](t, arguments...)
}
