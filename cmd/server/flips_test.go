package main_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

var (
	flips     = flag.Int("flips", 16, "bits that are flipped in copies of data directories")
	flipsSeed = flag.Uint64("flips-seed", 0, "seed of the flips; 0 draws one")
)

// What becomes of a server whose data directory has one wrong bit.
const (
	servedRight  = "served right"
	lostWaiting  = "served right, predictions lost"
	rejectedSome = "rejected with a clear error"
	lostModel    = "model lost with a clear message"
	noStart      = "does not start, with a clear error"
	silent       = "SILENTLY WRONG"
)

// One bit of a data directory is wrong, in any kind of file. The server answers what was
// acknowledged or says that it cannot, and fsck finds what keeps anything from being served.
func TestFlippedBits(t *testing.T) {
	endToEnd(t)
	t.Parallel()
	if *flipsSeed == 0 {
		*flipsSeed = rand.Uint64()
	}
	t.Logf("seed %d", *flipsSeed)
	rng := rand.New(rand.NewPCG(*flipsSeed, 5))
	dirs := flippedDirectories(t)
	wants := make([]map[string]string, len(dirs))
	for n, dir := range dirs {
		p := launch(t, copied(t, dir))
		wants[n] = p.interrogate(t)
		p.kill(t)
		for question, answer := range wants[n] {
			require.False(t, strings.HasPrefix(answer, "error"), "before a flip %s is answered %s", question, answer)
		}
	}
	counts, byKind := map[string]int{}, map[string]map[string]int{}
	for range *flips {
		n := rng.IntN(len(dirs))
		dir := copied(t, dirs[n])
		kind, at := flipAnywhere(t, rng, dir)
		outcome, detail := afterFlip(t, dir, kind, wants[n])
		if outcome == silent {
			t.Errorf("%s: %s", at, detail)
		} else if testing.Verbose() {
			t.Logf("%s: %s: %s", at, outcome, detail)
		}
		counts[outcome]++
		if byKind[kind] == nil {
			byKind[kind] = map[string]int{}
		}
		byKind[kind][outcome]++
		require.NoError(t, os.RemoveAll(dir))
	}
	for _, kind := range slices.Sorted(maps.Keys(byKind)) {
		t.Logf("%-22s %v", kind, byKind[kind])
	}
	t.Logf("%d flips: %v", *flips, counts)
}

// flippedDirectories are that of a server that was killed, and of one that ended.
func flippedDirectories(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	flags := []string{"--snapshots-kept", "2"}
	for start := range 4 {
		p := launch(t, dir, flags...)
		if start == 0 {
			createTortured(t, p)
			must(p.models.SetAlias(t.Context(), &hindsightv1.SetAliasRequest{Alias: "live", Model: "linear"}))(t)
		}
		for model := range tortured() {
			p.fill(t, model, start*20, start*20+20)
			if start == 3 {
				continue
			}
			must(p.models.SnapshotModel(t.Context(), &hindsightv1.SnapshotModelRequest{Model: model}))(t)
		}
		p.kill(t)
	}
	ended := copied(t, dir)
	launch(t, ended, flags...).terminate(t)
	return []string{dir, ended}
}

// fill lets a model learn samples, and predict others whose labels do not come.
func (p *process) fill(t *testing.T, model string, from, to int) {
	t.Helper()
	for n := from; n < to; n++ {
		x, o := flipSample(model, n)
		must(p.predictor.Observe(t.Context(), o))(t)
		asked := x.request(model)
		asked.PredictionId = fmt.Sprint("w-", n)
		must(p.predictor.Predict(t.Context(), asked))(t)
	}
}

// flipSample is observation n of a model.
func flipSample(model string, n int) (sample, *hindsightv1.ObserveRequest) {
	x, o := draw(rand.New(rand.NewPCG(uint64(n), 17)), model)
	o.Features, o.Inputs, o.ObservationId = x.features, x.inputs, fmt.Sprint("o-", n)
	return x, o
}

