package config_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/cmd/server/internal/config"
	"hindsight/docs/reference"
)

// environment is an environment as Load takes it.
type environment map[string]string

func (e environment) lookup(name string) (string, bool) {
	v, ok := e[name]
	return v, ok
}

func writeFile(tb testing.TB, content string) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "hindsight.yaml")
	require.NoError(tb, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func load(t *testing.T, args []string, env environment) config.Config {
	t.Helper()
	cfg, err := config.Load(args, env.lookup)
	require.NoError(t, err)
	return cfg
}

func defaults() config.Config {
	return config.Config{
		GRPCAddress:      "127.0.0.1:50051",
		HTTPAddress:      "127.0.0.1:9464",
		TLSClientAuth:    config.ClientRequired,
		MaxMessageBytes:  16 << 20,
		MaxModels:        100_000,
		MaxPending:       4_000_000,
		DataDir:          "./data",
		Durability:       config.DurabilitySync,
		ClusterGroups:    1,
		ClusterStandby:   config.StandbyWarm,
		SnapshotReplay:   250 * time.Millisecond,
		SnapshotsKept:    3,
		BackupEvery:      time.Hour,
		BackupKeep:       24,
		IDWindow:         24 * time.Hour,
		LabelTTL:         24 * time.Hour,
		DeletedKept:      168 * time.Hour,
		LogLevel:         "info",
		MetricsMaxModels: 1000,
	}
}

func TestDefaults(t *testing.T) {
	got, want := load(t, nil, nil), defaults()
	assert.True(t, got == want, "got  %+v\nwant %+v", got, want)
}

// every is a value other than the default for every setting.
func every() map[string]string {
	return map[string]string{
		"grpc-address":       "127.0.0.1:1",
		"http-address":       "[::1]:2",
		"tls-cert":           "server.crt",
		"tls-key":            "server.key",
		"tls-client-ca":      "ca.crt",
		"tls-client-auth":    "optional",
		"cors-origins":       "https://a.example,http://b.example:8080",
		"max-message-bytes":  "2MiB",
		"memory-limit":       "1GiB",
		"max-models":         "13",
		"max-pending":        "14",
		"data-dir":           "/var/lib/hindsight",
		"durability":         "async",
		"snapshot-replay":    "6ms",
		"snapshots-kept":     "8",
		"backup-to":          "file:///backups",
		"backup-every":       "13m",
		"backup-keep":        "14",
		"otlp-endpoint":      "http://collector:4317",
		"id-window":          "9h",
		"label-ttl":          "11h",
		"deleted-kept":       "12h",
		"log-level":          "debug",
		"metrics-max-models": "12",
		"tokens":             "/etc/hindsight/tokens",
		"jwt-keys":           "https://id.example/keys",
		"jwt-issuer":         "https://id.example/",
		"jwt-audience":       "hindsight",
		"audit-log":          "/var/log/hindsight/audit.log",
	}
}

func everyLoaded() config.Config {
	return config.Config{
		GRPCAddress:      "127.0.0.1:1",
		HTTPAddress:      "[::1]:2",
		TLSCert:          "server.crt",
		TLSKey:           "server.key",
		TLSClientCA:      "ca.crt",
		TLSClientAuth:    config.ClientOptional,
		CORSOrigins:      "https://a.example,http://b.example:8080",
		MaxMessageBytes:  2 << 20,
		MemoryLimit:      1 << 30,
		MaxModels:        13,
		MaxPending:       14,
		DataDir:          "/var/lib/hindsight",
		Durability:       config.DurabilityAsync,
		SnapshotReplay:   6 * time.Millisecond,
		SnapshotsKept:    8,
		BackupTo:         "file:///backups",
		BackupEvery:      13 * time.Minute,
		BackupKeep:       14,
		OTLPEndpoint:     "http://collector:4317",
		IDWindow:         9 * time.Hour,
		LabelTTL:         11 * time.Hour,
		DeletedKept:      12 * time.Hour,
		LogLevel:         "debug",
		MetricsMaxModels: 12,
		Tokens:           "/etc/hindsight/tokens",
		JWTKeys:          "https://id.example/keys",
		JWTIssuer:        "https://id.example/",
		JWTAudience:      "hindsight",
		AuditLog:         "/var/log/hindsight/audit.log",
		ClusterGroups:    1,
		ClusterStandby:   config.StandbyWarm,
	}
}

func envName(name string) string {
	return "HINDSIGHT_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// Every setting can be set in each of the three ways, and the three say the
// same.
func TestEverySettingFromEveryOrigin(t *testing.T) {
	var flags []string
	var file strings.Builder
	env := environment{}
	for name, text := range every() {
		flags = append(flags, "--"+name+"="+text)
		env[envName(name)] = text
		fmt.Fprintf(&file, "%s: %q\n", name, text)
	}
	// None is forgotten here: every field differs from its default, but File, and those of a cluster, which rejects
	// asynchronous durability. See TestClusterSettings.
	got, standard := reflect.ValueOf(everyLoaded()), reflect.ValueOf(defaults())
	for i := range got.NumField() {
		name := got.Type().Field(i).Name
		assert.True(t, name == "File" || strings.HasPrefix(name, "Cluster") || !got.Field(i).Equal(standard.Field(i)), "the test sets %s to its default", name)
	}
	path := writeFile(t, file.String())
	for _, c := range []struct {
		origin string
		args   []string
		env    environment
	}{
		{"flags", flags, nil},
		{"environment", nil, env},
		{"file", []string{"--config", path}, nil},
		{"file named by the environment", nil, environment{"HINDSIGHT_CONFIG": path}},
	} {
		assert.Equal(t, everyLoaded(), load(t, c.args, c.env), c.origin)
	}
}

func TestPrecedence(t *testing.T) {
	path := writeFile(t, "max-models: 1\nmax-pending: 1\nsnapshots-kept: 1\n")
	cfg := load(t, []string{"--max-models", "3", "--config", path}, environment{
		"HINDSIGHT_MAX_MODELS": "2", "HINDSIGHT_MAX_PENDING": "2", "HINDSIGHT_CONFIG": "/not/read",
	})
	got := [4]int{cfg.MaxModels, cfg.MaxPending, cfg.SnapshotsKept, cfg.MetricsMaxModels}
	want := [4]int{3, 2, 1, 1000}
	assert.True(t, got == want, "flag, environment, file, default: %v, want %v", got, want)
}

func TestWaysToWriteAValue(t *testing.T) {
	file := writeFile(t, `
# plain, quoted, and by reference
max-models: 7
max-pending: "8"
snapshots-kept: &n 9
backup-keep: *n
label-ttl: 90s
`)
	cfg := load(t, []string{"--config", file, "--max-message-bytes=1048576", "--http-address=localhost:0"}, nil)
	got := []any{
		cfg.MaxModels, cfg.MaxPending, cfg.SnapshotsKept, cfg.BackupKeep,
		cfg.LabelTTL, cfg.MaxMessageBytes, cfg.HTTPAddress,
	}
	assert.Equal(t, []any{7, 8, 9, 9, 90 * time.Second, int64(1 << 20), "localhost:0"}, got)
	for text, want := range map[string]int64{"4294967296": 4 << 30, "4194304KiB": 4 << 30, "6 GiB": 6 << 30, "17592186044416": 1 << 44, "0": 0, "0KiB": 0} {
		assert.Equal(t, want, load(t, []string{"--memory-limit", text}, nil).MemoryLimit, text)
	}
	cfg = load(t, []string{"--grpc-address=:0", "--http-address=:0"}, nil)
	assert.Equal(t, ":0", cfg.GRPCAddress, "port 0 is any port, twice")
	load(t, []string{"--grpc-address=10.0.0.1:80", "--http-address=10.0.0.2:80"}, nil)
	for _, empty := range []string{"", "# nothing\n", "---\n", "~\n", "{}\n"} {
		assert.Equal(t, defaults(), load(t, []string{"--config", writeFile(t, empty)}, nil), "file %q", empty)
	}
}

// What is overruled is not looked at.
func TestAnOverruledValueIsNotRead(t *testing.T) {
	assert.Equal(t, 5, load(t, []string{"--max-models=5"}, environment{"HINDSIGHT_MAX_MODELS": "many"}).MaxModels)
}

func TestBadValues(t *testing.T) {
	number := func(low, high int) string { return fmt.Sprintf("want a whole number from %d to %d", low, high) }
	for _, c := range []struct{ name, text, want string }{
		{"grpc-address", "50051", "want HOST:PORT or :PORT with a port from 0 to 65535"},
		{"grpc-address", "", "want HOST:PORT"},
		{"grpc-address", ":65536", "65535"},
		{"grpc-address", ":-1", "65535"},
		{"grpc-address", ":http", "65535"},
		{"grpc-address", "::1:50051", "want HOST:PORT"},
		{"http-address", "local host:1", "want HOST:PORT"},
		{"http-address", ":50051", `want another port than grpc-address, "127.0.0.1:50051"`},
		{"http-address", "127.0.0.1:50051", "want another port"},
		{"cors-origins", "a.example", "want nothing, * or origins between commas, such as https://example.com"},
		{"cors-origins", "https://a.example/", "want nothing, * or origins"},
		{"cors-origins", "https://a.example, https://b.example", "want nothing, * or origins"},
		{"cors-origins", "https://a.example,*", "want nothing, * or origins"},
		{"cors-origins", "https://*.example", "want nothing, * or origins"},
		{"cors-origins", "ftp://a.example", "want nothing, * or origins"},
		{"data-dir", "", "want a path"},
		{"jwt-keys", "http://id.example/keys", "want nothing, a path, an https:// URL, or an http:// URL of this host"},
		{"jwt-keys", "https://user:secret@id.example/keys", "want nothing, a path"},
		{"jwt-keys", "ftp://127.0.0.1/keys", "want nothing, a path"},
		{"durability", "fsync", "want sync or async"},
		{"durability", "Sync", "want sync or async"},
		{"log-level", "trace", "want debug, info, warn or error"},
		{"snapshot-replay", "0s", "want a duration from 1ms to 1h, such as 90s, 5m or 24h"},
		{"snapshot-replay", "61m", "want a duration from 1ms to 1h"},
		{"memory-limit", "0.5GiB", "such as 4194304, 512KiB or 2GiB, without a fraction"},
		{"memory-limit", "1KiBMiB", "want 0, or a number of bytes"},
		{"memory-limit", "-1", "want 0, or a number of bytes from 268435456 to 17592186044416"},
		{"memory-limit", "18014398509481984GiB", "want 0, or a number of bytes"},
		{"memory-limit", "none", "want 0, or a number of bytes"},
		{"label-ttl", "5", "want a duration from 1ms to 8760h, such as 90s, 5m or 24h"},
		{"label-ttl", "0s", "want a duration"},
		{"snapshots-kept", "0", number(1, 1000)},
		{"otlp-endpoint", "collector:4317", "want nothing, http://HOST:PORT or https://HOST:PORT"},
		{"otlp-endpoint", "https://user:secret@host:4317", "without a user"},
		{"jwt-keys", "https://user:secret@id.example/keys", "an https:// URL"},
		{"backup-to", "ftp://host/dir", "want nothing, a directory, file:///DIR, s3://BUCKET or s3://BUCKET?prefix=P/"},
		{"backup-to", "s3://", "want nothing, a directory"},
		{"backup-to", "s3://?prefix=p/", "want nothing, a directory"},
		{"backup-to", "s3://bucket/dir", "s3://BUCKET or s3://BUCKET?prefix=P/"},
		{"backup-to", "file://dir/sub", "a directory, file:///DIR"},
		{"backup-to", "file://", "a directory, file:///DIR"},
		{"backup-to", "s3://bu cket", "want nothing, a directory"},
		{"backup-every", "0s", "want a duration from 1s"},
		{"backup-keep", "-1", number(0, 1_000_000)},
		{"snapshots-kept", "three", number(1, 1000)},
		{"id-window", "-24h", "want a duration"},
		{"id-window", "1d", "want a duration"},
		{"label-ttl", "never", "want a duration"},
		{"max-models", "99999999999999999999", number(1, 10_000_000)},
		{"max-models", " 5", number(1, 10_000_000)},
		{"max-message-bytes", "0", "want a number of bytes from 1024 to 1073741824"},
		{"max-message-bytes", "16MB", "want a number of bytes"},
		{"max-message-bytes", "2GiB", "want a number of bytes"},
		{"max-message-bytes", "9223372036854775807GiB", "want a number of bytes"},
		{"max-message-bytes", "MiB", "want a number of bytes"},
		{"memory-limit", "1MiB", "want 0, or a number of bytes from 268435456"},
		{"max-models", "0", number(1, 10_000_000)},
		{"max-pending", "-1", number(1, 1_000_000_000)},
		{"metrics-max-models", "0", number(1, 1_000_000)},
		{"deleted-kept", "-1s", "want a duration from 0s to 8760h"},
		{"deleted-kept", "10\n", "want a duration"},
	} {
		path := writeFile(t, fmt.Sprintf("\n%s: %q\n", c.name, c.text))
		for origin, try := range map[string]struct {
			args []string
			env  environment
		}{
			"flag --" + c.name:                        {[]string{"--" + c.name + "=" + c.text}, nil},
			"environment variable " + envName(c.name): {nil, environment{envName(c.name): c.text}},
			path + " line 2":                          {[]string{"--config=" + path}, nil},
		} {
			cfg, err := config.Load(try.args, try.env.lookup)
			// Errors are kept in logs, which are to have no password.
			begin := fmt.Sprintf("%s (from %s): got %q, want ", c.name, origin, strings.Replace(c.text, "user:secret@", "***@", 1))
			if err == nil || !strings.HasPrefix(err.Error(), begin) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v\n begins with %s\n contains    %s", err, begin, c.want)
			} else if strings.ContainsAny(err.Error(), "\r\n") {
				t.Errorf("more than one line: %v", err)
			}
			assert.True(t, cfg == (config.Config{}), "%s: an error and a config: %+v", c.name, cfg)
		}
	}
}

// Every number, size and duration rejects a text that is none, by its name. None means 0.
func TestNoValueIsGuessed(t *testing.T) {
	known := map[string]string{"N": "a whole number", "BYTES": "a number of bytes", "DURATION": "a duration"}
	seen := map[string]bool{}
	for _, s := range config.Settings() {
		want, ok := known[s.Placeholder]
		if !ok {
			continue
		}
		seen[s.Placeholder] = true
		for _, text := range []string{"", "yes", "TRUE", "0x10", "1,5", "on ", "5 apples"} {
			_, err := config.Load(nil, environment{envName(s.Name): text}.lookup)
			begin := fmt.Sprintf("%s (from environment variable %s): got %q, want ", s.Name, envName(s.Name), text)
			assert.True(t, err != nil && strings.HasPrefix(err.Error(), begin) && strings.Contains(err.Error(), want), "error %v\n begins with %s\n contains    %s", err, begin, want)
		}
	}
	assert.Equal(t, len(known), len(seen), "%v %v", seen, known)
}

func TestBadFiles(t *testing.T) {
	for _, c := range []struct{ content, want string }{
		{"id-window: 1h\nid-windwo: 2h\n", `FILE line 2: unknown key "id-windwo"`},
		{"\n\ngrpc_address: :1\n", `FILE line 3: unknown key "grpc_address", did you mean "grpc-address"?`},
		{"dataDir: x\n", `FILE line 1: unknown key "dataDir", did you mean "data-dir"?`},
		{"config: other.yaml\n", `FILE line 1: unknown key "config"`},
		{"max-models: 1\nmax-models: 2\n", `FILE line 2: key "max-models": got it twice, want it once`},
		{"max-models: [1, 2]\n", `FILE line 1: key "max-models": want one value`},
		{"max-models:\n  a: 1\n", `FILE line 1: key "max-models": want one value`},
		{"max-models:\n", `FILE line 1: key "max-models": want one value`},
		{"- max-models\n", `FILE line 1: want settings as lines of "name: value"`},
		{"max-models\n", `FILE line 1: want settings as lines of "name: value"`},
		{"max-models: 1\n---\nmax-models: 2\n", `FILE line 2: got a second document, want one`},
		{"max-models: 1\n---\n\t{\n", `FILE: yaml: `},
		{"max-models: 'x\n", `FILE: yaml: `},
		{"\tmax-models: 1\n", `FILE: yaml: `},
	} {
		path := writeFile(t, c.content)
		_, err := config.Load([]string{"--config", path}, environment{}.lookup)
		if want := strings.Replace(c.want, "FILE", path, 1); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("file %q: error %v, want %s", c.content, err, want)
		} else if strings.ContainsAny(err.Error(), "\r\n") {
			t.Errorf("file %q: more than one line: %v", c.content, err)
		}
	}
	missing := filepath.Join(t.TempDir(), "none.yaml")
	for origin, try := range map[string]struct {
		args []string
		env  environment
	}{
		"flag --config":                         {[]string{"--config", missing}, nil},
		"environment variable HINDSIGHT_CONFIG": {nil, environment{"HINDSIGHT_CONFIG": missing}},
	} {
		_, err := config.Load(try.args, try.env.lookup)
		assert.True(t, errors.Is(err, os.ErrNotExist) && strings.HasPrefix(err.Error(), "config (from "+origin+"): "), "no file: %v", err)
	}
}

