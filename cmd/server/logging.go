package main

import (
	"io"
	"net/http"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"hindsight/cmd/server/internal/config"
)

const (
	// Of the log lines of one second with the same level and message the first loggedFirst
	// are written, then one in loggedThereafter.
	loggedFirst      = 100
	loggedThereafter = 100
	// A request that sets the level has at most maxLevelBytes.
	maxLevelBytes = 1 << 10
)

// newLogger returns a logger to stderr, and its level, which may change at any time. The logger writes
// errors at every level.
func newLogger(c config.Config, stderr io.Writer) (*zap.Logger, zap.AtomicLevel) {
	encoding := zap.NewProductionEncoderConfig()
	encoding.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	at, _ := zap.ParseAtomicLevel(c.LogLevel) // Package config has checked the level.
	enabled := zap.LevelEnablerFunc(func(l zapcore.Level) bool { return l >= zapcore.ErrorLevel || at.Enabled(l) })
	core := zapcore.NewSamplerWithOptions(
		zapcore.NewCore(zapcore.NewJSONEncoder(encoding), zapcore.Lock(zapcore.AddSync(stderr)), enabled), time.Second, loggedFirst, loggedThereafter)
	return zap.New(core), at
}

// levels answers the level of the log to GET, and sets it to PUT.
func levels(at zap.AtomicLevel, log *zap.Logger) http.Handler {
	return http.NewCrossOriginProtection().Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		before := at.Level()
		r.Body = http.MaxBytesReader(w, r.Body, maxLevelBytes)
		at.ServeHTTP(w, r)
		if now := at.Level(); now != before {
			// Every level writes errors.
			log.Error("log level changed", zap.Stringer("before", before), zap.Stringer("level", now))
		}
	}))
}