// interrogate asks all that a client may rely on. An error is answered as "error" and its
// reason.
func (p *process) interrogate(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	record := func(question string, answer proto.Message, err error) {
		if err == nil {
			out[question] = fmt.Sprint(answer)
			return
		}
		out[question] = "error " + reasonOf(err)
	}
	models := slices.Sorted(maps.Keys(tortured()))
	listed, err := p.models.ListModels(t.Context(), &hindsightv1.ListModelsRequest{})
	ids := &hindsightv1.ListModelsResponse{}
	for _, m := range listed.GetModels() {
		ids.Models = append(ids.Models, &hindsightv1.Model{Id: m.GetId()})
	}
	record("list", ids, err)
	for _, m := range models {
		s, err := p.models.GetModelStats(t.Context(), &hindsightv1.GetModelStatsRequest{Model: m})
		record("stats "+m, &hindsightv1.ModelStats{StateDigest: s.GetStats().GetStateDigest(), Observations: s.GetStats().GetObservations()}, err)
		for _, n := range []int{0, 19, 40, 60, 78, 79} {
			_, o := flipSample(m, n)
			answer, err := p.predictor.Observe(t.Context(), o)
			record(fmt.Sprint("again ", m, n), answer, err)
		}
	}
	for _, m := range append([]string{"live"}, models...) {
		of := m
		if m == "live" {
			of = "linear"
		}
		x, _ := flipSample(of, 1000)
		asked := x.request(m)
		asked.Remember = proto.Bool(false)
		answer, err := p.predictor.Predict(t.Context(), asked)
		served := proto.CloneOf(answer.GetPrediction())
		assert.False(t, math.IsNaN(served.GetValue()), "%s predicts NaN", m)
		record("predict "+m, served, err)
	}
	for _, m := range models {
		for _, n := range []int{1, 41, 79} {
			_, o := flipSample(m, n)
			o.Features, o.Inputs, o.ObservationId, o.PredictionId = nil, nil, "", fmt.Sprint("w-", n)
			answer, err := p.predictor.Observe(t.Context(), o)
			record(fmt.Sprint("waiting ", m, n), &hindsightv1.Outcome{Duplicate: answer.GetOutcome().GetDuplicate()}, err)
		}
	}
	return out
}

// reasonOf is the reason of an error, its code where it has none.
func reasonOf(err error) string {
	s := status.Convert(err)
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return s.Code().String()
}

// afterFlip starts a server over a directory and compares what it answers.
func afterFlip(t *testing.T, dir, kind string, want map[string]string) (outcome, detail string) {
	t.Helper()
	code, found := fsck(t, dir)
	assert.True(t, !strings.Contains(found, "panic") && !strings.Contains(found, "goroutine ") && code <= 1, "fsck: %d, %s", code, found)
	p, err := tryLaunch(t, dir, []string{binary})
	if err != nil {
		if strings.Contains(err.Error(), "goroutine ") || !strings.Contains(err.Error(), dir) {
			return silent, fmt.Sprintf("the server ends without a clear message: %v", err)
		}
		outcome = noStart
		detail = lastLine(err.Error())
	} else {
		outcome, detail = compareAnswers(p.interrogate(t), want, kind, p.said())
		p.kill(t)
	}
	assert.True(t, (outcome != noStart && outcome != rejectedSome && outcome != lostModel) || code == 1, "%s (%s), and fsck finds nothing: %s", outcome, detail, found)
	return outcome, detail
}

