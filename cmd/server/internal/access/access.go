// Package access gives package auth the tokens file, the keys of JWTs and the audit log. It
// reads the files again when they change.
package access

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"hindsight/internal/auth"
	"hindsight/internal/clock"
)

// Options of an Access. Log and Now are required.
type Options struct {
	// Tokens is the tokens file; empty is none, and every call is accepted.
	Tokens string
	// JWTKeys is a file or a URL of a JSON Web Key Set; empty is none. JWTIssuer and
	// JWTAudience are required with it.
	JWTKeys, JWTIssuer, JWTAudience string
	// AuditLog is the file of the audit log; empty is none.
	AuditLog string
	Log      *zap.Logger
	Now      func() time.Time
}

const (
	// The interval between looks at the files. A change is accepted at the second look.
	fileInterval = 500 * time.Millisecond
	// The interval between requests to a URL, and until its first answer.
	urlInterval   = time.Minute
	firstInterval = 5 * time.Second
)

// Access authenticates the callers of a server, and writes its audit log.
type Access struct {
	Auth   *auth.Authenticator
	o      Options
	tokens watched
	keys   *keys
	audit  *audit
	// failures counts failed readings after the first, of the tokens file and of the keys.
	failures atomic.Uint64
	// The last failures. A failure that repeats is logged and counted once.
	lastFailure, lastKeyFailure string
}

// Open reads the files. Run asks the URL of keys.
func Open(o Options) (*Access, error) {
	a := &Access{o: o, tokens: watched{path: o.Tokens}}
	if o.AuditLog != "" {
		var err error
		if a.audit, err = newAudit(&o); err != nil {
			return nil, err
		}
	}
	if o.Tokens == "" {
		return a, nil
	}
	options := auth.Options{Now: o.Now}
	if o.JWTKeys != "" {
		a.keys = newKeys(&o)
		options.VerifyJWT = a.keys.verify
		if a.keys.url == "" {
			if _, err := a.keys.readFile(); err != nil {
				return nil, fmt.Errorf("--jwt-keys: %w", err)
			}
		}
	}
	a.Auth = auth.New(options)
	if _, err := a.readTokens(); err != nil {
		return nil, fmt.Errorf("--tokens: %w", err)
	}
	if a.Auth.Stats().Entries == 0 {
		o.Log.Warn("the tokens file has no entry: nobody may call", zap.String("file", o.Tokens))
	}
	return a, nil
}

// Audit receives the records of the audit log; nil without a log.
func (a *Access) Audit() func(*auth.Record) {
	if a.audit == nil {
		return nil
	}
	return a.audit.record
}

// Run follows changes until the context ends. It logs and counts an invalid file. The content
// that it read before stays.
func (a *Access) Run(ctx context.Context) error {
	if a.Auth == nil {
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		for clock.Sleep(ctx, fileInterval) {
			a.Reload()
		}
		return nil
	})
	if a.keys != nil && a.keys.url != "" {
		group.Go(func() error {
			for wait := time.Duration(0); clock.Sleep(ctx, wait); {
				a.fetchKeys(ctx)
				if wait = urlInterval; a.keys.set.Load() == nil {
					wait = firstInterval
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// Reload reads the files that changed before the last look. Only Run calls it while Run runs.
func (a *Access) Reload() {
	changed, err := a.readTokens()
	if isNew(&a.lastFailure, err) {
		a.failures.Add(1)
		a.o.Log.Error("the tokens file cannot be read; the previous entries stay", zap.Error(err))
	}
	if changed {
		a.o.Log.Info("the tokens file was read", zap.Int("entries", a.Auth.Stats().Entries))
	}
	if a.keys == nil || a.keys.url != "" {
		return
	}
	a.keysRead(a.keys.readFile())
}

func isNew(last *string, err error) bool {
	text := ""
	if err != nil {
		text = err.Error()
	}
	was := *last
	*last = text
	return text != "" && text != was
}

func (a *Access) keysRead(changed bool, err error) {
	if isNew(&a.lastKeyFailure, err) {
		a.failures.Add(1)
		a.o.Log.Error("the keys of JWTs cannot be read; the previous keys stay", zap.Error(err))
	}
	if changed {
		a.Auth.ForgetJWTs()
		a.o.Log.Info("the keys of JWTs were read")
	}
}

func (a *Access) fetchKeys(ctx context.Context) {
	changed, err := a.keys.fetch(ctx)
	if ctx.Err() == nil {
		a.keysRead(changed, err)
	}
}

func (a *Access) readTokens() (changed bool, err error) {
	data, changed, err := a.tokens.read()
	if err != nil || !changed {
		return false, err
	}
	entries, err := auth.Parse(data)
	if err != nil {
		return false, fmt.Errorf("%s: %w", a.o.Tokens, err)
	}
	a.Auth.Set(entries)
	return true, nil
}

// Close closes the audit log.
func (a *Access) Close() error {
	if a.audit == nil {
		return nil
	}
	return a.audit.close()
}

// Stats are the figures of an Access.
type Stats struct {
	auth.Stats
	ReloadFailures uint64
	AuditFailures  uint64
}

// Stats are the figures of this moment.
func (a *Access) Stats() Stats {
	s := Stats{ReloadFailures: a.failures.Load()}
	if a.Auth != nil {
		s.Stats = a.Auth.Stats()
	}
	if a.audit != nil {
		s.AuditFailures = a.audit.failures.Load()
	}
	return s
}
