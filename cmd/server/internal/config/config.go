// Package config reads the settings of the server from its command line, the
// environment and a file, and checks all of them in one place.
//
// Every setting has one name, for instance data-dir. The flag is --data-dir, the
// environment variable HINDSIGHT_DATA_DIR, and the key in the file that --config
// names is data-dir. A flag wins over the environment, the environment over the
// file, and the file over the default. Only the value that wins is read.
package config

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// ErrHelp is the error of Load for --help. The caller then prints Usage.
var ErrHelp = pflag.ErrHelp

// Config holds every setting of the server. Sizes are in bytes. The table in
// settings.go says what each setting means, its default and its range.
type Config struct {
	GRPCAddress, HTTPAddress string
	TLSCert, TLSKey          string // Files; "" is no TLS.
	TLSClientCA              string // A file; "" asks clients for no certificate.
	TLSClientAuth            ClientAuth
	CORSOrigins              string // Between commas; "" is none. See Origins.
	MaxMessageBytes          int64
	MemoryLimit              int64 // 0 is no limit.
	MaxModels                int
	MaxPending               int

	DataDir        string
	Durability     Durability
	SnapshotReplay time.Duration
	SnapshotsKept  int
	BackupTo       string // "" takes no backups.
	BackupEvery    time.Duration
	BackupKeep     int
	IDWindow       time.Duration
	LabelTTL       time.Duration
	DeletedKept    time.Duration

	LogLevel         string
	MetricsMaxModels int
	OTLPEndpoint     string // "" uses OTEL_EXPORTER_OTLP_ENDPOINT; without both, no traces.

	Tokens                 string // "" is no tokens: everybody may call.
	JWTKeys                string // "" is no JWTs.
	JWTIssuer, JWTAudience string
	AuditLog               string // "" is no audit log.

	ClusterAddress                     string // "" is no cluster.
	ClusterGroups                      int
	ClusterJoin                        string // Between commas. See Peers.
	ClusterStandby                     ClusterStandby
	ClusterCert, ClusterKey, ClusterCA string // Files; "" is no TLS.
}

// ClientAuth says whether a client must have a certificate.
type ClientAuth string

// The values of ClientAuth.
const (
	// ClientRequired rejects the connection of a client without a certificate.
	ClientRequired ClientAuth = "require"
	// ClientOptional lets a client come without one, with a token for example.
	ClientOptional ClientAuth = "optional"
)

// Durability says when an Observe is answered.
type Durability string

// The values of Durability.
const (
	// DurabilitySync answers after the observation is on disk.
	DurabilitySync Durability = "sync"
	// DurabilityAsync answers before: a power cut may lose the last 100 ms.
	DurabilityAsync Durability = "async"
)

type value struct{ text, origin string }

// Load reads the settings from args (the command line without the program's
// name), from the environment (lookupEnv is os.LookupEnv in production) and from
// the file that one of the two names. The flags in extra belong to the caller.
//
// The error is one line. It names the wrong setting, the origin of its value, the
// value and the expected values. For --help it is ErrHelp.
func Load(args []string, lookupEnv func(string) (string, bool), extra ...*pflag.FlagSet) (Config, error) {
	var c Config
	table := settings(&c)
	flags := pflag.NewFlagSet("hindsight-server", pflag.ContinueOnError)
	flags.Usage = func() {}
	for _, set := range append(flagSets(table), extra...) {
		flags.AddFlagSet(set)
	}
	// Scripts and units of systemd start the server with --log-format json. JSON is the only format.
	flags.Func("log-format", "", func(s string) error {
		if s != "json" {
			return errors.New("want json, the only format")
		}
		return nil
	})
	if err := flags.Parse(args); errors.Is(err, ErrHelp) {
		return Config{}, ErrHelp
	} else if err != nil {
		return Config{}, fmt.Errorf("command line: %w; --help lists the flags", err)
	}
	if flags.NArg() > 0 {
		return Config{}, fmt.Errorf("command line: unexpected argument %q, want flags only, as --name=value", flags.Arg(0))
	}
	var file map[string]value
	chosen := func(name, standard string) value {
		env := "HINDSIGHT_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		if flag := flags.Lookup(name); flag.Changed {
			return value{flag.Value.String(), "flag --" + name}
		} else if text, ok := lookupEnv(env); ok {
			return value{text, "environment variable " + env}
		} else if v, ok := file[name]; ok {
			return v
		}
		return value{standard, "default"}
	}
	if path := chosen(fileFlag, ""); path.origin != "default" {
		var err error
		if file, err = readFile(path, table); err != nil {
			return Config{}, err
		}
	}
	for _, s := range table {
		if v := chosen(s.name, s.standard); !s.set(v.text) {
			return Config{}, v.reject(s.name, s.want)
		}
	}
	for _, check := range []func() (name, want string){c.checkServing, c.checkAccess, c.checkCluster} {
		if name, want := check(); name != "" {
			return Config{}, chosen(name, "").reject(name, want)
		}
	}
	return c, nil
}

