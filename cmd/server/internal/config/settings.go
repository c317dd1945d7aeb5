package config

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	kib  = 1 << 10
	mib  = 1 << 20
	gib  = 1 << 30
	year = 365 * 24 * time.Hour

	serving, data, monitoring = "Serving", "Data", "Logs and metrics"
)

// setting is one row of the table. Group and usage are for the help text, standard is the
// default as a user writes it.
type setting struct {
	group, name, standard string
	kind
	usage string
}

type kind struct {
	placeholder string
	// want describes the expected values, after "want ".
	want string
	// set reads a text into its field and reports whether the text is valid.
	set func(text string) bool
}

func settings(c *Config) []setting {
	return slices.Concat([]setting{
		{serving, "grpc-address", "127.0.0.1:50051", address(&c.GRPCAddress), "address of the gRPC services; :50051 listens on all interfaces"},
		{serving, "http-address", "127.0.0.1:9464", address(&c.HTTPAddress), "address of JSON, metrics, health and the console over HTTP"},
		{serving, "tls-cert", "", file(&c.TLSCert), "server certificate (PEM) of both ports; empty disables TLS"},
		{serving, "tls-key", "", file(&c.TLSKey), "private key of tls-cert (PEM)"},
		{serving, "tls-client-ca", "", file(&c.TLSClientCA), "CA file for verifying client certificates (PEM); empty disables mTLS"},
		{serving, "tls-client-auth", "require", oneOf(&c.TLSClientAuth, ClientRequired, ClientOptional), "require client certificates, or make them optional"},
		{serving, "cors-origins", "", origins(&c.CORSOrigins), "origins that may call over HTTP (CORS), as https://a.example,https://b.example; * allows all"},
		{serving, "max-message-bytes", "16MiB", size(kib, gib, &c.MaxMessageBytes), "maximum size of a gRPC message and of a JSON body"},
		{serving, "memory-limit", "0", sizeOrNone(256*mib, 1<<44, &c.MemoryLimit), "memory limit of the process, half of it for models; 0 is no limit"},
		{serving, "max-models", "100000", count(1, 10_000_000, &c.MaxModels), "maximum number of models"},
		{serving, "max-pending", "4000000", count(1, 1_000_000_000, &c.MaxPending), "maximum number of pending predictions of all models; one model may have a quarter"},

		{data, "data-dir", "./data", path(&c.DataDir), "data directory"},
		{data, "durability", "sync", oneOf(&c.Durability, DurabilitySync, DurabilityAsync), "acknowledge Observe after the sync to disk, or before"},
		{data, "snapshot-replay", "250ms", duration(time.Millisecond, time.Hour, &c.SnapshotReplay), "snapshot a model once replaying its log would take this long"},
		{data, "snapshots-kept", "3", count(1, 1000, &c.SnapshotsKept), "number of snapshots kept per model"},
		{data, "backup-to", "", place(&c.BackupTo), "back up here while serving: a directory or s3://BUCKET"},
		{data, "backup-every", "1h", duration(time.Second, year, &c.BackupEvery), "interval between backups"},
		{data, "backup-keep", "24", count(0, 1_000_000, &c.BackupKeep), "number of backups kept in backup-to; 0 keeps all"},
		{data, "id-window", "24h", duration(time.Millisecond, year, &c.IDWindow), "how long the id of an observation is remembered"},
		{data, "label-ttl", "24h", duration(time.Millisecond, year, &c.LabelTTL), "how long a prediction stays pending"},
		{data, "deleted-kept", "168h", duration(0, year, &c.DeletedKept), "how long a deleted model can be restored; 0 purges it at once"},

		{monitoring, "log-level", "info", oneOf(&c.LogLevel, "debug", "info", "warn", "error"), "lowest level that is logged"},
		{monitoring, "metrics-max-models", "1000", count(1, 1_000_000, &c.MetricsMaxModels), "maximum number of models with their own metric series"},
		{monitoring, "otlp-endpoint", "", collector(&c.OTLPEndpoint), "OTLP endpoint for traces: http://HOST:4317 or https://HOST:4317"},
	}, accessSettings(c), clusterSettings(c))
}

func word[T ~string](placeholder, want string, field *T, good func(string) bool) kind {
	return kind{placeholder, want, func(s string) bool {
		*field = T(s)
		return good(s)
	}}
}

func path(field *string) kind {
	return word("PATH", "a path", field, func(s string) bool { return s != "" && !strings.ContainsRune(s, 0) })
}

