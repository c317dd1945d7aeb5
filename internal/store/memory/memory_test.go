package memory_test

import (
	"testing"
	"time"

	"hindsight/internal/engine/storage"
	"hindsight/internal/store/memory"
	"hindsight/internal/store/storetest"
)

var (
	_ storage.Store = (*memory.Store)(nil)
	_ storage.Model = (*memory.Model)(nil)
)

// The state stays as long as the object, so that neither a kill nor a power cut
// changes it.
func TestContract(t *testing.T) {
	open := func(*testing.T) storetest.Backend {
		b := storetest.Backend{Store: memory.New(time.Now)}
		again := func(*testing.T) storetest.Backend { return b }
		b.Kill, b.Cut = again, again
		return b
	}
	storetest.Run(t, open)
	storetest.RunPositions(t, open)
}
