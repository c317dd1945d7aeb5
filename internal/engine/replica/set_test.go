package replica_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"hindsight/internal/engine/replica"
)

// Each follower keeps at most followLimit observations of the log, and so do several.
func TestTheLogIsKeptOnceForSeveralFollowers(t *testing.T) {
	const limit = 1_000_000
	for _, test := range []struct {
		learned       []uint64
		through, want uint64
	}{
		{nil, 5, 5},
		{[]uint64{7}, 5, 5},
		{[]uint64{2, 3}, 5, 3},
		{[]uint64{2 * limit, limit + 1, 2}, 3 * limit, 2*limit + 1},
		{[]uint64{2, limit + 1, 2 * limit}, 3 * limit, 2*limit + 1},
	} {
		assert.Equal(t, test.want, replica.NeededBy(test.learned, test.through), "followers that have learned %v need of a log up to %d", test.learned, test.through)
	}
}
