package machine_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/engine/machine"
	"hindsight/internal/model"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/codec"
)

var update = flag.Bool("update", false, "write the golden files anew")

// told are the points of a history, as text.
func told(m *machine.Machine) []byte {
	var out bytes.Buffer
	h := m.History()
	for _, p := range h.Points(0, m.Moment()) {
		own, served := p.Performance.Prequential, p.Performance.Served
		fmt.Fprintf(&out, "%d %d {%v {%v %v %v} {%v %v %v}} %v %v %v %d %v %v\n", p.Sequence, p.Time,
			p.Performance.Observations, own.Loss, own.RunningMean, own.LastLabel, served.Loss, served.RunningMean, served.LastLabel,
			p.Classes, p.Regret, p.RegretBound, p.Dictionary, p.Weights, p.Coverage)
	}
	fmt.Fprintln(&out, h.Marks())
	return out.Bytes()
}

// Snapshots with a history that this version wrote are read for ever: they are restored
// to the byte, tell the same, and learn on.
func TestGoldenSnapshots(t *testing.T) {
	for name, spec := range map[string]model.Spec{
		"labels": {
			Dimension: 2, Scaling: model.Unscaled(), Coverage: []float64{0.5, 0.9},
			LinearAWV: &model.LinearAWV{Ridges: model.Ridges{Lambdas: []float64{0.1, 1, 10}}},
		},
		"classes": {Dimension: 2, Scaling: model.Unscaled(), Classes: &model.Classes{}, LinearAWV: &model.LinearAWV{}},
	} {
		t.Run(name, func(t *testing.T) {
			spec, _, err := catalog.Complete(spec)
			require.NoError(t, err)
			all := records(11, 601)
			for n := range all {
				for k := range all[n].Observations {
					o := &all[n].Observations[k]
					if n > len(all)/2 {
						o.Labels[0] *= 40 // A change.
					}
					if spec.Classes != nil {
						o.Class, o.Labels, o.Served = strconv.FormatBool(o.Labels[0] > 0), nil, nil
					}
				}
			}
			path, text := filepath.Join("testdata", name+".v5.hs"), filepath.Join("testdata", name+".v5.txt")
			if *update {
				writeGolden(t, spec, func(m *machine.Machine) { apply(t, m, all, nil) }, path, text)
			}
			m := readGolden(t, spec, path, text)
			data, err := os.ReadFile(path)
			assert.True(t, err == nil && bytes.Equal(encoded(t, m), data), "written again it is another (%v)", err)
			apply(t, m, all[:100], nil)
		})
	}
}

// readGolden restores a golden snapshot, which must tell its text.
func readGolden(t *testing.T, spec model.Spec, path, text string) *machine.Machine {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	want, err := os.ReadFile(text)
	require.NoError(t, err)
	snapshot, err := codec.Decode(data)
	require.NoError(t, err)
	m, err := machine.Restore(spec, catalog.New, snapshot)
	require.NoError(t, err)
	assert.Equal(t, want, told(m), path)
	return m
}

func encoded(t *testing.T, m *machine.Machine) []byte {
	t.Helper()
	s, err := m.Snapshot(nil)
	require.NoError(t, err)
	s.Digest = codec.Digest(s.Learner)
	data, err := codec.Encode(s)
	require.NoError(t, err)
	return data
}

func writeGolden(t *testing.T, spec model.Spec, learn func(*machine.Machine), path, text string) {
	t.Helper()
	m, err := machine.New(spec, catalog.New)
	require.NoError(t, err)
	learn(m)
	for name, data := range map[string][]byte{path: encoded(t, m), text: told(m)} {
		require.NoError(t, os.WriteFile(name, data, 0o600))
	}
}
