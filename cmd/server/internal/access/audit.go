package access

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/DeRuina/timberjack"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"hindsight/internal/auth"
)

// What the audit log keeps: 11 files of 100 MB.
const (
	auditMegabytes = 100
	auditBackups   = 10
	// So many refusals a second are written, and a burst: a caller that is refused
	// without end must not push all else out of the log.
	refusalsPerSecond = 20
	refusalsAtOnce    = 200
)

// audit is the audit log: a line of JSON for each record.
type audit struct {
	file     *timberjack.Logger
	log      *zap.Logger
	refusals *rate.Limiter
	// omitted counts refusals since the last line, allOmitted all of them, failures lines
	// that could not be written.
	allOmitted, failures atomic.Uint64
	omitted              atomic.Int64
}

// line is a record as it is written.
type line struct {
	Time    string   `json:"time"`
	Name    string   `json:"name,omitempty"`
	Subject string   `json:"subject,omitempty"`
	Role    string   `json:"role,omitempty"`
	Call    string   `json:"call"`
	Models  []string `json:"models,omitempty"`
	Outcome string   `json:"outcome"`
	Reason  string   `json:"reason,omitempty"`
	Peer    string   `json:"peer,omitempty"`
	// ValidateOnly: nothing was to change.
	ValidateOnly bool `json:"validate_only,omitempty"`
	// Omitted counts refusals before this line that came too fast.
	Omitted int64 `json:"omitted,omitempty"`
}

// newAudit opens the log, so that a directory that is not there is found at the start.
func newAudit(o *Options) (*audit, error) {
	f, err := os.OpenFile(o.AuditLog, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("--audit-log: %w", err)
	}
	if err := f.Close(); err != nil {
		return nil, fmt.Errorf("--audit-log: %w", err)
	}
	return &audit{
		file: &timberjack.Logger{
			Filename: o.AuditLog, MaxSize: auditMegabytes, MaxBackups: auditBackups, Compression: "gzip", FileMode: 0o600,
		},
		log: o.Log, refusals: rate.NewLimiter(refusalsPerSecond, refusalsAtOnce),
	}, nil
}

// record writes a record. It returns when the operating system has the line.
func (a *audit) record(r *auth.Record) {
	if r.Refused && !a.refusals.AllowN(r.Time, 1) {
		a.omitted.Add(1)
		a.allOmitted.Add(1)
		return
	}
	l := line{
		Time: r.Time.UTC().Format(time.RFC3339Nano), Call: strings.TrimPrefix(r.Call, "/"), Models: r.Models,
		Outcome: r.Outcome, Reason: r.Reason, Peer: r.Peer, ValidateOnly: r.ValidateOnly, Omitted: a.omitted.Swap(0),
	}
	if r.Who != nil {
		l.Name, l.Subject, l.Role = r.Who.Name, r.Who.Subject, r.Who.Role.String()
	}
	text, err := json.Marshal(l)
	if err == nil {
		_, err = a.file.Write(append(text, '\n'))
	}
	if err != nil {
		a.failures.Add(1)
		a.log.Error("the audit log cannot be written", zap.Error(err))
	}
}

func (a *audit) close() error {
	if err := a.file.Close(); err != nil {
		return fmt.Errorf("close the audit log: %w", err)
	}
	return nil
}