func (c Config) checkServing() (name, want string) {
	switch {
	case samePort(c.GRPCAddress, c.HTTPAddress):
		return "http-address", fmt.Sprintf("another port than grpc-address, %q", c.GRPCAddress)
	case c.TLSCert != "" && c.TLSKey == "":
		return "tls-key", "the file of the key, because tls-cert is set"
	case c.TLSCert == "" && c.TLSKey != "":
		return "tls-cert", "the file of the certificate, because tls-key is set"
	case c.TLSCert == "" && c.TLSClientCA != "":
		return "tls-cert", "the file of the certificate, because tls-client-ca is set"
	}
	return "", ""
}

// Origins returns the origins of CORSOrigins.
func (c Config) Origins() []string {
	if c.CORSOrigins == "" {
		return nil
	}
	return strings.Split(c.CORSOrigins, ",")
}

func (v value) reject(name, want string) error {
	return fmt.Errorf("%s (from %s): got %q, want %s", name, v.origin, withoutUser(v.text), want)
}

// withoutUser removes user and password from a text that may be a URL, because errors are
// logged.
func withoutUser(text string) string {
	scheme, rest, ok := strings.Cut(text, "://")
	at := strings.LastIndex(rest, "@")
	if !ok || at < 0 {
		return text
	}
	return scheme + "://***" + rest[at:]
}

// samePort reports whether the server cannot listen on both addresses. Port 0
// is any free port.
func samePort(a, b string) bool {
	hostA, portA, _ := net.SplitHostPort(a) // Both were checked.
	hostB, portB, _ := net.SplitHostPort(b)
	everywhere := func(host string) bool { return host == "" || net.ParseIP(host).IsUnspecified() }
	return portA == portB && portA != "0" && (hostA == hostB || everywhere(hostA) || everywhere(hostB))
}

// argument has the text of a flag. Load reads and checks it only if it wins.
type argument struct{ text, placeholder string }

func (a *argument) String() string     { return a.text }
func (a *argument) Set(s string) error { a.text = s; return nil }
func (a *argument) Type() string       { return a.placeholder }

// flagSets returns the flags of the table: a set for each group of the help text.
func flagSets(table []setting) []*pflag.FlagSet {
	further := pflag.NewFlagSet("Further", pflag.ContinueOnError)
	further.Var(&argument{"", "FILE.yaml"}, fileFlag, "read settings from this file")
	var sets []*pflag.FlagSet
	for _, s := range table {
		if n := len(sets); n == 0 || sets[n-1].Name() != s.group {
			sets = append(sets, pflag.NewFlagSet(s.group, pflag.ContinueOnError))
			sets[n].SortFlags = false
		}
		sets[len(sets)-1].Var(&argument{s.standard, s.placeholder}, s.name, s.usage)
	}
	return append(sets, further)
}

// Usage returns the help text: every setting in its group, with its default.
func Usage() string {
	var b strings.Builder
	b.WriteString(`Usage:
  hindsight-server [flags]              serve until a signal ends it
  hindsight-server healthcheck [flags]  ask the server of these flags: exit 0 if it serves
  hindsight-server fsck [--truncate] [--json] [--progress] [flags]
                                        check a data directory; --truncate
                                        removes what the server would reject
  hindsight-server backup --to PLACE [--keep N] [--json] [--progress] [flags]
                                        back up the data directory, also while a
                                        server has it open; then of several groups
                                        those that the server owns
  hindsight-server restore --from PLACE [--backup NAME] [--at TIME] [flags]
                                        restore a backup into an empty data
                                        directory, optionally at a time; --list lists
                                        the backups
  hindsight-server verify --from PLACE [--backup NAME] [--json] [--progress]
                                        check a backup: digests, and fsck of it
  hindsight-server cluster recover [--group N,..] [--yes] [--json] [flags]
                                        make the server of a data directory the only
                                        member of its cluster, after the loss of more
                                        than half of the servers for good; --group
                                        of these groups only
  hindsight-server token create --tokens FILE --name N --role admin|write|read
                   [--models PREFIX,..] [--expires 720h] [--rate N] [--concurrency N]
                                        add an entry, print its token on the last line
  hindsight-server version              print the version
`)
	sets := flagSets(settings(&Config{}))
	sets[len(sets)-1].Bool("help", false, "print this text")
	for _, set := range sets {
		// The library leaves four columns for one-letter flags, which do not exist.
		lines := strings.ReplaceAll("\n"+set.FlagUsagesWrapped(110), "\n    ", "\n")
		fmt.Fprintf(&b, "\n%s:%s", set.Name(), lines)
	}
	b.WriteString(`
Every flag is also an environment variable (--data-dir is HINDSIGHT_DATA_DIR)
and a key of the file (data-dir). A flag wins over the environment, the
environment over the file.
A PLACE is a directory or the URL of a bucket.
`)
	return b.String()
}
