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

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"hindsight/internal/auth"
)

const (
	// The rate and the burst of recorded rejections: a caller that is rejected all the time must
	// not push other records out of the log.
	rejectionsPerSecond = 20
	rejectionsAtOnce    = 200
)

// audit is the audit log: a line of JSON for each record. It reopens its file when another program has renamed
// or removed the file, so logrotate needs no signal.
type audit struct {
	path       string
	log        *zap.Logger
	rejections *rate.Limiter
	mu         struct {
		sync.Mutex
		file *os.File // Nil after a failed reopen.
		// cut: the last line of the file is incomplete, because the disk was full, or the
		// machine failed during the write.
		cut bool
	}
	// omitted counts the rejections without a line since the last line. failures counts the lines that could not be
	// written.
	omitted  atomic.Int64
	failures atomic.Uint64
}

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
	// Omitted counts the unrecorded rejections before this line.
	Omitted int64 `json:"omitted,omitempty"`
}

// newAudit opens the log, so that a missing directory fails at the start.
func newAudit(o *Options) (*audit, error) {
	a := &audit{path: o.AuditLog, log: o.Log, rejections: rate.NewLimiter(rejectionsPerSecond, rejectionsAtOnce)}
	if err := a.open(); err != nil {
		return nil, fmt.Errorf("--audit-log: %w", err)
	}
	return a, nil
}

// open opens the file, and creates it if it is missing. The caller holds a.mu, or is newAudit.
func (a *audit) open() error {
	f, err := os.OpenFile(a.path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	cut, err := isCut(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	a.mu.file, a.mu.cut = f, cut
	return nil
}

// reopenIfRenamed opens the file again if the path no longer names the open file.
func (a *audit) reopenIfRenamed() error {
	if a.mu.file != nil {
		opened, err := a.mu.file.Stat()
		if err != nil {
			return err
		}
		if named, err := os.Stat(a.path); err == nil && os.SameFile(opened, named) {
			return nil
		}
		if err := a.mu.file.Close(); err != nil {
			a.log.Warn("the renamed audit log cannot be closed", zap.Error(err))
		}
		a.mu.file = nil
	}
	return a.open()
}

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
	if r.Rejected && !a.rejections.AllowN(r.Time, 1) {
		a.omitted.Add(1)
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
	if err := a.reopenIfRenamed(); err != nil {
		return err
	}
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
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.file == nil {
		return nil
	}
	if err := a.mu.file.Close(); err != nil {
		return fmt.Errorf("close the audit log: %w", err)
	}
	a.mu.file = nil
	return nil
}
