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
)

// TestCompose loads deploy/compose.yaml as docker compose does.
func TestCompose(t *testing.T) {
	project := compose(t, "deploy/compose.yaml")
	if got, want := slices.Sorted(maps.Keys(project.Services)), []string{"grafana", "hindsight", "prometheus"}; !slices.Equal(got, want) {
		t.Errorf("services %q, want %q", got, want)
	}
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
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var addresses []string
	for _, name := range slices.Sorted(maps.Keys(project.Services)) {
		addresses = append(addresses, name+":7946")
	}
	if len(addresses) != 3 {
		t.Errorf("servers %q, want three", addresses)
	}
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
			if got := service.Environment[variable]; got == nil || *got != want {
				t.Errorf("%s: another %s than %s", name, variable, want)
			}
		}
		// Status 1: no server answers. Status 2: the settings were rejected.
		out, err := run.CombinedOutput()
		if failed := new(exec.ExitError); !errors.As(err, &failed) || failed.ExitCode() != 1 {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// compose loads a file as docker compose does, and checks what holds for every service.
func compose(t *testing.T, file string) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{filepath.Join(root, file)}, cli.WithOsEnv, cli.WithConsistency(true))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, service := range project.Services {
		if service.MemLimit == 0 {
			t.Errorf("%s: no limit of memory", name)
		}
		if !slices.Equal(service.CapDrop, []string{"ALL"}) || !slices.Contains(service.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s: it keeps privileges", name)
		}
		for _, port := range service.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s: port %s answers at %q", name, port.Published, port.HostIP)
			}
		}
		for _, volume := range service.Volumes {
			if volume.Type != types.VolumeTypeBind {
				continue
			}
			if _, err := os.Stat(volume.Source); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if !volume.ReadOnly {
				t.Errorf("%s: it may write %s", name, volume.Source)
			}
		}
	}
	return project
}

// checkServer checks the settings and limits of a service that is a server.
func checkServer(t *testing.T, server types.ServiceConfig) {
	t.Helper()
	known := settings(t)
	for variable := range server.Environment {
		if !known[variable] {
			t.Errorf("the server has no setting %s", variable)
		}
	}
	limit := server.Environment["HINDSIGHT_MEMORY_LIMIT"]
	var own types.UnitBytes
	if limit == nil {
		t.Fatal("the server has no memory-limit")
	}
	if err := own.DecodeMapstructure(strings.TrimSuffix(*limit, "iB")); err != nil || own == 0 || own >= server.MemLimit {
		t.Errorf("memory-limit is %d of %d bytes, %v", own, server.MemLimit, err)
	}
	if server.StopGracePeriod == nil || server.StopGracePeriod.String() != "1m0s" {
		t.Errorf("the server has %v to stop", server.StopGracePeriod)
	}
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
	if !strings.Contains(source, "url: http://prometheus:9090\n") {
		t.Error("Grafana asks another address than that of Prometheus")
	}
	if !strings.Contains(read(t, "deploy/prometheus/prometheus.yml"), "hindsight:9464") {
		t.Error("Prometheus asks another address than that of the server")
	}
}
