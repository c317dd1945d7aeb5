package cli_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/internal/testca"
)

// nowhere returns an address at which nothing listens.
func nowhere(t *testing.T) string {
	t.Helper()
	var listen net.ListenConfig
	l, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close() //nolint:errcheck // only its address was needed
	return l.Addr().String()
}

// served starts a fake with one model of two inputs called m.
func served(t *testing.T) *fake {
	t.Helper()
	f := newFake()
	t.Setenv("HINDSIGHT_ADDRESS", f.start(t))
	document(t, 0, "model", "create", "m", "--spec", `{"dimension": 2, "pkawv_taylor": {"degree": 2}}`)
	return f
}

// TestConnectingForever asks a listener that never answers.
func TestConnectingForever(t *testing.T) {
	var listen net.ListenConfig
	l, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close() //nolint:errcheck // only its address was needed
	r := run(t, "--address", l.Addr().String(), "--timeout", "200ms", "model", "get", "m")
	assert.Equal(t, 3, r.code, r.errors)
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"model"}} {
		r := run(t, args...)
		assert.True(t, r.code == 0 && strings.Contains(r.out, "--json  "), "%v: %+v", args, r)
	}
}

// UpdateModel sets what the mask names.
func (f *fake) UpdateModel(_ context.Context, r *hindsightv1.UpdateModelRequest) (*hindsightv1.UpdateModelResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, err := f.model(r.GetModel().GetId())
	if err != nil {
		return nil, err
	}
	for _, path := range r.GetUpdateMask().GetPaths() {
		key, isLabel := strings.CutPrefix(path, "labels.")
		switch {
		case path == "display_name":
			m.model.DisplayName = r.GetModel().GetDisplayName()
		case isLabel && r.GetModel().GetLabels()[key] == "":
			delete(m.model.GetLabels(), key)
		case isLabel:
			m.model.Labels = map[string]string{key: r.GetModel().GetLabels()[key]}
		default:
			return nil, reject(codes.InvalidArgument, "INVALID_REQUEST", "no such field", path)
		}
	}
	return &hindsightv1.UpdateModelResponse{Model: proto.CloneOf(m.model)}, nil
}

