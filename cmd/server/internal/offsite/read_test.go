package offsite_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"hindsight/cmd/server/internal/offsite"
)

// A reader finds what copiers wrote: of each model the copy that was written last comes
// first, whatever its sequence. What is no copy is passed over.
func TestReader(t *testing.T) {
	dir := t.TempDir()
	url := "file://" + filepath.ToSlash(dir)
	r, err := offsite.NewReader(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if data, err := r.Registry(t.Context()); data != nil || err != nil || len(r.Models()) > 0 {
		t.Errorf("of an empty bucket: %q, %v, %v", data, err, r.Models())
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	c, err := offsite.Open(t.Context(), url, options(9))
	if err != nil {
		t.Fatal(err)
	}
	c.Copy("b", created, 7, []byte("seven"))
	c.Copy("a", created, 1, []byte("one"))
	for _, registry := range []string{"first", "second"} {
		if err := c.PutRegistry(t.Context(), []byte(registry)); err != nil {
			t.Error(err)
		}
	}
	closed(t, c)
	for name, text := range map[string]string{key("b", 9): "nine", key("b", 8): "eight", "b/1234/x.tmp": "", "b/what/3.hs": "", "other": ""} {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// A restore to before 8, and then 8 was learned again.
	for sequence, age := range map[uint64]time.Duration{7: 2 * time.Hour, 9: 3 * time.Hour, 8: time.Hour} {
		at := time.Now().Add(-age)
		if err := os.Chtimes(filepath.Join(dir, filepath.FromSlash(key("b", sequence))), at, at); err != nil {
			t.Fatal(err)
		}
	}
	if r, err = offsite.NewReader(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	if got := r.Models(); !slices.Equal(got, []offsite.Model{{ID: "a", Created: 1234}, {ID: "b", Created: 1234}}) {
		t.Errorf("models %v", got)
	}
	if data, err := r.Registry(t.Context()); string(data) != "second" || err != nil {
		t.Errorf("registry %q, %v", data, err)
	}
	var read []string
	err = r.Copies(t.Context(), offsite.Model{ID: "b", Created: 1234}, func(data []byte) bool {
		read = append(read, string(data))
		return len(read) < 2
	})
	if err != nil || !slices.Equal(read, []string{"eight", "seven"}) {
		t.Errorf("read %q, %v", read, err)
	}
}
