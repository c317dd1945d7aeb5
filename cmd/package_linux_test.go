package cmd_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// installed is a directory that a package was installed into, as if it were the machine.
type installed struct {
	root, unit string
	uid, gid   uint32
}

// tool returns the path of a program, and skips the test where it is absent.
func tool(t *testing.T, name, debian string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed: on Debian, apt-get install %s", name, debian)
	}
	return path
}

// output runs a program and returns what it prints.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	require.NoError(t, err, "%s %s: %s", name, strings.Join(args, " "), out)
	return string(out)
}

// build makes the deb and the rpm for this machine.
func build(t *testing.T) (deb, rpm string) {
	t.Helper()
	nfpm, err := filepath.Abs("../.tools/nfpm")
	require.NoError(t, err)
	_, err = os.Stat(nfpm)
	require.NoError(t, err, "nfpm is not in .tools: make deploy-check builds it")
	out := t.TempDir()
	script := exec.CommandContext(t.Context(), "../deploy/package/build.sh", out, runtime.GOARCH)
	script.Env = append(os.Environ(), "NFPM="+nfpm, "VERSION=v9.8.7-rc.1")
	text, err := script.CombinedOutput()
	require.NoError(t, err, "build.sh\n%s", text)
	for pattern, found := range map[string]*string{"hindsight_9.8.7~rc.1*.deb": &deb, "hindsight-9.8.7~rc.1*.rpm": &rpm} {
		files, err := filepath.Glob(filepath.Join(out, pattern))
		require.True(t, err == nil && len(files) == 1, "%s: %q, %v", pattern, files, err)
		*found = files[0]
	}
	return deb, rpm
}

// install installs a deb into an empty directory. Its scripts run too, told where it is.
func install(t *testing.T, deb string) *installed {
	t.Helper()
	tool(t, "dpkg", "dpkg")
	tool(t, "systemd-sysusers", "systemd")
	if os.Getuid() != 0 {
		t.Skip("only root installs a package")
	}
	i := &installed{root: t.TempDir()}
	for _, name := range []string{"info/format", "updates/.none", "status", "available", "triggers/.none"} {
		write(t, filepath.Join(i.root, "var/lib/dpkg", name), map[string]string{"info/format": "1\n"}[name])
	}
	require.NoError(t, os.Remove(filepath.Join(i.root, "var/lib/dpkg/updates/.none")))
	for _, dir := range []string{"", "var", "var/lib"} {
		require.NoError(t, os.Chmod(filepath.Join(i.root, dir), 0o755))
	}
	// The directory has no other package, so none that this one depends on.
	output(t, "dpkg", "--root="+i.root, "--force-script-chrootless", "--force-depends", "--install", deb)
	i.unit = read(t, filepath.Join(i.root, "usr/lib/systemd/system/hindsight-server.service"))
	user := regexp.MustCompile(`(?m)^hindsight:[^:]*:(\d+):(\d+):`).FindStringSubmatch(read(t, filepath.Join(i.root, "etc/passwd")))
	require.NotNil(t, user, "the package makes no user hindsight")
	for n, id := range []*uint32{&i.uid, &i.gid} {
		number, err := strconv.ParseUint(user[n+1], 10, 32)
		require.NoError(t, err)
		*id = uint32(number)
	}
	return i
}

