package config

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// fileFlag is the one flag that is not a setting: a file cannot name a file.
const fileFlag = "config"

// The groups of the help text, in its order.
const (
	groupServing    = "Serving"
	groupData       = "Data"
	groupMonitoring = "Logs and metrics"
)

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30

	year = 365 * 24 * time.Hour
)

// setting is all that is known of one setting.
type setting struct {
	name  string
	group string
	// usage is its line in the help text.
	usage string
	// standard is the default, as one would write it.
	standard string
	kind
}

// kind is how the text of a setting is read.
type kind struct {
	// placeholder stands for the value in the help text; a switch has none.
	placeholder string
	// want says what is expected, after "want ".
	want string
	// set reads text into its field, and tells whether it could.
	set func(c *Config, text string) bool
}

// settings is the one table of settings.
func settings() []setting {
	return []setting{
		{
			"grpc-address", groupServing, "where the gRPC services listen", ":50051",
			address(func(c *Config) *string { return &c.GRPCAddress }),
		},
		{
			"http-address", groupServing, "where metrics and health are served over HTTP", ":9464",
			address(func(c *Config) *string { return &c.HTTPAddress }),
		},
		{
			"max-message-bytes", groupServing, "largest gRPC message", "16MiB",
			size(kib, gib, func(c *Config) *int { return &c.MaxMessageBytes }),
		},
		{
			"max-batch-rows", groupServing, "most rows in one batch", "4096",
			count(1, 1<<20, func(c *Config) *int { return &c.MaxBatchRows }),
		},
		{
			"queue", groupServing, "most observations waiting for one model", "1024",
			count(1, 1<<20, func(c *Config) *int { return &c.Queue }),
		},
		{
			"memory-limit", groupServing, "memory to stay below, half of it for models; 0 is no limit", "0",
			sizeOrNone(256*mib, 1<<44, func(c *Config) *int { return &c.MemoryLimit }),
		},
		{
			"max-models", groupServing, "most models", "100000",
			count(1, 10_000_000, func(c *Config) *int { return &c.MaxModels }),
		},
		{
			"max-pending", groupServing, "most predictions of one model that wait for their labels", "1000000",
			count(1, 1_000_000_000, func(c *Config) *int { return &c.MaxPending }),
		},
		{
			"max-pending-total", groupServing, "most predictions of all models that wait for their labels", "4000000",
			count(1, 1_000_000_000, func(c *Config) *int { return &c.MaxPendingTotal }),
		},
		{
			"reflection", groupServing, "serve gRPC reflection", "true",
			truth(func(c *Config) *bool { return &c.Reflection }),
		},
		{
			"shutdown-timeout", groupServing, "how long calls in flight have to end", "10s",
			duration(0, time.Hour, func(c *Config) *time.Duration { return &c.ShutdownTimeout }),
		},
		{
			"data-dir", groupData, "directory of all that is kept", "./data",
			text(func(c *Config) *string { return &c.DataDir }),
		},
		{
			"durability", groupData, "answer Observe once it is on disk, or at once", "sync",
			oneOf(func(c *Config) *Durability { return &c.Durability }, DurabilitySync, DurabilityAsync),
		},
		{
			"pending-durability", groupData, "answer Predict once its features are written, or synced", "written",
			oneOf(func(c *Config) *PendingDurability { return &c.PendingDurability }, PendingWritten, PendingSync),
		},
		{
			"snapshot-observations", groupData, "snapshot a model after so many observations", "10000",
			count(1, 1_000_000_000, func(c *Config) *int { return &c.SnapshotObservations }),
		},
		{
			"snapshot-interval", groupData, "snapshot a model that has learned after so long", "5m",
			duration(time.Millisecond, year, func(c *Config) *time.Duration { return &c.SnapshotInterval }),
		},
		{
			"snapshots-kept", groupData, "snapshots kept of a model", "3",
			count(1, 1000, func(c *Config) *int { return &c.SnapshotsKept }),
		},
		{
			"snapshot-url", groupData, "copy every snapshot here: s3://BUCKET or file:///DIR", "",
			bucket(func(c *Config) *string { return &c.SnapshotURL }),
		},
		{
			"id-window", groupData, "how long an observation's id is remembered", "24h",
			duration(time.Millisecond, year, func(c *Config) *time.Duration { return &c.IDWindow }),
		},
		{
			"id-window-min", groupData, "ids that are remembered however old", "1000000",
			count(0, 1_000_000_000, func(c *Config) *int { return &c.IDWindowMin }),
		},
		{
			"label-ttl", groupData, "how long a prediction waits for its label", "24h",
			duration(time.Millisecond, year, func(c *Config) *time.Duration { return &c.LabelTTL }),
		},
		{
			"log-level", groupMonitoring, "least level that is logged", "info",
			oneOf(func(c *Config) *LogLevel { return &c.LogLevel }, LogDebug, LogInfo, LogWarn, LogError),
		},
		{
			"log-format", groupMonitoring, "format of a log line", "json",
			oneOf(func(c *Config) *LogFormat { return &c.LogFormat }, LogJSON, LogConsole),
		},
		{
			"metrics-max-models", groupMonitoring, "models with series of their own", "1000",
			count(1, 1_000_000, func(c *Config) *int { return &c.MetricsMaxModels }),
		},
	}
}