func file(field *string) kind {
	return word("FILE", "nothing or a path", field, func(s string) bool { return !strings.ContainsRune(s, 0) })
}

func address(field *string) kind {
	return word("HOST:PORT", "HOST:PORT or :PORT with a port from 0 to 65535", field, func(s string) bool {
		host, port, err := net.SplitHostPort(s)
		if err != nil || strings.ContainsAny(host, " \t\r\n") {
			return false
		}
		_, err = strconv.ParseUint(port, 10, 16)
		return err == nil
	})
}

func oneOf[T ~string](field *T, values ...T) kind {
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = string(v)
	}
	last := len(names) - 1
	want := strings.Join(names[:last], ", ") + " or " + names[last]
	return word(strings.Join(names, "|"), want, field, func(s string) bool { return slices.Contains(names, s) })
}

// place is a directory, the URL of a bucket, or nothing. A URL with a part that the bucket's
// driver ignores is rejected: a path after the name of an S3 bucket (the driver reads prefix=
// only), and a host before a directory.
func place(field *string) kind {
	return word("PLACE", "nothing, a directory, file:///DIR, s3://BUCKET or s3://BUCKET?prefix=P/", field, func(s string) bool {
		if !strings.Contains(s, "://") {
			return !strings.ContainsRune(s, 0)
		}
		u, err := url.Parse(s)
		switch {
		case err != nil:
			return false
		case u.Scheme == "s3":
			return u.Host != "" && strings.Trim(u.Path, "/") == ""
		}
		return u.Scheme == "file" && slices.Contains([]string{"", "localhost", "."}, u.Host) && u.Path != ""
	})
}

func collector(field *string) kind {
	return word("URL", "nothing, http://HOST:PORT or https://HOST:PORT without a user", field, func(s string) bool {
		u, err := url.Parse(s)
		return s == "" || (err == nil && u.Host != "" && u.User == nil && (u.Scheme == "http" || u.Scheme == "https"))
	})
}

func origins(field *string) kind {
	return word("ORIGINS", "nothing, * or origins between commas, such as https://example.com or http://localhost:8080", field, func(s string) bool {
		if s == "" || s == "*" {
			return true
		}
		for origin := range strings.SplitSeq(s, ",") {
			u, err := url.Parse(origin)
			if err != nil || u.Host == "" || strings.Contains(u.Host, "*") || u.Scheme+"://"+u.Host != origin || (u.Scheme != "http" && u.Scheme != "https") {
				return false
			}
		}
		return true
	})
}

// number is a setting between two bounds. A NaN is in no range.
func number[T cmp.Ordered](placeholder, want string, low, high T, field *T, parse func(string) (T, error)) kind {
	return kind{placeholder, want, func(s string) bool {
		n, err := parse(s)
		*field = n
		return err == nil && low <= n && n <= high
	}}
}

func count(low, high int, field *int) kind {
	return number("N", fmt.Sprintf("a whole number from %d to %d", low, high), low, high, field, strconv.Atoi)
}

func duration(low, high time.Duration, field *time.Duration) kind {
	want := fmt.Sprintf("a duration from %s to %s, such as 90s, 5m or 24h", brief(low), brief(high))
	return number("DURATION", want, low, high, field, time.ParseDuration)
}

// brief writes 1h for 1h0m0s.
func brief(d time.Duration) string {
	return strings.Replace(strings.Replace(d.String(), "m0s", "m", 1), "h0m", "h", 1)
}

func size(low, high int64, field *int64) kind {
	want := fmt.Sprintf("a number of bytes from %d to %d, such as 4194304, 512KiB or 2GiB, without a fraction", low, high)
	return number("BYTES", want, low, high, field, parseBytes)
}

func sizeOrNone(low, high int64, field *int64) kind {
	k := size(low, high, field)
	return kind{k.placeholder, "0, or " + k.want, func(s string) bool {
		return k.set(s) || (*field == 0 && good(parseBytes(s)))
	}}
}

func good[T any](_ T, err error) bool { return err == nil }

func parseBytes(s string) (int64, error) {
	unit := uint64(1)
	for name, bytes := range map[string]uint64{"KiB": kib, "MiB": mib, "GiB": gib} {
		if number, ok := strings.CutSuffix(s, name); ok {
			s, unit = strings.TrimSpace(number), bytes
			break
		}
	}
	n, err := strconv.ParseUint(s, 10, 63)
	high, low := bits.Mul64(n, unit)
	if high > 0 || low > 1<<62 {
		return 0, errors.New("too many bytes")
	}
	return int64(low), err
}
