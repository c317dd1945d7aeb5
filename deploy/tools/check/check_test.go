// Package check_test checks the manifests of deploy with the types and the rules of the
// programs that read them.
package check_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// root is the repository.
const root = "../../.."

// read returns the text of a file of the repository.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	require.NoError(t, err)
	return string(text)
}

// settings are the environment variables that the server reads.
func settings(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{"HINDSIGHT_CONFIG": true}
	files, err := filepath.Glob(filepath.Join(root, "cmd/server/internal/config/*.go"))
	require.NoError(t, err)
	for _, file := range files {
		table, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, row := range regexp.MustCompile(`(?m)^\t\t\{\w+, "([a-z-]+)", `).FindAllStringSubmatch(string(table), -1) {
			found["HINDSIGHT_"+strings.ToUpper(strings.ReplaceAll(row[1], "-", "_"))] = true
		}
	}
	require.True(t, len(found) >= 20, "%d settings found: the table was not read", len(found))
	return found
}

// TestPackagedSettings checks the settings that a package installs, also those that are
// comments.
func TestPackagedSettings(t *testing.T) {
	known, found := settings(t), 0
	for _, row := range regexp.MustCompile(`(?m)^#?([a-z-]+): `).FindAllStringSubmatch(read(t, "deploy/package/hindsight-server.yaml"), -1) {
		assert.True(t, known["HINDSIGHT_"+strings.ToUpper(strings.ReplaceAll(row[1], "-", "_"))], "the server has no setting %s", row[1])
		found++
	}
	assert.True(t, found >= 4, "%d settings found: the file was not read", found)
}

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

// objects are those of one directory, by their kinds.
type objects struct {
	sets     []appsv1.StatefulSet
	services []corev1.Service
	budgets  []policyv1.PodDisruptionBudget
	policies []networkingv1.NetworkPolicy
	monitors []monitoringv1.ServiceMonitor
	maps     []corev1.ConfigMap
}

// strict decodes an object and rejects fields that its kind does not have.
func strict[T any](t *testing.T, into *[]T, text []byte) {
	t.Helper()
	var object T
	assert.NoError(t, yaml.UnmarshalStrict(text, &object), "in\n%s", text)
	*into = append(*into, object)
}

// build is kustomize build of a directory.
func build(t *testing.T, dir string) *objects {
	t.Helper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(root, "deploy/kubernetes", dir))
	require.NoError(t, err)
	all := new(objects)
	for _, resource := range built.Resources() {
		text, err := resource.AsYAML()
		require.NoError(t, err)
		switch id := resource.GetApiVersion() + " " + resource.GetKind(); id {
		case "apps/v1 StatefulSet":
			strict(t, &all.sets, text)
		case "v1 Service":
			strict(t, &all.services, text)
		case "policy/v1 PodDisruptionBudget":
			strict(t, &all.budgets, text)
		case "networking.k8s.io/v1 NetworkPolicy":
			strict(t, &all.policies, text)
		case "monitoring.coreos.com/v1 ServiceMonitor":
			strict(t, &all.monitors, text)
		case "v1 Namespace":
			strict(t, new([]corev1.Namespace), text)
		case "v1 ConfigMap":
			strict(t, &all.maps, text)
		default:
			t.Errorf("an object of %s: nothing checks it", id)
		}
	}
	require.True(t, len(all.sets) == 1 && len(all.services) == 2 && len(all.budgets) == 1, "%d stateful sets, %d services, %d budgets", len(all.sets), len(all.services), len(all.budgets))
	return all
}

// selects says whether a selector is one of the pods'.
func selects(t *testing.T, selector *metav1.LabelSelector, pod *corev1.PodTemplateSpec) bool {
	t.Helper()
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	require.NoError(t, err)
	return !parsed.Empty() && parsed.Matches(labels.Set(pod.Labels))
}

// TestKubernetes builds each directory and checks that its objects fit together.
func TestKubernetes(t *testing.T) {
	for _, dir := range []string{"base", "example"} {
		t.Run(dir, func(t *testing.T) {
			all := build(t, dir)
			pod := &all.sets[0].Spec.Template
			server := &pod.Spec.Containers[0]
			t.Run("set", func(t *testing.T) { checkSet(t, &all.sets[0]) })
			t.Run("environment", func(t *testing.T) { checkEnvironment(t, server) })
			t.Run("pod security", func(t *testing.T) { checkSecurity(t, pod) })
			t.Run("selectors", func(t *testing.T) { checkSelectors(t, all, pod) })
			t.Run("ports", func(t *testing.T) { checkPorts(t, all, server) })
		})
	}
}