// envName is the environment variable of a setting.
func envName(name string) string {
	return "HINDSIGHT_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

func text(field func(*Config) *string) kind {
	return kind{"PATH", "a path", func(c *Config, s string) bool {
		*field(c) = s
		return s != "" && !strings.ContainsRune(s, 0)
	}}
}

func address(field func(*Config) *string) kind {
	return kind{"HOST:PORT", "HOST:PORT or :PORT with a port from 0 to 65535", func(c *Config, s string) bool {
		*field(c) = s
		host, port, err := net.SplitHostPort(s)
		if err != nil || strings.ContainsAny(host, " \t\r\n") {
			return false
		}
		_, err = strconv.ParseUint(port, 10, 16)
		return err == nil
	}}
}

func truth(field func(*Config) *bool) kind {
	return kind{"", "true or false", func(c *Config, s string) bool {
		*field(c) = s == "true"
		return s == "true" || s == "false"
	}}
}

func oneOf[T ~string](field func(*Config) *T, values ...T) kind {
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = string(v)
	}
	last := len(names) - 1
	want := strings.Join(names[:last], ", ") + " or " + names[last]
	return kind{strings.Join(names, "|"), want, func(c *Config, s string) bool {
		*field(c) = T(s)
		return slices.Contains(values, T(s))
	}}
}

func count(least, most int, field func(*Config) *int) kind {
	want := fmt.Sprintf("a whole number from %d to %d", least, most)
	return kind{"N", want, func(c *Config, s string) bool {
		n, err := strconv.Atoi(s)
		*field(c) = n
		return err == nil && least <= n && n <= most
	}}
}

func duration(least, most time.Duration, field func(*Config) *time.Duration) kind {
	want := fmt.Sprintf("a duration from %s to %s, such as 90s, 5m or 24h", brief(least), brief(most))
	return kind{"DURATION", want, func(c *Config, s string) bool {
		d, err := time.ParseDuration(s)
		*field(c) = d
		return err == nil && least <= d && d <= most
	}}
}

// brief writes 1h for 1h0m0s.
func brief(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func size(least, most int, field func(*Config) *int) kind {
	want := fmt.Sprintf("a number of bytes from %d to %d, such as 4194304, 512KiB or 16MiB", least, most)
	return kind{"BYTES", want, func(c *Config, s string) bool {
		n, ok := parseBytes(s)
		*field(c) = n
		return ok && least <= n && n <= most
	}}
}

// sizeOrNone is size, or 0.
func sizeOrNone(least, most int, field func(*Config) *int) kind {
	k := size(least, most, field)
	set := k.set
	k.want = "0, or " + k.want
	k.set = func(c *Config, s string) bool {
		if n, ok := parseBytes(s); ok && n == 0 {
			*field(c) = 0
			return true
		}
		return set(c, s)
	}
	return k
}

// bucket is the URL of one, or nothing. What a bucket's driver would ignore is
// refused: a path after the name of an S3 bucket, where only prefix= is heard,
// and a host before that of a directory.
func bucket(field func(*Config) *string) kind {
	return kind{"URL", "nothing, s3://BUCKET, s3://BUCKET?prefix=P/ or file:///DIR", func(c *Config, s string) bool {
		*field(c) = s
		u, err := url.Parse(s)
		switch {
		case s == "":
			return true
		case err != nil:
			return false
		case u.Scheme == "s3":
			return u.Host != "" && strings.Trim(u.Path, "/") == ""
		}
		return u.Scheme == "file" && (u.Host == "" || u.Host == "localhost" || u.Host == ".") && u.Path != ""
	}}
}

// parseBytes reads a number of bytes with or without a unit.
func parseBytes(s string) (int, bool) {
	unit := 1
	for _, u := range []struct {
		name string
		unit int
	}{{"KiB", kib}, {"MiB", mib}, {"GiB", gib}} {
		if number, ok := strings.CutSuffix(s, u.name); ok {
			s, unit = strings.TrimSpace(number), u.unit
			break
		}
	}
	n, err := strconv.ParseInt(s, 10, 32)
	return int(n) * unit, err == nil
}