// compareAnswers tells what the answers are. The end of a log of predictions, which was not
// synced when the server was killed, may be lost without a word in the server's log.
func compareAnswers(got, want map[string]string, kind, said string) (outcome, detail string) {
	outcome = servedRight
	for _, question := range slices.Sorted(maps.Keys(want)) {
		answer := got[question]
		switch {
		case answer == want[question]:
		case answer == "error PREDICTION_NOT_FOUND" && strings.HasPrefix(question, "waiting "):
			if outcome == servedRight {
				outcome = lostWaiting
			}
			if !strings.Contains(said, "are not found") && !strings.Contains(said, "cut off") && kind != "pending/N.log" {
				return silent, question + " is lost, and the log does not say so"
			}
		case answer == "error STATE_CORRUPT" || answer == "error STORAGE_FAILED":
			outcome, detail = rejectedSome, question+": "+answer
		case (answer == "error MODEL_NOT_FOUND" || question == "list") && strings.Contains(said, "cannot be read"):
			outcome, detail = lostModel, question+": "+answer
		default:
			return silent, fmt.Sprintf("%s is answered %s, want %s; the log: %s", question, answer, want[question], said)
		}
	}
	return outcome, detail
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

// copied is a copy of a directory.
func copied(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "data")
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSocket != 0 {
			return err
		}
		relative, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, relative), 0o750)
		}
		data, err := os.ReadFile(path)
		return errors.Join(err, os.WriteFile(filepath.Join(to, relative), data, 0o600))
	})
	require.NoError(t, err)
	return to
}

var digits = regexp.MustCompile(`[0-9]+`)

// flipAnywhere flips a bit of a file of any kind. A file is of the kind that its name is
// without numbers.
func flipAnywhere(t *testing.T, rng *rand.Rand, dir string) (kind, at string) {
	t.Helper()
	kinds := map[string][]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil || info.Size() == 0 {
			return err
		}
		name := digits.ReplaceAllString(path[len(dir)+1:], "N")
		kinds[name] = append(kinds[name], path)
		return nil
	})
	require.NoError(t, err)
	names := slices.Sorted(maps.Keys(kinds))
	kind = names[rng.IntN(len(names))]
	path := kinds[kind][rng.IntN(len(kinds[kind]))]
	data := must(os.ReadFile(path))(t)
	n, bit := rng.IntN(len(data)), rng.IntN(8)
	data[n] ^= 1 << bit
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return kind, fmt.Sprintf("bit %d of byte %d of %d of %s", bit, n, len(data), path[len(dir)+1:])
}

// fsck runs it and tells how it exits and what it says.
func fsck(t *testing.T, dir string, flags ...string) (code int, out string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), binary, append([]string{"fsck", "--data-dir", dir}, flags...)...)
	said, err := command.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), string(said)
	}
	require.NoError(t, err)
	return 0, string(said)
}

// contents is what every file of a directory holds.
func contents(t *testing.T, dir string) map[string][32]byte {
	t.Helper()
	out := map[string][32]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		out[path] = sha256.Sum256(data)
		return err
	})
	require.NoError(t, err)
	return out
}

