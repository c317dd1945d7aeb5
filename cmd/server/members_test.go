package main_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
	"hindsight/cmd/internal/testca"
)

// seat is a place in a cluster: a directory and an address.
type seat struct {
	dir   string
	by    []string // The command that ends in the server's, nil for the server alone.
	flags []string
	*process
}

func (s *seat) launch(t *testing.T) {
	t.Helper()
	by := s.by
	if by == nil {
		by = []string{binary}
	}
	s.process = launchBy(t, s.dir, by, s.flags...)
}

// cluster returns the cluster as the server knows it.
func (s *seat) cluster(t *testing.T) (r *hindsightv1.GetClusterResponse) {
	t.Helper()
	eventually(t, "a server describes the cluster", func() (ok bool) {
		var err error
		r, err = hindsightv1.NewClusterServiceClient(s.connection).GetCluster(t.Context(), &hindsightv1.GetClusterRequest{})
		require.True(t, err == nil || status.Code(err) == codes.Unavailable, err)
		return err == nil
	})
	return r
}

// stats is stats of the process, however often the servers elect an owner again.
func (s *seat) stats(t *testing.T) (found *hindsightv1.ModelStats) {
	t.Helper()
	eventually(t, "a server has statistics", func() bool {
		r, err := s.models.GetModelStats(t.Context(), &hindsightv1.GetModelStatsRequest{Model: "m"})
		require.True(t, err == nil || status.Code(err) == codes.Unavailable, err)
		found = r.GetStats()
		return err == nil
	})
	return found
}

// vote waits until the cluster is so many servers, and each has a vote. Before that the cluster does not survive the loss of a server.
func vote(t *testing.T, s *seat, n int) {
	t.Helper()
	eventually(t, "every server has a vote", func() bool {
		servers := s.cluster(t).GetServers()
		return len(servers) == n && !slices.ContainsFunc(servers, func(one *hindsightv1.Server) bool {
			return one.GetState() != hindsightv1.Server_STATE_VOTER && one.GetState() != hindsightv1.Server_STATE_OWNER
		})
	})
}

// ready is the answer of /readyz.
func (s *seat) ready(t *testing.T) int {
	t.Helper()
	r := must(http.NewRequestWithContext(t.Context(), http.MethodGet, s.http+"/readyz", http.NoBody))(t)
	a := must(http.DefaultClient.Do(r))(t)
	defer a.Body.Close() //nolint:errcheck // It was only read.
	return a.StatusCode
}

// seats found a cluster of three servers with TLS among them, all of which vote. The first one owns the models. The command by starts each.
func seats(t *testing.T, by ...string) []*seat {
	t.Helper()
	ca, files := testca.New(t, "cluster"), t.TempDir()
	root := testca.Write(t, files, "ca.pem", ca.PEM)
	certificate, key := ca.Files(t, files, "server", testca.Leaf{Name: "server", Hosts: []string{"127.0.0.1"}, Member: true})
	var addresses []string
	for range 3 {
		addresses = append(addresses, freePort(t))
	}
	var all []*seat
	for n, address := range addresses {
		all = append(all, &seat{dir: filepath.Join(t.TempDir(), strconv.Itoa(n)), by: by, flags: []string{
			"--cluster-address", address, "--cluster-join", strings.Join(addresses, ","),
			"--cluster-cert", certificate, "--cluster-key", key, "--cluster-ca", root,
		}})
	}
	for _, s := range all {
		s.launch(t)
	}
	for _, s := range all {
		s.logged(t, "the owner of the models", 1)
	}
	for _, s := range all {
		vote(t, s, len(all))
	}
	return all
}

// knows predicts once the server knows n observations. On a busy machine the servers elect an owner
// again at any time, and are unavailable meanwhile.
func (s *seat) knows(t *testing.T, n int) (r *hindsightv1.PredictResponse) {
	t.Helper()
	eventually(t, "a server that knows all observations predicts", func() (ok bool) {
		var err error
		r, err = s.predictor.Predict(t.Context(), &hindsightv1.PredictRequest{
			Model: "m", Features: []float64{1, 2}, Remember: proto.Bool(false), MinSequence: uint64(n),
		})
		require.True(t, err == nil || status.Code(err) == codes.Unavailable, err)
		return err == nil
	})
	return r
}

