package consensus

import (
	"fmt"
	"io"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// newLogger writes raft's log to zap, one level lower. Raft logs an error for each request to a member that is down,
// and a cluster tolerates members that are down.
func newLogger(log *zap.Logger) hclog.Logger {
	out := hclog.NewInterceptLogger(&hclog.LoggerOptions{Output: io.Discard, Level: hclog.Off})
	out.RegisterSink(zapSink{log.Named("raft")})
	return out
}

type zapSink struct{ log *zap.Logger }

func (s zapSink) Accept(_ string, level hclog.Level, message string, args ...any) {
	to := zapcore.DebugLevel
	switch {
	case level >= hclog.Error:
		to = zapcore.WarnLevel
	case level == hclog.Warn:
		to = zapcore.InfoLevel
	}
	entry := s.log.Check(to, message)
	if entry == nil {
		return
	}
	var fields []zap.Field
	for n := 0; n+1 < len(args); n += 2 {
		fields = append(fields, zap.Any(fmt.Sprint(args[n]), args[n+1]))
	}
	entry.Write(fields...)
}