func TestFsck(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if code, out := fsck(t, dir); code != 2 || !strings.Contains(out, "not a data directory") {
		t.Errorf("an empty directory: %d, %s", code, out)
	}
	p := launch(t, dir, "--snapshots-kept", "2")
	p.create(t)
	for n := range 2 {
		p.learn(t, n*10, (n+1)*10)
		must(p.models.SnapshotModel(t.Context(), &hindsightv1.SnapshotModelRequest{Model: "m"}))(t)
	}
	p.learn(t, 20, 25)
	if code, out := fsck(t, dir); code != 2 || !strings.Contains(out, "in use") {
		t.Errorf("while a server runs: %d, %s", code, out)
	}
	digest := p.stats(t).GetStateDigest()
	p.kill(t)
	before := contents(t, dir)
	code, out := fsck(t, dir, "--json")
	var report struct {
		Findings     []map[string]any
		Models       int
		Observations int
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != 0 || report.Models != 1 || report.Observations != 25 || len(report.Findings) > 0 {
		t.Errorf("after a kill: %d, %s (%v)", code, out, err)
	}
	snapshots, err := filepath.Glob(filepath.Join(dir, "snapshots", "1", "*.hs"))
	require.True(t, err == nil && len(snapshots) != 0, "%v %v", snapshots, err)
	newest := snapshots[len(snapshots)-1]
	data := must(os.ReadFile(newest))(t)
	data[len(data)/2] ^= 1
	require.NoError(t, os.WriteFile(newest, data, 0o600))
	before[newest] = sha256.Sum256(data)
	code, out = fsck(t, dir)
	assert.True(t, code == 1 && strings.Contains(out, newest) && strings.Contains(out, `model "m"`) && strings.Contains(out, "1 problems"), "a bad snapshot: %d, %s", code, out)
	after := contents(t, dir)
	assert.Equal(t, fmt.Sprint(before), fmt.Sprint(after), "looking changed the directory")
	code, out = fsck(t, dir, "--truncate")
	assert.True(t, code == 1 && strings.Contains(out, "repaired: renamed"), "truncate: %d, %s", code, out)
	code, out = fsck(t, dir)
	assert.Equal(t, 0, code, "after the repair, %s", out)
	p = launch(t, dir)
	assert.Equal(t, digest, p.stats(t).GetStateDigest())
	p.kill(t)
	// A table of the database itself, of which there is one after a start.
	tables, err := filepath.Glob(filepath.Join(dir, "log", "*.sst"))
	require.True(t, err == nil && len(tables) != 0, "%v %v", tables, err)
	data = must(os.ReadFile(tables[0]))(t)
	copy(data[len(data)/4:], bytes.Repeat([]byte{0xff}, len(data)/4))
	require.NoError(t, os.WriteFile(tables[0], data, 0o600))
	code, out = fsck(t, dir)
	assert.True(t, code == 1 && !strings.Contains(out, "panic"), "a bad table: %d, %s", code, out)
}

// flipIn changes a bit of a file, n bytes from its end.
func flipIn(t *testing.T, path string, n int) {
	t.Helper()
	data := must(os.ReadFile(path))(t)
	data[len(data)-n] ^= 1
	require.NoError(t, os.WriteFile(path, data, 0o600))
}

// newest is the last of the files of a pattern.
func newest(t *testing.T, pattern ...string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(pattern...))
	require.True(t, err == nil && len(paths) != 0, "%v %v %v", pattern, paths, err)
	return paths[len(paths)-1]
}

// mended checks that fsck finds a problem, changes nothing, and mends it when asked.
func mended(t *testing.T, dir, problem, repaired string) {
	t.Helper()
	before := contents(t, dir)
	code, out := fsck(t, dir)
	assert.True(t, code == 1 && strings.Contains(out, problem), "fsck: %d, %s; want the problem %q", code, out, problem)
	after := contents(t, dir)
	assert.Equal(t, fmt.Sprint(before), fmt.Sprint(after), "looking changed the directory")
	code, out = fsck(t, dir, "--truncate")
	assert.True(t, code == 1 && strings.Contains(out, "repaired: "+repaired), "fsck --truncate: %d, %s; want %q", code, out, repaired)
	code, out = fsck(t, dir)
	assert.Equal(t, 0, code, out)
}

// A bit flips in the last commit of the newest write-ahead log. The server does not go on
// without the commit unless fsck has cut it off.
func TestFsckDamagedTail(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := launch(t, dir)
	p.create(t)
	p.learn(t, 0, 25)
	p.kill(t)
	log := newest(t, dir, "log", "*.log")
	flipIn(t, log, 50)
	p, err := tryLaunch(t, dir, []string{binary})
	if err == nil {
		t.Fatalf("the server serves %d of 25 observations", p.stats(t).GetObservations())
	}
	for _, want := range []string{log, "acknowledged commits are lost", "fsck --truncate"} {
		assert.Contains(t, err.Error(), want, err)
	}
	mended(t, dir, log, "cut at byte ")
	p = launch(t, dir)
	at := p.stats(t).GetObservations()
	assert.True(t, at != 0 && at < 25, "%d of 25 observations are left", at)
	p.learn(t, int(at), 30)
	assert.EqualValues(t, 30, p.stats(t).GetObservations())
}
