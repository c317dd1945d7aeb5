package access

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/DeRuina/timberjack"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"hindsight/internal/auth"
)

// The audit log is at most 11 files of 100 MB.
const (
	auditMegabytes = 100
	auditBackups   = 10
	// The rate and the burst of recorded refusals: a caller that is refused all the time must
	// not push other records out of the log.
	refusalsPerSecond = 20
	refusalsAtOnce    = 200
)

// audit is the audit log: a line of JSON for each record.
type audit struct {
	log      *zap.Logger
	refusals *rate.Limiter
	mu       struct {
		sync.Mutex
		file *timberjack.Logger
		// cut: the last line of the file is incomplete, because the disk was full, or the
		// machine failed during the write.
		cut bool
	}
	// omitted counts refusals since the last line, allOmitted all of them, failures lines that
	// could not be written.
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
	// ValidateOnly: the call changes nothing.
	ValidateOnly bool `json:"validate_only,omitempty"`
	// Omitted counts the unrecorded refusals before this line.
	Omitted int64 `json:"omitted,omitempty"`
}

// newAudit opens the log, so that a missing directory fails at the start.
func newAudit(o *Options) (*audit, error) {
	f, err := os.OpenFile(o.AuditLog, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("--audit-log: %w", err)
	}
	cut, err := isCut(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("--audit-log: %w", err)
	}
	a := &audit{log: o.Log, refusals: rate.NewLimiter(refusalsPerSecond, refusalsAtOnce)}
	a.mu.cut = cut
	a.mu.file = &timberjack.Logger{
		Filename: o.AuditLog, MaxSize: auditMegabytes, MaxBackups: auditBackups, Compression: "gzip", FileMode: 0o600,
	}
	return a, nil
}

// isCut reports whether a file ends within a line.
func isCut(f *os.File) (bool, error) {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return false, err
	}
	var last [1]byte
	_, err = f.ReadAt(last[:], info.Size()-1)
	return last[0] != '\n', err
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
		err = a.write(append(text, '\n'))
	}
	if err != nil {
		a.failures.Add(1)
		a.omitted.Add(l.Omitted)
		a.log.Error("the audit log cannot be written", zap.Error(err))
	}
}

// write appends a line. It first completes an incomplete line with a newline, so that only that
// line is lost.
func (a *audit) write(text []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.cut {
		text = append([]byte("\n"), text...)
	}
	n, err := a.mu.file.Write(text)
	if n > 0 {
		a.mu.cut = text[n-1] != '\n'
	}
	return err
}

func (a *audit) close() error {
	if err := a.mu.file.Close(); err != nil {
		return fmt.Errorf("close the audit log: %w", err)
	}
	return nil
}
