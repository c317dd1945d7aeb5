package cli_test

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Where labels are late, the served figures of a model are not its prequential ones. The
// recent ones are the served ones on every surface, and each says of which it is.
func TestRecentFiguresAreServed(t *testing.T) {
	s := realServer(t)
	rng := rand.New(rand.NewPCG(3, 3))
	var rows strings.Builder
	rows.WriteString("x,y\n")
	for y := 0.0; strings.Count(rows.String(), "\n") < 1300; y += rng.NormFloat64() {
		fmt.Fprintf(&rows, "%g,%g\n", rng.Float64(), y) // A walk: what is served late is worse.
	}
	r := run(t, "replay", "--csv", written(t, "walk.csv", rows.String()), "--model", "m", "--create", `{}`, "--delay", "40")
	all := run(t, "model", "stats", "m", "--all")
	for out, lines := range map[string][]string{
		r.out:   {"\nskill, served ", "\nRMSE, served ", "\nMAE, served ", "\ninside 90 % "},
		all.out: {"\nmean loss, prequential ", "\nloss sum, served ", "\nloss sum, prequential ", "\nregret, prequential ", "\nregret, served ", "\nall rounds prequential ", "\nserved "},
	} {
		for _, line := range lines {
			assert.True(t, r.code == 0 && all.code == 0 && strings.Contains(squeeze(out), line), "no line %q in %s", line, out)
		}
	}
	figures := func(of string) (loss, skill float64) {
		recent, _ := stat(map[string]any{"stats": document(t, 0, "model", "stats", "m")}, "recent").(map[string]any)
		f, _ := recent[of].(map[string]any)
		loss, _ = f["meanLoss"].(float64)
		skill, _ = f["skill"].(float64)
		return loss, skill
	}
	loss, skill := figures("served")
	prequential, other := figures("prequential")
	require.True(t, loss > 1.5*prequential && math.Abs(other-skill) > 0.2, "served %g, %g and prequential %g, %g: want figures that differ", loss, skill, prequential, other)
	top := document(t, 0, "top")["models"].([]any)[0].(map[string]any)["summary"].(map[string]any)
	watched := document(t, 0, "model", "stats", "m", "--watch", "--events", "1")
	for what, answer := range map[string]map[string]any{"top": top, "watch": watched} {
		f, _ := answer["recent"].(map[string]any)["served"].(map[string]any)
		assert.True(t, f["meanLoss"] == loss && f["skill"] == skill, "%s: %v, want the loss %g and the skill %g", what, f, loss, skill)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.HTTP+"/metrics", http.NoBody)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	text, err := io.ReadAll(response.Body)
	require.NoError(t, response.Body.Close())
	for name, want := range map[string]float64{"hindsight_recent_skill": skill} {
		_, rest, _ := strings.Cut(string(text), "\n"+name+"{")
		line, _, _ := strings.Cut(rest, "\n")
		_, value, _ := strings.Cut(line, "} ")
		got, failed := strconv.ParseFloat(value, 64)
		assert.True(t, err == nil && failed == nil && math.Abs(got-want) <= 1e-12*math.Abs(want), "%s is %q, want %g", name, value, want)
	}
	// An outcome tells the same figures, one observation later.
	o := squeeze(run(t, "observe", "--model", "m", "--features", "0.5", "--label", "0").out)
	for _, name := range []string{"\nprediction, prequential ", "\nloss, prequential ", "\nregret, prequential ", "\nrecent mean loss, served ", "\nrecent skill, served "} {
		assert.Contains(t, o, name)
	}
}
