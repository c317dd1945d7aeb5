package cluster_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"hindsight/internal/cluster/consensus"
)

// TestAnEmptiedServerElectsNobody: C is down while A and B commit. Then A is down, and B loses its directory. B must not
// elect C, which lacks the entries of A and B.
func TestAnEmptiedServerElectsNobody(t *testing.T) {
	for round := range 2 {
		t.Run(strconv.Itoa(round), func(t *testing.T) {
			t.Parallel()
			servers := startAll(t, 3)
			a := owner(t, servers...)
			var others []*server
			for _, s := range servers {
				if s != a {
					others = append(others, s)
				}
			}
			b, c := others[round%2], others[1-round%2]
			learn(t, "m", 5, servers...)
			haveAll(t, map[string]uint64{"m": 5}, servers...)
			c.close(t)
			learn(t, "m", 50, a, b)
			haveAll(t, map[string]uint64{"m": 50}, a, b)
			a.close(t)
			b.close(t)
			b.dir = t.TempDir()
			core, logs := observer.New(zapcore.DebugLevel)
			b.log = zap.New(core)
			b.start(t)
			c.start(t)
			eventually(t, "C has asked B for its vote several times, and nobody owns the log", func() bool {
				require.False(t, b.node().Owns() || c.node().Owns(), "a server without the acknowledged entries owns the log")
				rejected := 0
				for _, e := range logs.All() {
					if text := fmt.Sprint(e.ContextMap()); strings.Contains(text, consensus.ErrOtherMember.Error()) {
						rejected++
					}
				}
				return rejected >= 5
			})
			a.start(t)
			voters(t, 3, servers...)
			haveAll(t, map[string]uint64{"m": 50}, servers...)
		})
	}
}