func checkSet(t *testing.T, set *appsv1.StatefulSet) {
	pod, server := &set.Spec.Template, &set.Spec.Template.Spec.Containers[0]
	assert.True(t, selects(t, set.Spec.Selector, pod), "the set does not select its pods")
	assert.True(t, *set.Spec.Replicas == 1 && set.Spec.ServiceName == "hindsight-headless", "%d replicas behind %s", *set.Spec.Replicas, set.Spec.ServiceName)
	volumes := map[string]bool{}
	for _, claim := range set.Spec.VolumeClaimTemplates {
		volumes[claim.Name] = true
	}
	for _, volume := range pod.Spec.Volumes {
		volumes[volume.Name] = true
	}
	for _, mount := range server.VolumeMounts {
		assert.True(t, volumes[mount.Name], "no volume %s is mounted at %s", mount.Name, mount.MountPath)
		delete(volumes, mount.Name)
	}
	assert.True(t, len(volumes) == 0, "volumes that nothing mounts: %v", volumes)
	require.True(t, server.LivenessProbe != nil && server.ReadinessProbe != nil && server.Lifecycle.PreStop.Sleep != nil, "a probe or the hook before the stop is missing")
	for _, probe := range []*corev1.Probe{server.LivenessProbe, server.ReadinessProbe} {
		handlers := 0
		for _, there := range []bool{probe.HTTPGet != nil, probe.GRPC != nil, probe.Exec != nil, probe.TCPSocket != nil} {
			if there {
				handlers++
			}
		}
		assert.Equal(t, 1, handlers, "a probe asks in ways")
	}
	// Calls in flight 10s, the last snapshots 5s, their copies 30s.
	least := server.Lifecycle.PreStop.Sleep.Seconds + 45
	assert.True(t, *pod.Spec.TerminationGracePeriodSeconds >= least, "the pod has %d s to end, it needs %d", *pod.Spec.TerminationGracePeriodSeconds, least)
}

func checkEnvironment(t *testing.T, server *corev1.Container) {
	known := settings(t)
	if !known["HINDSIGHT_TLS_CERT"] && slices.ContainsFunc(server.Env, func(e corev1.EnvVar) bool { return e.Name == "HINDSIGHT_TLS_CERT" }) {
		t.Skip("this server has no TLS")
	}
	limited := false
	for _, variable := range server.Env {
		assert.True(t, known[variable.Name], "the server has no setting %s", variable.Name)
		if variable.Name == "HINDSIGHT_MEMORY_LIMIT" && variable.ValueFrom.ResourceFieldRef.Resource == "requests.memory" {
			limited = true
		}
		path, directory := variable.Value, strings.HasPrefix(variable.Value, "/")
		if directory && !slices.ContainsFunc(server.VolumeMounts, func(m corev1.VolumeMount) bool { return strings.HasPrefix(path, m.MountPath+"/") }) {
			t.Errorf("%s is %s, where nothing is mounted", variable.Name, path)
		}
	}
	const least = 256 << 20 // Of --memory-limit.
	got, container := server.Resources.Requests.Memory().Value(), server.Resources.Limits.Memory().Value()
	if !limited || got < least || 10*got > 9*container || 10*got < 8*container {
		t.Errorf("the server has %d bytes of the %d of its container; the server is told: %t", got, container, limited)
	}
	assert.True(t, server.Resources.Limits.Cpu().IsZero(), "the processor is limited: it would throttle predictions")
}

func checkSecurity(t *testing.T, pod *corev1.PodTemplateSpec) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	require.NoError(t, err)
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	results := evaluator.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec)
	assert.True(t, len(results) >= 10, "%d checks of the level restricted were made", len(results))
	for _, result := range results {
		assert.True(t, result.Allowed, "%s: %s", result.ForbiddenReason, result.ForbiddenDetail)
	}
	c := pod.Spec.Containers[0].SecurityContext
	assert.True(t, c.ReadOnlyRootFilesystem != nil && *c.ReadOnlyRootFilesystem, "the server may write its image")
	mounts := pod.Spec.AutomountServiceAccountToken
	assert.False(t, mounts == nil || *mounts, "the server has a token of the cluster")
}

