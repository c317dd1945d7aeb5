package check_test

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestCompose loads deploy/compose.yaml as docker compose does.
func TestCompose(t *testing.T) {
	project := compose(t, "deploy/compose.yaml")
	got, want := slices.Sorted(maps.Keys(project.Services)), []string{"grafana", "hindsight", "prometheus"}
	assert.True(t, slices.Equal(got, want), "services %q, want %q", got, want)
	checkServer(t, project.Services["hindsight"])
}

// TestComposeCluster checks that the servers of deploy/compose.cluster.yaml name each other, and that the server
// accepts their settings.
func TestComposeCluster(t *testing.T) {
	t.Setenv("HINDSIGHT_TLS_DIR", t.TempDir())
	project := compose(t, "deploy/compose.cluster.yaml")
	bin := filepath.Join(t.TempDir(), "hindsight-server")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "./cmd/server")
	build.Dir = root
	out, err := build.CombinedOutput()
	require.NoError(t, err, "\n%s", out)
	var addresses []string
	for _, name := range slices.Sorted(maps.Keys(project.Services)) {
		addresses = append(addresses, name+":7946")
	}
	assert.Len(t, addresses, 3, "servers, want three")
	for name, service := range project.Services {
		checkServer(t, service)
		run := exec.CommandContext(t.Context(), bin, "healthcheck")
		for variable, value := range service.Environment {
			run.Env = append(run.Env, variable+"="+*value)
			if strings.HasPrefix(*value, "/") && !slices.ContainsFunc(service.Volumes, func(v types.ServiceVolumeConfig) bool { return strings.HasPrefix(*value, v.Target+"/") }) {
				t.Errorf("%s: %s is %s, where nothing is mounted", name, variable, *value)
			}
		}
		for variable, want := range map[string]string{"HINDSIGHT_CLUSTER_ADDRESS": name + ":7946", "HINDSIGHT_CLUSTER_JOIN": strings.Join(addresses, ",")} {
			got := service.Environment[variable]
			assert.True(t, got != nil && *got == want, "%s: another %s than %s", name, variable, want)
		}
		// Status 1: no server answers. Status 2: the settings were rejected.
		out, err := run.CombinedOutput()
		failed := new(exec.ExitError)
		assert.True(t, errors.As(err, &failed) && failed.ExitCode() == 1, "%s: %v\n%s", name, err, out)
	}
}

// compose loads a file as docker compose does, and checks what holds for every service.
func compose(t *testing.T, file string) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{filepath.Join(root, file)}, cli.WithOsEnv, cli.WithConsistency(true))
	require.NoError(t, err)
	project, err := options.LoadProject(t.Context())
	require.NoError(t, err)
	for name, service := range project.Services {
		assert.True(t, service.MemLimit != 0, "%s: no limit of memory", name)
		assert.True(t, slices.Equal(service.CapDrop, []string{"ALL"}) && slices.Contains(service.SecurityOpt, "no-new-privileges:true"), "%s: it keeps privileges", name)
		for _, port := range service.Ports {
			assert.Equal(t, "127.0.0.1", port.HostIP, "%s: port %s answers at", name, port.Published)
		}
		for _, volume := range service.Volumes {
			if volume.Type != types.VolumeTypeBind {
				continue
			}
			_, err := os.Stat(volume.Source)
			assert.NoError(t, err, name)
			assert.True(t, volume.ReadOnly, "%s: it may write %s", name, volume.Source)
		}
	}
	return project
}

// checkServer checks the settings and limits of a service that is a server.
func checkServer(t *testing.T, server types.ServiceConfig) {
	t.Helper()
	known := settings(t)
	for variable := range server.Environment {
		assert.True(t, known[variable], "the server has no setting %s", variable)
	}
	limit := server.Environment["HINDSIGHT_MEMORY_LIMIT"]
	var own types.UnitBytes
	require.True(t, limit != nil, "the server has no memory-limit")
	err := own.DecodeMapstructure(strings.TrimSuffix(*limit, "iB"))
	assert.True(t, err == nil && own != 0 && own < server.MemLimit, "memory-limit is %d of %d bytes, %v", own, server.MemLimit, err)
	assert.True(t, server.StopGracePeriod != nil && server.StopGracePeriod.String() == "1m0s", "the server has %v to stop", server.StopGracePeriod)
}

// TestGrafana checks that the provisioned files name what compose mounts and scrapes.
func TestGrafana(t *testing.T) {
	compose := read(t, "deploy/compose.yaml")
	dashboards := read(t, "deploy/grafana/provisioning/dashboards/hindsight.yaml")
	if !strings.Contains(dashboards, "path: /var/lib/grafana/dashboards\n") ||
		!strings.Contains(compose, "- ./grafana/dashboards:/var/lib/grafana/dashboards:ro\n") {
		t.Error("Grafana looks for dashboards where compose mounts none")
	}
	source := read(t, "deploy/grafana/provisioning/datasources/prometheus.yaml")
	assert.True(t, strings.Contains(source, "url: http://prometheus:9090\n"), "Grafana asks another address than that of Prometheus")
	assert.True(t, strings.Contains(read(t, "deploy/prometheus/prometheus.yml"), "hindsight:9464"), "Prometheus asks another address than that of the server")
}