func TestBadCommandLines(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--tls-cert=a"}, `tls-key (from default): got "", want the file of the key, because tls-cert is set`},
		{[]string{"--tls-key=a"}, `tls-cert (from default): got "", want the file of the certificate, because tls-key is set`},
		{[]string{"--tls-client-ca=a"}, `tls-cert (from default): got "", want the file of the certificate, because tls-client-ca is set`},
		{[]string{"--max-modles=1"}, "command line: unknown flag: --max-modles; --help lists the flags"},
		{[]string{"--log-format=json", "-q"}, "command line: unknown shorthand flag"},
		{[]string{"--max-models"}, "command line: flag needs an argument: --max-models"},
		{[]string{"serve"}, `command line: unexpected argument "serve", want flags only`},
	} {
		_, err := config.Load(c.args, environment{}.lookup)
		assert.True(t, err != nil && strings.HasPrefix(err.Error(), c.want), "%q: error %v, want %s", c.args, err, c.want)
	}
}

// Settings of JWTs belong together, and to a tokens file.
func TestAccessSettingsBelongTogether(t *testing.T) {
	tokens, keys, issuer, audience := "--tokens=t", "--jwt-keys=k", "--jwt-issuer=i", "--jwt-audience=a"
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{keys, issuer, audience}, `tokens (from default): got "", want a tokens file beside jwt-keys`},
		{[]string{tokens, keys, audience}, `jwt-issuer (from default): got "", want an issuer`},
		{[]string{tokens, keys, issuer}, `jwt-audience (from default): got "", want an audience`},
		{[]string{tokens, issuer}, `jwt-keys (from default): got "", want keys`},
	} {
		_, err := config.Load(c.args, environment{}.lookup)
		assert.True(t, err != nil && strings.HasPrefix(err.Error(), c.want), "%q: error %v, want %s", c.args, err, c.want)
	}
	load(t, []string{tokens, keys, issuer, audience}, nil)
}