// WatchModel sends statistics three times, with an outcome between them.
func (f *fake) WatchModel(r *hindsightv1.WatchModelRequest, s grpc.ServerStreamingServer[hindsightv1.WatchModelResponse]) error {
	for range 3 {
		stats, err := f.GetModelStats(s.Context(), &hindsightv1.GetModelStatsRequest{Model: r.GetModel()})
		if err != nil {
			return err
		}
		stats.GetStats().Experts = nil // Events do not have them.
		for _, event := range []*hindsightv1.WatchModelResponse{
			{Event: &hindsightv1.WatchModelResponse_Stats{Stats: stats.GetStats()}},
			{Event: &hindsightv1.WatchModelResponse_Outcome{Outcome: &hindsightv1.OutcomeEvent{}}},
		} {
			if err := s.Send(event); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *fake) SetAlias(_ context.Context, r *hindsightv1.SetAliasRequest) (*hindsightv1.SetAliasResponse, error) {
	return &hindsightv1.SetAliasResponse{Alias: &hindsightv1.Alias{Alias: r.GetAlias(), Model: r.GetModel(), PreviousModel: r.GetExpectedModel()}}, nil
}

func (f *fake) ListAliases(context.Context, *hindsightv1.ListAliasesRequest) (*hindsightv1.ListAliasesResponse, error) {
	return &hindsightv1.ListAliasesResponse{Aliases: []*hindsightv1.Alias{{Alias: "champion", Model: "m"}}}, nil
}

func (f *fake) CompareModels(context.Context, *hindsightv1.CompareModelsRequest) (*hindsightv1.CompareModelsResponse, error) {
	figures := func(loss float64) *hindsightv1.Performance {
		return &hindsightv1.Performance{Prequential: &hindsightv1.PerformanceFigures{MeanLoss: loss, Skill: proto.Float64(0.5)}}
	}
	return &hindsightv1.CompareModelsResponse{Comparisons: []*hindsightv1.Comparison{
		{Model: "m", Performance: figures(0.25)}, {Model: "n", Performance: figures(0.125), Followed: figures(0.1)},
	}}, nil
}

// TestScripts runs the completion scripts through their shells' parsers.
func TestScripts(t *testing.T) {
	script := run(t, "completion", "bash").out
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	check := exec.CommandContext(t.Context(), bash, "-n")
	check.Stdin = strings.NewReader(script)
	out, err := check.CombinedOutput()
	assert.NoError(t, err, out)
	r := run(t, "__complete", "model", "list", "--learner", "")
	assert.True(t, strings.Contains(r.out, "pkawv_taylor\n") && strings.Contains(r.out, "auto\n"), "%+v", r)
}

// secure starts a fake with TLS that wants certificates of its own CA and the token
// "s3cret". It returns the address and a directory with the files.
func secure(t *testing.T) (address, dir string) {
	t.Helper()
	dir = t.TempDir()
	a := testca.New(t, "ca")
	testca.Write(t, dir, "ca.crt", a.PEM)
	testca.Write(t, dir, "other.crt", testca.New(t, "other").PEM)
	testca.Write(t, dir, "token", []byte("s3cret\n"))
	a.Files(t, dir, "client", testca.Leaf{Name: "client"})
	pair := a.Pair(t, testca.Leaf{Hosts: []string{"hindsight.example", "127.0.0.1"}})
	var listen net.ListenConfig
	l, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(newFake().serve(l,
		grpc.Creds(credentials.NewTLS(&tls.Config{
			Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, ClientCAs: a.Pool(), ClientAuth: tls.RequireAndVerifyClientCert,
		})),
		grpc.UnaryInterceptor(func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			incoming, _ := metadata.FromIncomingContext(ctx)
			if strings.Join(incoming.Get("authorization"), "") != "Bearer s3cret" {
				return nil, reject(codes.Unauthenticated, "UNAUTHENTICATED", "who is it?")
			}
			return handle(ctx, request)
		})))
	return l.Addr().String(), dir
}

// The flags, and the variables in their place, secure the connection.
func TestSecureFlags(t *testing.T) {
	address, dir := secure(t)
	file := func(name string) string { return filepath.Join(dir, name) }
	ca, cert, key, token := file("ca.crt"), file("client.crt"), file("client.key"), file("token")
	for name, c := range map[string]struct {
		args []string
		env  map[string]string
		code int
		say  string
	}{
		"flags":            {[]string{"--ca", ca, "--cert", cert, "--key", key, "--token-file", token}, nil, 0, ""},
		"server name":      {[]string{"--tls", "--ca", ca, "--cert", cert, "--key", key, "--server-name", "hindsight.example", "--token-file", token}, nil, 0, ""},
		"variables":        {nil, map[string]string{"HINDSIGHT_CA": ca, "HINDSIGHT_CERT": cert, "HINDSIGHT_KEY": key, "HINDSIGHT_TOKEN_FILE": token}, 0, ""},
		"token itself":     {[]string{"--ca", ca, "--cert", cert, "--key", key}, map[string]string{"HINDSIGHT_TOKEN": "s3cret"}, 0, ""},
		"no token":         {[]string{"--ca", ca, "--cert", cert, "--key", key}, nil, 1, "give a token"},
		"file wins":        {[]string{"--ca", ca, "--cert", cert, "--key", key, "--token-file", ca}, map[string]string{"HINDSIGHT_TOKEN": "s3cret"}, 1, "want printable ASCII"},
		"wrong token":      {[]string{"--ca", ca, "--cert", cert, "--key", key}, map[string]string{"HINDSIGHT_TOKEN": "guess"}, 1, "does not take the token"},
		"no file":          {[]string{"--ca", file("none")}, nil, 2, "TLS: CA: open "},
		"no TLS":           {nil, nil, 3, "it may want TLS"},
		"HINDSIGHT_TLS":    {nil, map[string]string{"HINDSIGHT_TLS": "true"}, 3, "give its file as CA"},
		"HINDSIGHT_TLS=1":  {nil, map[string]string{"HINDSIGHT_TLS": "1"}, 3, "give its file as CA"},
		"HINDSIGHT_TLS=on": {nil, map[string]string{"HINDSIGHT_TLS": "on"}, 2, `HINDSIGHT_TLS: got "on", want true or false`},
		"wrong CA":         {[]string{"--ca", file("other.crt")}, nil, 3, "give its file as CA"},
		"wrong name":       {[]string{"--ca", ca, "--server-name", "x.example"}, nil, 3, "give that name as server name"},
		"no certificate":   {[]string{"--ca", ca}, nil, 3, "give the files of a certificate and its key"},
		"one of two":       {[]string{"--ca", ca, "--cert", cert}, nil, 2, "want both or none"},
		"far away":         {[]string{"--address", "server.example"}, map[string]string{"HINDSIGHT_TOKEN": "s3cret"}, 2, "a token is not sent in plaintext"},
	} {
		t.Run(name, func(t *testing.T) {
			for variable, value := range c.env {
				t.Setenv(variable, value)
			}
			r := run(t, append([]string{"--address", address, "model", "list"}, c.args...)...)
			assert.True(t, r.code == c.code && strings.Contains(r.errors, c.say) && !strings.Contains(r.out+r.errors, "s3cret"), "exit code %d, want %d: %s%s", r.code, c.code, r.out, r.errors)
			assert.False(t, strings.Contains(r.errors, "start one with"), "it says to start a server: %s", r.errors)
		})
	}
}

// Every command that infers the inputs of a file says what is left out, and which cell is taken for a
// missing value, unless the column is ignored. It says so once.
func TestNoticeOfOddCells(t *testing.T) {
	t.Setenv(actAsServer, "yes")
	var b strings.Builder
	b.WriteString("x,id,price,sold\n")
	for i := range 300 {
		x := fmt.Sprintf("%d.5", i)
		if i == 7 {
			x = "ask 7"
		}
		price := "2.5"
		if i%2 == 0 {
			price = strconv.Itoa(i % 40)
		}
		if i == 9 {
			price = "-9-"
		}
		fmt.Fprintf(&b, "%s,n%d,%s,%d\n", x, i, price, i)
	}
	path := written(t, "sales.csv", b.String())
	says := []string{
		`x is a number: numbers from 0.5 to 299.5; "ask 7" in line 9 is no number, and is taken for a missing value`,
		"id is left out: most cells do not repeat another: it names the row",
		`price is a number: numbers from 0 to 38; "-9-" in line 11 is no number, and is taken for a missing value`,
	}
	serving(t)
	local := []string{"--local", "--server", program(t)}
	for name, args := range map[string][]string{
		"compare": {"compare", "--csv", path, "--learners", "auto"},
		"predict": append([]string{"predict", "--train", path, "--inputs", `{"x": 3, "price": 2.5}`}, local...),
		"replay":  append([]string{"replay", "--csv", path}, local...),
	} {
		r := run(t, args...)
		for _, text := range says {
			assert.True(t, r.code == 0 && strings.Count(r.errors, text) == 1, "%s: %+v, want it to say once %s", name, r, text)
		}
	}
	r := run(t, "compare", "--csv", path, "--learners", "auto", "--ignore", "id")
	assert.True(t, r.code == 0 && !strings.Contains(r.errors, "id is left out") && strings.Contains(r.errors, says[0]), "--ignore id: %+v", r)
	r = run(t, append([]string{"predict", "--train", path, "--csv", written(t, "asked.csv", "x,price\n"+strings.Repeat("1.5,2\n", 40)+"ask 9,2\n")}, local...)...)
	assert.True(t, r.code == 0 && strings.Count(r.errors, `"ask 9" in line 42`) == 1, "a file to predict: %+v", r)
}

// A command with --local starts a server, and leaves neither the server nor its directory.
func TestLocal(t *testing.T) {
	t.Setenv(actAsServer, "yes")
	t.Setenv("HINDSIGHT_ADDRESS", nowhere(t))
	dir := temporary(t)
	text, labels, _ := sales(60)
	path := written(t, "sales.csv", text)
	d := document(t, 0, "replay", "--csv", path, "--local", "--server", program(t))
	assert.True(t, d["model"] == "local" && d["acknowledged"] == float64(len(labels)) && d["unlabelled"] == float64(60-len(labels)), "replay: %v", d)
	d = document(t, 0, "compare", "--csv", path, "--local", "--server", program(t), "--delay", "3")
	assert.Len(t, d["learners"].([]any), 4, d)
	d = document(t, 0, "predict", "--local", "--server", program(t), "--train", path, "--inputs", `{"hour": 3, "price": 2}`)
	var sum float64
	for _, y := range labels {
		sum += y
	}
	v, _ := d["value"].(float64)
	assert.True(t, near(v, sum/float64(len(labels))), "predict: %v, want the mean of the file", d)
	r := run(t, "infer", "--csv", path, "--target", "sold")
	assert.True(t, r.code == 0 && strings.Contains(r.out, `"price"`), "infer: %+v", r)
	assert.True(t, isEmpty(t, dir), "the temporary directory is left")
	for says, args := range map[string][]string{
		"--local and --train need each other": {"predict", "--local", "1"},
		"exclude each other":                  {"predict", "--local", "--train", path, "--model", "m", "1"},
		"ended before it was ready":           {"replay", "--local", "--server", "/bin/false", "--csv", path},
		"the target has no label":             {"predict", "--local", "--server", program(t), "--train", written(t, "n.csv", "x,sold\n1,\n2,\n"), "--inputs", "{}"},
	} {
		r := run(t, args...)
		assert.True(t, r.code != 0 && strings.Contains(r.errors, says), "%v: want %q: %+v", args, says, r)
	}
	// Without --server the program is looked up beside this one, then on the PATH.
	t.Setenv("PATH", t.TempDir())
	r = run(t, "compare", "--local", "--csv", path)
	assert.True(t, r.code == 2 && strings.Contains(r.errors, "neither beside this program nor on the PATH"), "%+v", r)
	require.NoError(t, os.Symlink(program(t), filepath.Join(os.Getenv("PATH"), "hindsight-server")))
	r = run(t, "compare", "--local", "--csv", path)
	assert.Equal(t, 0, r.code, r)
}

// predict --csv sends the rows.
func TestPredictFile(t *testing.T) {
	f := served(t)
	for rows, code := range map[string]int{"x1,y,x2\n1,,2\n3,7,4\n5,?,6\n": 0, "a,b\n1,z\n": 2} {
		r := run(t, "predict", "m", "--csv", written(t, "rows.csv", rows))
		want := map[int]string{0: "row,prediction\n1,0\n2,0\n3,0\n"}[code]
		assert.True(t, r.code == code && r.out == want, "%+v, want %q", r, want)
	}
	want := [][]float64{{1, 2}, {3, 4}, {5, 6}}
	assert.True(t, slices.EqualFunc(f.batched, want, func(a fakeInput, b []float64) bool { return slices.Equal(a.features, b) }), "asked for %v, want %v", f.batched, want)
}

// temporary sets os.TempDir to a new directory of the test and returns it.
func temporary(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	return dir
}

func isEmpty(t *testing.T, dir string) bool {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(dir, "hindsight-*"))
	require.NoError(t, err)
	return len(left) == 0
}