// setting returns what the unit says of a name.
func (i *installed) setting(t *testing.T, name string) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^` + name + `=(.*)$`).FindStringSubmatch(i.unit)
	require.NotNil(t, found, "the unit has no %s", name)
	return found[1]
}

// service is a run of the unit's command.
type service struct {
	command    *exec.Cmd
	grpc, http string
	notified   *net.UnixConn
	log        chan []string
}

// start runs the command of the unit as systemd does: in the directory, as the unit's
// user, in its state directory, and told whom to notify. Its ports are free ones.
func (i *installed) start(t *testing.T) *service {
	t.Helper()
	state := "/var/lib/" + i.setting(t, "StateDirectory")
	for _, dir := range []string{state, "/run"} {
		require.NoError(t, os.MkdirAll(filepath.Join(i.root, dir), 0o700))
		require.NoError(t, os.Chown(filepath.Join(i.root, dir), int(i.uid), int(i.gid)))
	}
	address := filepath.Join(i.root, "run/notify")
	_ = os.Remove(address) // Of the last run.
	s := &service{log: make(chan []string, 1)}
	var err error
	s.notified, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.notified.Close() })
	require.NoError(t, os.Chown(address, int(i.uid), int(i.gid)))
	words := append(strings.Fields(i.setting(t, "ExecStart")), "--grpc-address=127.0.0.1:0", "--http-address=127.0.0.1:0")
	s.command = exec.CommandContext(context.WithoutCancel(t.Context()), words[0], words[1:]...)
	s.command.Dir = state
	s.command.Env = []string{"NOTIFY_SOCKET=/run/notify"}
	s.command.SysProcAttr = &syscall.SysProcAttr{
		Chroot: i.root, Credential: &syscall.Credential{Uid: i.uid, Gid: i.gid}, Pdeathsig: syscall.SIGKILL,
	}
	stderr, err := s.command.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, s.command.Start())
	serving := make(chan struct{})
	go func() { s.log <- s.read(stderr, serving) }()
	select {
	case <-serving:
	case lines := <-s.log:
		t.Fatalf("%q does not serve: %v\n%s", words, s.command.Wait(), strings.Join(lines, "\n"))
	case <-time.After(limit):
		t.Fatalf("%q does not serve", words)
	}
	s.awaitNotice(t, "READY=1")
	return s
}

// read reads the log to its end, and closes serving when it has the addresses.
func (s *service) read(log io.Reader, serving chan<- struct{}) (lines []string) {
	for scanner := bufio.NewScanner(log); scanner.Scan(); {
		var line struct {
			Message string `json:"msg"`
			GRPC    string `json:"grpc_address"`
			HTTP    string `json:"http_address"`
		}
		lines = append(lines, scanner.Text())
		if json.Unmarshal(scanner.Bytes(), &line) == nil && line.Message == "serving" {
			s.grpc, s.http = line.GRPC, line.HTTP
			close(serving)
		}
	}
	return lines
}

// awaitNotice reads the next notice to systemd.
func (s *service) awaitNotice(t *testing.T, want string) {
	t.Helper()
	require.NoError(t, s.notified.SetReadDeadline(time.Now().Add(limit)))
	buffer := make([]byte, 4096)
	if n, err := s.notified.Read(buffer); err != nil || string(buffer[:n]) != want {
		t.Errorf("systemd got %q, %v; want %s", buffer[:n], err, want)
	}
}

// stop ends the service as systemd does.
func (s *service) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, s.command.Process.Signal(syscall.SIGTERM))
	s.awaitNotice(t, "STOPPING=1")
	lines := <-s.log
	if err := s.command.Wait(); err != nil {
		t.Errorf("the service ends with %v\n%s", err, strings.Join(lines, "\n"))
	}
}

// call runs the installed command line on the service.
func (i *installed) call(t *testing.T, s *service, args ...string) string {
	t.Helper()
	return output(t, filepath.Join(i.root, "usr/bin/hindsight"), append([]string{"--address", s.grpc}, args...)...)
}

// TestPackage builds the packages, installs the deb into an empty directory, lets systemd
// check its unit, runs the unit's command from there, uses it, and removes it.
func TestPackage(t *testing.T) {
	if os.Getenv("HINDSIGHT_E2E") == "" {
		t.Skip("make test-e2e runs it: it builds the packages")
	}
	deb, rpm := build(t)
	t.Run("rpm", func(t *testing.T) { sameFiles(t, deb, rpm) })
	i := install(t, deb)
	t.Run("unit", i.verify)
	s := i.start(t)
	assert.Contains(t, i.call(t, s, "--version"), "v9.8.7-rc.1")
	i.call(t, s, "model", "create", "demo", "--spec", `{"dimension": 2}`)
	i.call(t, s, "observe", "--model", "demo", "--observation-id", "first", "--label", "0.7", "--features", "0.1,-0.4")
	s.stop(t)
	s = i.start(t)
	assert.Contains(t, i.call(t, s, "predict", "--model", "demo", "--features", "0.1,-0.4"), "learned from   1 observation")
	s.stop(t)

	output(t, "dpkg", "--root="+i.root, "--force-script-chrootless", "--force-depends", "--purge", "hindsight")
	_, err := os.Stat(filepath.Join(i.root, "usr/bin/hindsight-server"))
	assert.Error(t, err, "the server is still there after the package was removed")
	left, err := os.ReadDir(filepath.Join(i.root, "var/lib/hindsight"))
	assert.True(t, err == nil && len(left) != 0, "the data have gone with the package: %v", err)
}

// verify lets systemd check the unit, among the units of this machine.
func (i *installed) verify(t *testing.T) {
	analyze := tool(t, "systemd-analyze", "systemd")
	units := filepath.Join(i.root, "usr/lib/systemd/system")
	for _, name := range []string{"sysinit", "basic", "shutdown", "network-online", "multi-user"} {
		write(t, filepath.Join(units, name+".target"), "[Unit]\nDescription=a target of the machine\n")
	}
	write(t, filepath.Join(units, "system.slice"), "[Unit]\nDescription=a slice of the machine\n")
	if out := output(t, analyze, "verify", "--root="+i.root, "--man=no", "hindsight-server.service"); strings.Contains(out, "hindsight") {
		t.Errorf("systemd-analyze verify:\n%s", out)
	}
	// A disk that is full has room some time, and the server is to serve again then.
	assert.Equal(t, "0", i.setting(t, "StartLimitIntervalSec"))
	const worst = 15 // Of 100, the most exposed.
	out := output(t, analyze, "security", "--offline=true", "--threshold="+strconv.Itoa(worst), "--root="+i.root, "hindsight-server.service")
	t.Log(lastLine(out))
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// sameFiles compares the two packages. Each has its licence and its zsh where its systems
// look for them.
func sameFiles(t *testing.T, deb, rpm string) {
	t.Helper()
	program := tool(t, "rpm", "rpm")
	tool(t, "dpkg-deb", "dpkg")
	own := regexp.MustCompile(`/(copyright|LICENSE|_hindsight)$`)
	files := func(list string) (shared, special []string) {
		for line := range strings.Lines(list) {
			switch file := strings.TrimSpace(line); {
			case strings.HasSuffix(file, "/") || file == "/etc/hindsight":
			case own.MatchString(file):
				special = append(special, file)
			default:
				shared = append(shared, file)
			}
		}
		slices.Sort(shared)
		return shared, special
	}
	var listed strings.Builder
	for line := range strings.Lines(output(t, "dpkg-deb", "--contents", deb)) {
		words := strings.Fields(line)
		fmt.Fprintln(&listed, strings.TrimPrefix(words[len(words)-1], "."))
	}
	a, aOwn := files(listed.String())
	b, bOwn := files(output(t, program, "-qp", "--list", rpm))
	assert.Equal(t, b, a)
	for _, wanted := range []string{
		"/usr/bin/hindsight", "/usr/bin/hindsight-server", "/usr/share/man/man8/hindsight-server.8.gz",
		"/usr/share/hindsight/hindsight.rules.yml", "/usr/share/hindsight/dashboards/hindsight-model.json",
		"/usr/share/bash-completion/completions/hindsight", "/usr/lib/systemd/system/hindsight-server.service",
	} {
		assert.True(t, slices.Contains(a, wanted), "the packages have no %s", wanted)
	}
	assert.True(t, len(aOwn) == 2 && len(bOwn) == 2, "a licence and zsh's completion: %q, %q", aOwn, bOwn)
	settings := output(t, program, "-qp", "--configfiles", rpm)
	assert.Equal(t, "/etc/hindsight/hindsight-server.yaml", strings.TrimSpace(settings), settings)
	output(t, program, "--checksig", rpm)
}
