package check_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

// TestCompose loads deploy/compose.yaml as docker compose does.
func TestCompose(t *testing.T) {
	options, err := cli.NewProjectOptions([]string{filepath.Join(root, "deploy/compose.yaml")}, cli.WithConsistency(true))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := slices.Sorted(maps.Keys(project.Services)), []string{"grafana", "hindsight", "prometheus"}; !slices.Equal(got, want) {
		t.Errorf("services %q, want %q", got, want)
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
	server, known := project.Services["hindsight"], settings(t)
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
