package infer_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/infer"
)

// Values follow the spec that is given, and are null for what is missing or left out.
func TestValues(t *testing.T) {
	const text = "at,n,id,y\n21.11.2026 18:00,\"1,5\",a,up\n22.11.2026 18:00,NA,b,\n23.11.2026 18:00,2.5,c,none\n"
	classes := &hindsightv1.ModelSpec{Inputs: inputs(t, `[{"name": "at", "time": {}}, {"name": "n", "numeric": {}}]`), Classes: &hindsightv1.Classes{}}
	numbers := &hindsightv1.ModelSpec{Inputs: inputs(t, `[{"name": "id", "categorical": {}}]`)}
	for _, c := range []struct {
		target string
		spec   *hindsightv1.ModelSpec
		want   string
	}{
		{"y", classes, `["2026-11-21T18:00:00Z",1.5,null,"up"] ["2026-11-22T18:00:00Z",null,null,null] ["2026-11-23T18:00:00Z",2.5,null,"none"] `},
		{"n", numbers, `[null,1.5,"a",null] [null,null,"b",null] [null,2.5,"c",null] `},
	} {
		got, err := infer.Values(text, "csv", infer.Options{Target: c.target}, c.spec)
		got = strings.ReplaceAll(got, "\n", " ")
		assert.True(t, err == nil && got == c.want, "%s: %s, %v, want %s", c.target, got, err, c.want)
	}
	for says, spec := range map[string]*hindsightv1.ModelSpec{
		`csv: line 1: there is no column "x" among at, n, id, y`: {Inputs: inputs(t, `[{"name": "x", "numeric": {}}]`)},
		`"y" is an input and a target`:                           {Inputs: inputs(t, `[{"name": "y", "categorical": {}}]`)},
		`csv: line 2, column 3 (id): "a" is no number`:           {Inputs: inputs(t, `[{"name": "id", "numeric": {}}]`), Classes: &hindsightv1.Classes{}},
		`csv: line 2, column 4 (y): "up" is no number`:           {Inputs: inputs(t, `[{"name": "n", "numeric": {}}]`)},
	} {
		got, err := infer.Values(text, "csv", infer.Options{Target: "y"}, spec)
		assert.True(t, err != nil && strings.Contains(err.Error(), says), "%s, %v, want %s", got, err, says)
	}
}
