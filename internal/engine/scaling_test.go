package engine_test

import (
	"archive/tar"
	"compress/gzip"
	"encoding/hex"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"hindsight/internal/engine"
	"hindsight/internal/model"
	"hindsight/internal/model/codec"
)

// ofFormat1 is the data directory of a server that knew no default scaling. Its
// model golden has learned 30 observations.
func ofFormat1(t *testing.T) vfs.FS {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "store", "testdata", "format1.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	plain, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	fs := newFS()
	for r := tar.NewReader(plain); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return fs
		}
		if err == nil {
			err = unpack(fs, h, r)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func unpack(fs vfs.FS, h *tar.Header, from io.Reader) error {
	name := strings.TrimSuffix(h.Name, "/")
	if h.Typeflag == tar.TypeDir {
		return fs.MkdirAll(name, 0o750)
	}
	to, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Sync(), to.Close())
}

// A model of a server that knew no default scaling goes on without one. An
// application that creates it at every start, with the spec that it always had,
// gets the model, and so it is with one that was exported then.
func TestAModelOfBeforeTheDefaultScaling(t *testing.T) {
	h := startOn(t, ofFormat1(t), newClock())
	const digest = "2140a23d6b31183dc1ce44fb0b743e2d9fd27b5584749716243ffff9cc692d47"
	data, err := h.ExportModel(t.Context(), "golden", engine.ExportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.ImportModel(t.Context(), "exported", withoutScaling(t, data)); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"golden", "exported"} {
		s := h.stats(t, id)
		if got := hex.EncodeToString(s.Digest[:]); got != digest || s.Observations != 30 {
			t.Errorf("%s: digest %s after %d observations", id, got, s.Observations)
		}
		if p := h.predict(t, id, 0.3, -0.2); math.Abs(p.Values[0]-0.3212537201079257) > 1e-14 {
			t.Errorf("%s predicts %v", id, p.Values)
		}
		spec := taylor(2, 2)
		for _, same := range []*model.Scaling{nil, model.Unscaled()} {
			spec.Scaling = same
			info, err := h.CreateModel(t.Context(), id, spec)
			if err != nil || info.Sequence != 30 || !reflect.DeepEqual(info.Spec.Scaling, model.Unscaled()) {
				t.Errorf("%s, created with %+v: %+v, %v", id, same, info, err)
			}
		}
		spec.Scaling = &model.Scaling{Running: &model.RunningScaling{}}
		if _, err := h.CreateModel(t.Context(), id, spec); !errors.Is(err, engine.ErrModelExists) {
			t.Errorf("%s, created with another scaling: %v", id, err)
		}
		spec.Scaling, spec.PKAWVTaylor.Degree = nil, ptr(3)
		if _, err := h.CreateModel(t.Context(), id, spec); !errors.Is(err, engine.ErrModelExists) {
			t.Errorf("%s, created with another degree: %v", id, err)
		}
	}
	spec := taylor(2, 2)
	spec.Scaling = nil
	if info, err := h.CreateModel(t.Context(), "new", spec); err != nil || info.Spec.Scaling.Running == nil {
		t.Errorf("a new model: %+v, %v", info, err)
	}
}

// withoutScaling is an export whose spec says nothing of a scaling.
func withoutScaling(t *testing.T, export []byte) []byte {
	t.Helper()
	s, err := codec.Decode(export)
	if err != nil {
		t.Fatal(err)
	}
	s.Spec.Scaling = nil
	data, err := codec.Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