// Three servers are one service. Each server answers every call, two servers continue without the third, and one
// server continues alone after the loss of the others for good.
func TestThreeServersAreOneService(t *testing.T) {
	t.Parallel()
	all := seats(t, binary)
	all[2].create(t)
	n := 0
	for _, s := range all {
		n = s.learn(t, n, n+30)
	}
	owner := ""
	for k, s := range all {
		r := s.knows(t, n)
		assert.Equal(t, uint64(n), r.GetPrediction().GetStateSequence(), "%v %v", k, r)
		eventually(t, fmt.Sprintf("server %d knows the servers and the owner", k), func() bool {
			c := s.cluster(t)
			owner = c.GetOwner()
			return len(c.GetServers()) > 0 && owner != "" && s.ready(t) == http.StatusOK
		})
	}
	// The server forwards JSON calls too.
	eventually(t, "a call in JSON is forwarded", func() bool {
		answer, err := http.Post(all[1].http+"/v1/models/m:observe", "application/json", strings.NewReader(`{"features":[1,2],"label":3,"observationId":"json"}`)) //nolint:noctx // The server answers.
		require.NoError(t, err)
		body, err := io.ReadAll(answer.Body)
		if err != nil || answer.Body.Close() != nil || answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusServiceUnavailable {
			t.Fatalf("observe in JSON: %d %s, %v", answer.StatusCode, body, err)
		}
		return answer.StatusCode == http.StatusOK
	})
	n++
	// The owner hands ownership on before it ends.
	var first *seat
	var left []*seat
	for _, s := range all {
		if s.cluster(t).GetServer() == owner {
			first = s
		} else {
			left = append(left, s)
		}
	}
	first.terminate(t)
	n = left[0].learn(t, n, n+30)
	n = left[1].learn(t, n, n+30)
	if c := left[1].cluster(t); c.GetOwner() == c.GetServer() {
		left[0], left[1] = left[1], left[0]
	}
	// The owner dies, and the other server has every acknowledged observation.
	want := left[0].stats(t).GetStateDigest()
	left[1].knows(t, n)
	// A server alone has no majority: it answers predictions, and rejects the rest.
	left[0].kill(t)
	observe := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := left[1].predictor.Observe(ctx, observation(n))
		return err
	}
	err := observe()
	unknown := client.FromError(err).Is(client.ErrOutcomeUnknown)
	if unknown { // It was on its way to the killed owner, or this server became the owner before the kill.
		err = observe()
	}
	assert.True(t, client.FromError(err).Is(client.ErrNotOwner), "observe without a majority: %v", err)
	r, err := left[1].predictor.Predict(t.Context(), &hindsightv1.PredictRequest{Model: "m", Features: []float64{1, 2}, Remember: proto.Bool(false)})
	assert.NoError(t, err, "predict without a majority: %v", r)
	left[1].kill(t)
	if b := succeed[struct {
		Stopped   bool
		Unapplied int
	}](t, "backup", "--data-dir", left[1].dir, "--to", t.TempDir()); !b.Stopped || b.Unapplied == 0 {
		t.Error("the backup of a killed server does not say that only the log has the newest changes")
	}
	// An operator makes the remaining server the only member.
	for _, yes := range []bool{false, true} {
		arguments := []string{"cluster", "recover", "--data-dir", left[1].dir}
		if yes {
			arguments = append(arguments, "--yes")
		}
		out, err := exec.CommandContext(t.Context(), binary, arguments...).CombinedOutput()
		assert.True(t, (err == nil) == yes && strings.Count(string(out), "without ") >= 2 && strings.Contains(string(out), "Done") == yes, "recover, yes %t: %v\n%s", yes, err, out)
	}
	left[1].launch(t)
	left[1].logged(t, "the owner of the models", 1)
	left[1].knows(t, n) // Its model may still learn what the log has.
	got := left[1].stats(t)
	learned := unknown && got.GetObservations() == uint64(n)+1 // The new membership commits what its log has.
	if !learned && (got.GetStateDigest() != want || got.GetObservations() != uint64(n)) {
		t.Errorf("%d observations, want %d; the state is %s, want %s", got.GetObservations(), n, got.GetStateDigest(), want)
	}
	left[1].learn(t, n, n+30)
	left[1].terminate(t)
}
