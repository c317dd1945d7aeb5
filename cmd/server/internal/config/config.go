// Package config reads the settings of the server from its flags, the
// environment and a file, and checks all of them in one place.
//
// Every setting has one name, --data-dir say, which is also the environment
// variable HINDSIGHT_DATA_DIR and the key data-dir of the file that --config
// names. A flag wins over the environment, the environment over the file, the
// file over the default. A value that is overruled is not looked at.
package config

import (
	"fmt"
	"net"
	"time"

	"github.com/spf13/pflag"
)

// ErrHelp is what Load answers to --help; Usage is then what to print.
var ErrHelp = pflag.ErrHelp

// Config holds every setting of the server. Load answers only checked ones.
type Config struct {
	// GRPCAddress is where the gRPC services listen.
	GRPCAddress string
	// HTTPAddress is where metrics and health are served over HTTP.
	HTTPAddress string
	// MaxMessageBytes bounds one gRPC message.
	MaxMessageBytes int
	// MaxBatchRows bounds the rows of one batch.
	MaxBatchRows int
	// Queue bounds the observations that wait for one model.
	Queue int
	// MemoryLimit is the memory to stay below, in bytes; 0 is no limit.
	MemoryLimit int
	// MaxModels bounds the models.
	MaxModels int
	// MaxPending and MaxPendingTotal bound the predictions of one model, and of
	// all, that wait for their labels.
	MaxPending, MaxPendingTotal int
	// Reflection says whether gRPC reflection is registered.
	Reflection bool
	// ShutdownTimeout is how long calls in flight have to end.
	ShutdownTimeout time.Duration

	// DataDir is the directory of all that is kept.
	DataDir string
	// Durability says when an Observe is answered.
	Durability Durability
	// PendingDurability says when a remembered Predict is answered.
	PendingDurability PendingDurability
	// SnapshotObservations is the number of observations after which a model
	// is written as a snapshot.
	SnapshotObservations int
	// SnapshotInterval is the time after which a model that has learned is
	// written as a snapshot.
	SnapshotInterval time.Duration
	// SnapshotsKept is the number of snapshots kept of a model.
	SnapshotsKept int
	// SnapshotURL is the bucket that every snapshot is copied to; "" is none.
	SnapshotURL string
	// IDWindow is how long an observation's id is remembered.
	IDWindow time.Duration
	// IDWindowMin is the number of ids that are remembered however old.
	IDWindowMin int
	// LabelTTL is how long a prediction waits for its label when the call
	// does not say.
	LabelTTL time.Duration

	// LogLevel is the least level that is logged.
	LogLevel LogLevel
	// LogFormat is the format of a log line.
	LogFormat LogFormat
	// MetricsMaxModels bounds the models with series of their own.
	MetricsMaxModels int

	// File is the file that was read, "" when there was none.
	File string
}

// Durability says when an Observe is answered.
type Durability string

// The values of Durability.
const (
	// DurabilitySync answers once the observation is on disk.
	DurabilitySync Durability = "sync"
	// DurabilityAsync answers at once: a power cut may lose the last moments.
	DurabilityAsync Durability = "async"
)

// PendingDurability says when a Predict whose features are kept is answered.
type PendingDurability string

// The values of PendingDurability.
const (
	// PendingWritten answers once the features are handed to the operating
	// system: they survive the process, and not a power cut.
	PendingWritten PendingDurability = "written"
	// PendingSync answers once the features are on disk.
	PendingSync PendingDurability = "sync"
)

// LogLevel is the least level that is logged.
type LogLevel string

// The values of LogLevel.
const (
	LogDebug LogLevel = "debug"
	LogInfo  LogLevel = "info"
	LogWarn  LogLevel = "warn"
	LogError LogLevel = "error"
)

// LogFormat is the format of a log line.
type LogFormat string

// The values of LogFormat.
const (
	// LogJSON writes one JSON object a line.
	LogJSON LogFormat = "json"
	// LogConsole writes lines for a person at a terminal.
	LogConsole LogFormat = "console"
)

// Load reads the settings from args, the command line without the program's
// name, from the environment as os.LookupEnv answers it, and from the file
// that one of the two names. Its error is one line that says which setting is
// wrong, where it came from, what came and what was expected; or it is
// ErrHelp.
func Load(args []string, lookupEnv func(string) (string, bool)) (Config, error) {
	table := settings()
	flags, err := readFlags(args, table)
	if err != nil {
		return Config{}, err
	}
	env := func(name string) (value, bool) {
		text, ok := lookupEnv(envName(name))
		return value{text, "environment variable " + envName(name)}, ok
	}

	var cfg Config
	var file map[string]value
	path, named := flags[fileFlag]
	if !named {
		path, named = env(fileFlag)
	}
	if named {
		if file, err = readFile(path, table); err != nil {
			return Config{}, err
		}
		cfg.File = path.text
	}

	chosen := make(map[string]value, len(table))
	for _, s := range table {
		v, ok := flags[s.name]
		if !ok {
			v, ok = env(s.name)
		}
		if !ok {
			v, ok = file[s.name]
		}
		if !ok {
			v = value{s.standard, "default"}
		}
		if !s.set(&cfg, v.text) {
			return Config{}, v.refuse(s.name, s.want)
		}
		chosen[s.name] = v
	}
	if samePort(cfg.GRPCAddress, cfg.HTTPAddress) {
		return Config{}, chosen["http-address"].refuse("http-address",
			fmt.Sprintf("another port than that of grpc-address, %q", cfg.GRPCAddress))
	}
	return cfg, nil
}

// value is a setting as it was written, and where.
type value struct{ text, origin string }

// refuse is the one form of an error about a value.
func (v value) refuse(name, want string) error {
	return fmt.Errorf("%s (from %s): got %q, want %s", name, v.origin, v.text, want)
}

// samePort tells whether two addresses cannot both be listened on. Port 0 is
// any free port.
func samePort(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil || portA != portB || portA == "0" {
		return false
	}
	return hostA == hostB || isWildcard(hostA) || isWildcard(hostB)
}

func isWildcard(host string) bool {
	return host == "" || net.ParseIP(host).IsUnspecified()
}