func TestHelp(t *testing.T) {
	for _, arg := range []string{"--help", "-h"} {
		_, err := config.Load([]string{arg}, environment{}.lookup)
		assert.ErrorIs(t, err, config.ErrHelp, arg)
	}
	usage := config.Usage()
	for name := range every() {
		assert.Equal(t, 1, len(regexp.MustCompile(`(?m)^  --`+name+` `).FindAllString(usage, -1)), name)
	}
	assert.Contains(t, usage, "\n  --config FILE.yaml ", "--config is not listed")
	for line := range strings.Lines(usage) {
		assert.LessOrEqual(t, len(strings.TrimSuffix(line, "\n")), 112, "%d columns: %s", len(line)-1, line)
	}
}

// FuzzFile looks for a file that makes Load panic or speak more than a line.
func FuzzFile(f *testing.F) {
	f.Add("max-models: 1\n")
	f.Add("a: &a [*a]\n")
	f.Add("<<: {max-models: 1}\n")
	f.Add("? [x]\n: y\n")
	f.Fuzz(func(t *testing.T, content string) {
		_, err := config.Load([]string{"--config", writeFile(t, content)}, environment{}.lookup)
		assert.True(t, err == nil || !strings.ContainsAny(err.Error(), "\r\n"), "more than one line: %q", err)
	})
}