func checkSelectors(t *testing.T, all *objects, pod *corev1.PodTemplateSpec) {
	for _, service := range all.services {
		assert.True(t, selects(t, metav1.SetAsLabelSelector(service.Spec.Selector), pod), "service %s selects other pods", service.Name)
	}
	assert.True(t, selects(t, all.budgets[0].Spec.Selector, pod), "the budget is for other pods")
	for _, p := range all.policies {
		assert.True(t, selects(t, &p.Spec.PodSelector, pod), "policy %s is for other pods", p.Name)
		for _, rule := range p.Spec.Ingress {
			for _, from := range rule.From {
				assert.True(t, from.PodSelector == nil || !selects(t, from.PodSelector, pod), "policy %s lets in the server alone", p.Name)
			}
		}
	}
	for _, monitor := range all.monitors {
		scraped := 0
		for _, service := range all.services {
			selector, err := metav1.LabelSelectorAsSelector(&monitor.Spec.Selector)
			require.NoError(t, err)
			for _, port := range service.Spec.Ports {
				if selector.Matches(labels.Set(service.Labels)) && port.Name == monitor.Spec.Endpoints[0].Port {
					scraped++
				}
			}
		}
		assert.Equal(t, 1, scraped, "the server is scraped times")
	}
}

func checkPorts(t *testing.T, all *objects, server *corev1.Container) {
	there := map[string]bool{}
	for _, port := range server.Ports {
		there[port.Name], there[fmt.Sprint(port.ContainerPort)] = true, true
	}
	need := func(by, port string) {
		assert.True(t, there[port], "%s needs port %s, which the server has not", by, port)
	}
	for _, service := range all.services {
		for _, port := range service.Spec.Ports {
			need("service "+service.Name, port.TargetPort.String())
		}
	}
	for _, p := range all.policies {
		for _, rule := range p.Spec.Ingress {
			for _, port := range rule.Ports {
				need("policy "+p.Name, port.Port.String())
			}
		}
	}
	for _, probe := range []*corev1.Probe{server.LivenessProbe, server.ReadinessProbe} {
		if probe.HTTPGet != nil {
			need("a probe", probe.HTTPGet.Port.String())
		}
		if probe.GRPC != nil {
			need("a probe", fmt.Sprint(probe.GRPC.Port))
		}
	}
}

// TestMonitoring checks that the dashboards are those of the repository, and that the documented command
// makes the alerts a PrometheusRule.
func TestMonitoring(t *testing.T) {
	dashboards, err := filepath.Glob(filepath.Join(root, "deploy/grafana/dashboards/*.json"))
	require.NoError(t, err)
	maps := build(t, "example").maps
	require.True(t, len(maps) == 1 && len(maps[0].Data) == len(dashboards) && maps[0].Labels["grafana_dashboard"] == "1", "%d config maps for %d dashboards", len(maps), len(dashboards))
	_, command, _ := strings.Cut(read(t, "docs/installing.md"), "    (cat deploy/kubernetes/monitoring/rules.head;")
	command, _, _ = strings.Cut(command, ") | kubectl")
	made := exec.CommandContext(t.Context(), "sh", "-c", "cat deploy/kubernetes/monitoring/rules.head;"+command)
	made.Dir = root
	text, err := made.Output()
	require.True(t, err == nil && command != "", "%v %v", command, err)
	var rules []monitoringv1.PrometheusRule
	strict(t, &rules, text)
	n := len(rules[0].Spec.Groups)
	assert.True(t, n >= 4 && rules[0].Name == "hindsight", "%d groups of rules of %q", n, rules[0].Name)
}

// TestKubernetesTLS checks that with the component everybody speaks TLS.
func TestKubernetesTLS(t *testing.T) {
	all := build(t, "example")
	server := all.sets[0].Spec.Template.Spec.Containers[0]
	got := server.LivenessProbe.HTTPGet
	assert.True(t, got.Scheme == corev1.URISchemeHTTPS && got.Path == "/healthz", "the probe of life asks %+v", got)
	if got := server.ReadinessProbe.Exec; got == nil || !slices.Equal(got.Command, []string{"/hindsight-server", "healthcheck"}) {
		t.Errorf("the probe of readiness runs %+v", got)
	}
	for _, service := range all.services {
		got := service.Spec.Ports[0].AppProtocol
		assert.True(t, got != nil && *got == "https", "service %s says another protocol", service.Name)
	}
	endpoint := all.monitors[0].Spec.Endpoints[0]
	if endpoint.Scheme == nil || *endpoint.Scheme != "https" || endpoint.TLSConfig == nil || endpoint.TLSConfig.CA.Secret.Name != "hindsight-tls" {
		t.Errorf("Prometheus scrapes with %+v", endpoint)
	}
	assert.Equal(t, "registry.example/hindsight:v0.0.0", server.Image, "the image")
}