func program(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	require.NoError(t, err)
	return path
}

func TestDemo(t *testing.T) {
	t.Setenv(actAsServer, "yes")
	dir := temporary(t)
	r := run(t, "demo", "--server", program(t), "--rounds", "300")
	require.Equal(t, 0, r.code, r)
	for _, want := range []string{"rounds  ", "300", "as good as trivial", "skill over the last 1000 rounds", "regret against the best expert", "round  skill  regret"} {
		assert.Contains(t, r.out, want)
	}
	for line := range strings.Lines(r.out) {
		assert.LessOrEqual(t, len([]rune(strings.TrimSpace(line))), 100, line)
	}
	assert.True(t, isEmpty(t, dir), "the temporary directory is left")
	d := document(t, 0, "demo", "--server", program(t), "--rounds", "20")
	assert.True(t, d["rounds"] == 20.0 && stat(d, "regret") != nil && d["pageUrl"] != "", "document %v", d)
}

func TestDemoTimeLimit(t *testing.T) {
	t.Setenv(actAsServer, "yes")
	d := document(t, 0, "demo", "--server", program(t), "--rounds", "3000", "--for", "50ms")
	n, _ := d["acknowledged"].(float64)
	assert.True(t, n >= 1 && n < 3000 && d["error"] == nil, "document %v", d)
}

