package storetest

import (
	"errors"
	"slices"
	"testing"

	"hindsight/internal/engine/storage"
)

// aliasesOf are the names and the values of all aliases.
func aliasesOf(t *testing.T, s storage.Store) (out []string) {
	t.Helper()
	must(t, s.EachAlias(t.Context(), func(name string, value []byte) error {
		out = append(out, name+"="+string(value))
		return nil
	}))
	return out
}

func (s suite) aliases(t *testing.T) {
	b := s.open(t)
	create(t, b.Store, "b")
	value := []byte("one")
	for _, name := range []string{"b", "c", "a"} {
		must(t, b.Store.PutAlias(t.Context(), name, value))
	}
	value[0] = 'X'
	must(t, b.Store.PutAlias(t.Context(), "c", []byte("two")), b.Store.RemoveAlias(t.Context(), "b"), b.Store.RemoveAlias(t.Context(), "b"))
	ctx, cause := ended(t)
	for _, err := range []error{b.Store.PutAlias(ctx, "d", value), b.Store.RemoveAlias(ctx, "a")} {
		if !errors.Is(err, cause) {
			t.Errorf("in a context that has ended: %v", err)
		}
	}
	b = b.Cut(t)
	if got, want := aliasesOf(t, b.Store), []string{"a=one", "c=two"}; !slices.Equal(got, want) {
		t.Errorf("aliases %v, want %v", got, want)
	}
	if got := names(t, b.Store); !slices.Equal(got, []string{"b"}) {
		t.Errorf("models %v", got)
	}
	stop := errors.New("stop")
	if err := b.Store.EachAlias(t.Context(), func(string, []byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("an error of the function: %v", err)
	}
}