func TestClusterSettings(t *testing.T) {
	c := load(t, []string{
		"--cluster-address=a:7946", "--cluster-join=a:7946,b:7946,[::1]:7946", "--cluster-standby=cold", "--cluster-cert=c.pem", "--cluster-key=k.pem", "--cluster-ca=ca.pem",
	}, environment{})
	if c.ClusterAddress != "a:7946" || !slices.Equal(c.Peers(), []string{"a:7946", "b:7946", "[::1]:7946"}) ||
		c.ClusterStandby != config.StandbyCold || c.ClusterCert != "c.pem" || c.ClusterKey != "k.pem" || c.ClusterCA != "ca.pem" {
		t.Errorf("%+v", c)
	}
	c = load(t, nil, environment{"HINDSIGHT_CLUSTER_ADDRESS": "a:7946"})
	assert.True(t, c.ClusterAddress == "a:7946" && c.Peers() == nil, "%+v", c)
	for args, want := range map[string]string{
		"--cluster-address=:7946":                                          "cluster-address",
		"--cluster-address=a":                                              "cluster-address",
		"--cluster-address=a:0":                                            "cluster-address",
		"--cluster-address=0.0.0.0:7946":                                   "cluster-address",
		"--cluster-join=a:7946":                                            "cluster-address",
		"--cluster-standby=cold":                                           "cluster-address",
		"--cluster-address=a:1 --cluster-standby=hot":                      "cluster-standby",
		"--cluster-address=a:1 --cluster-join=a:1,":                        "cluster-join",
		"--cluster-address=a:1 --cluster-join=b":                           "cluster-join",
		"--cluster-address=a:1 --cluster-cert=c":                           "cluster-key",
		"--cluster-address=a:1 --cluster-ca=c":                             "cluster-cert",
		"--cluster-address=a:1 --cluster-cert=c --cluster-key=k":           "cluster-ca",
		"--cluster-ca=c":                                                   "cluster-address",
		"--cluster-address=a:1 --tokens=t":                                 "cluster-cert",
		"--cluster-address=a:1 --tls-cert=c --tls-key=k --tls-client-ca=a": "cluster-cert",
		"--cluster-address=a:1 --durability=async":                         "durability",
	} {
		_, err := config.Load(strings.Fields(args), environment{}.lookup)
		assert.True(t, err != nil && strings.HasPrefix(err.Error(), want+" "), "%s: %v, want an error of %s", args, err, want)
	}
}