func TestDemoFails(t *testing.T) {
	for mode, want := range map[string]string{"broken": "exit status 7: no disk", "rude": "exit status 9"} {
		t.Setenv(actAsServer, mode)
		dir := temporary(t)
		r := run(t, "demo", "--server", program(t), "--rounds", "5")
		assert.True(t, r.code == 1 && strings.Contains(r.errors, want) && isEmpty(t, dir), "%s: %+v", mode, r)
	}
	r := run(t, "demo", "--server", "/nonexistent/server")
	assert.NotEqual(t, 0, r.code, r)
}

func TestDemoInterrupted(t *testing.T) {
	t.Setenv(actAsServer, "yes")
	dir := temporary(t)
	ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
	defer cancel()
	r := runWith(ctx, "", "demo", "--server", program(t), "--rounds", "20000")
	assert.True(t, r.code == 130 && isEmpty(t, dir) && !strings.Contains(r.errors, "continue with"), "%+v", r)
}

// The demo of a cluster loses nothing when the owner is killed, and says so in one line.
func TestDemoOfACluster(t *testing.T) {
	if os.Getenv("HINDSIGHT_E2E") == "" {
		t.Skip("takes long: make test-e2e runs it")
	}
	program, err := build()
	require.NoError(t, err)
	dir := temporary(t)
	r := run(t, "demo", "--server", program, "--servers", "3", "--rounds", "600", "--for", "6s", "--json")
	var s struct {
		Acknowledged int   `json:"acknowledged"`
		Lost         *int  `json:"lost"`
		Twice        *int  `json:"learned_twice"`
		Gap          int64 `json:"gap_ms"`
		Equal        bool  `json:"digests_equal"`
	}
	err = json.Unmarshal([]byte(r.out), &s)
	require.True(t, err == nil && r.code == 0 && strings.Count(r.out, "\n") == 1, "%v, %+v", err, r)
	assert.True(t, s.Acknowledged != 0 && s.Lost != nil && *s.Lost == 0 && s.Twice != nil && *s.Twice == 0 && s.Gap > 0 && s.Equal && isEmpty(t, dir), r.out)
}

