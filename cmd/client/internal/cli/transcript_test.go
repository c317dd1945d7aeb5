package cli_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// The command lines of testdata/transcripts print what stands below them. To write the files anew, run go test -run
// TestTranscripts -rewrite.
//
//	hindsight  runs each line of the input. In the output "! " begins a line of standard error.
//	file       writes the input to $DIR/name. "< name" behind a command line is its standard input.
//	trips      writes $DIR/trips.csv.
//	stats, prediction  make the input the next answers of the fake. Without input the fake computes its answers.
//	server, cluster    start a fake without models, and a cluster of two servers and of the input's groups.
//	learned    waits until a model of the server has learned so many observations.
//	calls      prints the calls that changed the cluster.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		t.Helper()
		s := &transcript{dir: t.TempDir(), nowhere: nowhere(t), fake: serving(t)}
		datadriven.RunTest(t, path, s.step)
	})
}

// The command lines of testdata/server print what stands below them, on a server that keeps states. D1, D2, … are digests.
func TestTranscriptsWithTheServer(t *testing.T) {
	datadriven.Walk(t, "testdata/server", func(t *testing.T, path string) {
		t.Helper()
		realServer(t)
		s := &transcript{dir: t.TempDir(), digests: map[string]string{}}
		s.write(t, "cut.hs", "half a model")
		datadriven.RunTest(t, path, s.step)
	})
}

type transcript struct {
	dir, nowhere string
	digests      map[string]string
	fake         *fake
	cluster      *fakeCluster
}

func (s *transcript) step(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	switch d.Cmd {
	case "hindsight":
		var b strings.Builder
		lines := strings.Split(d.Input, "\n")
		for _, line := range lines {
			if len(lines) > 1 {
				b.WriteString("$ " + line + "\n")
			}
			b.WriteString(s.run(t, line))
		}
		return b.String()
	case "file":
		s.write(t, d.CmdArgs[0].Key, d.Input)
	case "trips":
		s.write(t, "trips.csv", trips(100))
	case "stats":
		s.fake.stats = answered[*hindsightv1.ModelStats](t, d.Input)
	case "prediction":
		s.fake.prediction = answered[*hindsightv1.Prediction](t, d.Input)
	case "server":
		s.fake = serving(t)
	case "cluster":
		answer := new(hindsightv1.GetClusterResponse)
		parse(t, d.Input, answer)
		s.cluster = &fakeCluster{groups: answer.GetGroups()}
		for _, step := range d.CmdArgs {
			s.cluster.steps = append(s.cluster.steps, step.Key)
		}
		// The first address of the list does not answer.
		t.Setenv("HINDSIGHT_ADDRESS", "127.0.0.1:1,"+s.cluster.serve(t))
	case "learned":
		for id := d.CmdArgs[0].Key; document(t, 0, "model", "get", id)["sequence"] != d.CmdArgs[1].Key; {
			require.NoError(t, t.Context().Err())
		}
	case "calls":
		return strings.ReplaceAll(strings.Join(s.cluster.calls, "\n"), " \n", "\n") + "\n"
	default:
		d.Fatalf(t, "unknown directive %q", d.Cmd)
	}
	return ""
}

// run returns what a command line prints, without the spaces at the ends of lines. An error in the flags is also one
// document in JSON.
func (s *transcript) run(t *testing.T, line string) string {
	t.Helper()
	line, stdin, redirected := strings.Cut(line, " < ")
	if redirected {
		stdin = read(t, filepath.Join(s.dir, stdin))
	}
	args := words(strings.NewReplacer("$DIR", s.dir, "$NOWHERE", s.nowhere).Replace(line))
	r := runWith(t.Context(), stdin, args...)
	if r.code == 2 && !redirected {
		e, _ := document(t, 2, args...)["error"].(map[string]any)
		assert.True(t, e["exitCode"] == 2.0 && e["message"] != "", "%s: the error in JSON is %v", line, e)
	}
	var b strings.Builder
	for out := range strings.Lines(r.out) {
		b.WriteString(strings.TrimRight(out, " \n") + "\n")
	}
	for said := range strings.Lines(r.errors) {
		b.WriteString("! " + strings.TrimRight(said, " \n") + "\n")
	}
	if r.code != 0 {
		fmt.Fprintf(&b, "exit %d\n", r.code)
	}
	out := b.String()
	if s.digests != nil {
		out = moment.ReplaceAllString(digest.ReplaceAllStringFunc(out, s.numbered), "TIME")
		out = size.ReplaceAllString(etag.ReplaceAllString(out, "ETAG-"), "SIZE$1")
	}
	out = drawnID.ReplaceAllString(out, "ID")
	out = measured.ReplaceAllString(out, "$1$2 TIME")
	return strings.NewReplacer(s.dir, "$DIR", cmp.Or(s.nowhere, s.dir), "$NOWHERE", "\u00a0", " ").Replace(out)
}

// numbered names equal digests alike.
func (s *transcript) numbered(digest string) string {
	if s.digests[digest] == "" {
		s.digests[digest] = fmt.Sprint("D", len(s.digests)+1)
	}
	return s.digests[digest]
}

// What differs from run to run.
var (
	digest   = regexp.MustCompile(`\b[0-9a-f]{64}\b`)
	etag     = regexp.MustCompile(`\b[a-z0-9]{12}-\b`)
	size     = regexp.MustCompile(`\b\d{4}\b( bytes|   D\d)`)
	moment   = regexp.MustCompile(`\b20[2-9]\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	drawnID  = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{64}`)
	measured = regexp.MustCompile(`(?m)(^rounds/s)  .*$|("(?:elapsedSeconds|roundsPerSecond)":) [^,]*`)
)

// words splits a command line at spaces. '...' is one word.
func words(line string) (all []string) {
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			all = append(all, part)
		} else {
			all = append(all, strings.Fields(part)...)
		}
	}
	return all
}

func (s *transcript) write(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, name), []byte(strings.TrimSuffix(text, "\n")+"\n"), 0o600))
}

func parse(t *testing.T, text string, m proto.Message) {
	t.Helper()
	require.NoError(t, protojson.Unmarshal([]byte("{"+text+"}"), m))
}

// answered returns a function that replaces an answer with the message of a text.
func answered[M interface {
	comparable
	proto.Message
}](t *testing.T, text string) func(M) {
	t.Helper()
	if text == "" {
		return nil
	}
	var m M
	want := m.ProtoReflect().New().Interface()
	parse(t, text, want)
	return func(answer M) {
		proto.Reset(answer)
		proto.Merge(answer, want)
	}
}