var update = flag.Bool("update", false, "write the reference of the server anew")

// bounds is the kind of a number or a duration, which its bounds show.
var bounds = regexp.MustCompile(`a (?:whole number|number|number of bytes|duration) from (\d)`)

// The reference of the server is what its table of settings says.
func TestReference(t *testing.T) {
	var b strings.Builder
	b.WriteString(`# Commands and settings of the server

Generated from the table of settings by ` + "`make reference`" + `; do not edit. Each flag is also an
environment variable, such as ` + "`HINDSIGHT_DATA_DIR`" + ` for ` + "`--data-dir`" + `, and a key of the file that
` + "`--config`" + ` or ` + "`HINDSIGHT_CONFIG`" + ` names: [settings](../operating.md#settings).

## Commands

`)
	commands, _, found := strings.Cut(config.Usage(), "\n\n")
	require.True(t, found, "the help text has no list of commands")
	for line := range strings.Lines(commands + "\n") {
		b.WriteString("    " + line)
	}
	group := ""
	for _, s := range config.Settings() {
		if s.Group != group {
			group = s.Group
			fmt.Fprintf(&b, "\n## %s\n\n| flag | default | value | |\n|---|---|---|---|\n", group)
		}
		value, _, _ := strings.Cut(s.Want, ", such as ")
		value = bounds.ReplaceAllString(value, "$1")
		standard := "none"
		if s.Standard != "" {
			standard = "`" + s.Standard + "`"
		}
		fmt.Fprintf(&b, "| `--%s` | %s | %s | %s |\n", s.Name, standard, reference.Plain(value), reference.Plain(s.Usage))
	}
	assert.NoError(t, reference.Compare("../../../../docs/reference/server.md", b.String(), *update))
}