// fakeCluster is a cluster of two servers.
type fakeCluster struct {
	hindsightv1.UnimplementedClusterServiceServer
	calls []string
	// groups are the answer of GetCluster, steps those of RebalanceCluster.
	groups []*hindsightv1.Group
	steps  []string
}

func (f *fakeCluster) GetCluster(_ context.Context, r *hindsightv1.GetClusterRequest) (*hindsightv1.GetClusterResponse, error) {
	if r.GetGroup() != 0 {
		return &hindsightv1.GetClusterResponse{Group: r.GetGroup(), Servers: []*hindsightv1.Server{{Server: "b2", Address: "b:7946"}}}, nil
	}
	return &hindsightv1.GetClusterResponse{Groups: f.groups, Server: "b", Owner: "a", Servers: []*hindsightv1.Server{
		{Server: "a", Address: "a:7946", State: hindsightv1.Server_STATE_OWNER, Reachable: true, Applied: proto.Uint64(9), Version: "v1"},
		{Server: "b", Address: "b:7946", State: hindsightv1.Server_STATE_VOTER, Applied: proto.Uint64(7), Behind: proto.Uint64(2), Age: durationpb.New(3 * time.Millisecond)},
	}}, nil
}

func (f *fakeCluster) MoveOwner(_ context.Context, r *hindsightv1.MoveOwnerRequest) (*hindsightv1.MoveOwnerResponse, error) {
	if r.GetGroup() != 0 {
		f.calls = append(f.calls, fmt.Sprint("group ", r.GetGroup()))
	}
	f.calls = append(f.calls, "move "+r.GetServer())
	return &hindsightv1.MoveOwnerResponse{}, nil
}

func (f *fakeCluster) DrainServer(_ context.Context, r *hindsightv1.DrainServerRequest) (*hindsightv1.DrainServerResponse, error) {
	f.calls = append(f.calls, "drain "+r.GetServer())
	return &hindsightv1.DrainServerResponse{}, nil
}

func (f *fakeCluster) RemoveServer(_ context.Context, r *hindsightv1.RemoveServerRequest) (*hindsightv1.RemoveServerResponse, error) {
	if r.GetServer() == "a" {
		return nil, reject(codes.FailedPrecondition, "SERVER_STATE", "the owner cannot be removed")
	}
	f.calls = append(f.calls, "remove "+r.GetServer())
	return &hindsightv1.RemoveServerResponse{}, nil
}

func (f *fakeCluster) RebalanceCluster(_ context.Context, r *hindsightv1.RebalanceClusterRequest) (*hindsightv1.RebalanceClusterResponse, error) {
	f.calls = append(f.calls, "rebalance "+strings.Join(r.GetLeaving(), ","))
	if len(f.steps) == 0 {
		return &hindsightv1.RebalanceClusterResponse{}, nil
	}
	step := f.steps[0]
	f.steps = f.steps[1:]
	return &hindsightv1.RebalanceClusterResponse{Step: step, Left: uint32(len(f.steps))}, nil
}

// serve serves the cluster until the test ends, and returns its address.
func (f *fakeCluster) serve(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := grpc.NewServer()
	hindsightv1.RegisterClusterServiceServer(s, f)
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { s.Stop(); <-done })
	return l.Addr().String()
}
