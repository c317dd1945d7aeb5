// Package access brings what package auth needs from outside of the process: the tokens
// file, the keys of JWTs and the audit log. It reads the files again when they change.
package access

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"hindsight/internal/auth"
)

// Options of an Access. Log and Now are required.
type Options struct {
	// Tokens is the tokens file; empty is none, so that every call is taken.
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
	// The files are looked at so often. A change is taken at the second look.
	fileInterval = 500 * time.Millisecond
	// A URL is asked so often, and sooner until it has answered once.
	urlInterval   = time.Minute
	firstInterval = 5 * time.Second
)

// Access is who may call a server, and the log of what they did.
type Access struct {
	// Auth is nil without a tokens file.
	Auth   *auth.Authenticator
	o      Options
	tokens watched
	keys   *keys
	audit  *audit
	// Both count readings after the first, of the tokens file and of keys.
	reloads, failures atomic.Uint64
	// The last failures are logged and counted once, though they are found at every look.
	lastFailure, lastKeyFailure string
}

// Open reads the files. A URL of keys is asked when Run begins.
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

// Audit is what the gRPC server and the gateway tell of calls; nil without an audit log.
func (a *Access) Audit() func(*auth.Record) {
	if a.audit == nil {
		return nil
	}
	return a.audit.record
}

// Run looks for changes until the context ends. A file that cannot be taken is logged and
// counted, and what was read before stays.
func (a *Access) Run(ctx context.Context) error {
	if a.Auth == nil {
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return every(ctx, fileInterval, func() { a.Reload() }) })
	if a.keys != nil && a.keys.url != "" {
		group.Go(func() error {
			for ctx.Err() == nil && a.keys.set.Load() == nil {
				a.fetchKeys(ctx)
				pause(ctx, firstInterval)
			}
			return every(ctx, urlInterval, func() { a.fetchKeys(ctx) })
		})
	}
	return group.Wait()
}

// pause waits, but not longer than the context lasts.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// every calls a function at each tick until the context ends.
func every(ctx context.Context, interval time.Duration, call func()) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			call()
		}
	}
}

// Reload looks at the files, and takes those that changed before the last look. Run calls
// it; nobody else may meanwhile.
func (a *Access) Reload() {
	changed, err := a.readTokens()
	if isNew(&a.lastFailure, err) {
		a.failures.Add(1)
		a.o.Log.Error("the tokens file cannot be taken; the entries of before stay", zap.Error(err))
	}
	if changed {
		a.reloads.Add(1)
		a.o.Log.Info("the tokens file was read", zap.Int("entries", a.Auth.Stats().Entries))
	}
	if a.keys == nil || a.keys.url != "" {
		return
	}
	a.keysRead(a.keys.readFile())
}

// isNew keeps an error, and tells whether it is not that of before.
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
		a.o.Log.Error("the keys of JWTs cannot be taken; those of before stay", zap.Error(err))
	}
	if changed {
		a.reloads.Add(1)
		a.Auth.ForgetJWTs()
		a.o.Log.Info("the keys of JWTs were read")
	}
}

// fetchKeys asks the URL.
func (a *Access) fetchKeys(ctx context.Context) {
	changed, err := a.keys.fetch(ctx)
	if ctx.Err() == nil {
		a.keysRead(changed, err)
	}
}

// readTokens reads the tokens file if it changed.
func (a *Access) readTokens() (changed bool, err error) {
	data, changed, err := a.tokens.read(a.o.Now())
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

// Close ends the audit log.
func (a *Access) Close() error {
	if a.audit == nil {
		return nil
	}
	return a.audit.close()
}

// Stats are the figures of an Access.
type Stats struct {
	auth.Stats
	Reloads        uint64 `metric:"hindsight_auth_reloads_total" help:"Token files and key sets that were read again and taken."`
	ReloadFailures uint64 `metric:"hindsight_auth_reload_failures_total" help:"Token files and key sets that could not be read again; the ones before stay."`
	AuditFailures  uint64 `metric:"hindsight_audit_failures_total" help:"Lines of the audit log that could not be written."`
	AuditOmitted   uint64 `metric:"hindsight_audit_omitted_total" help:"Refusals that came too fast for the audit log."`
}

// Stats are the figures of this moment.
func (a *Access) Stats() Stats {
	s := Stats{Reloads: a.reloads.Load(), ReloadFailures: a.failures.Load()}
	if a.Auth != nil {
		s.Stats = a.Auth.Stats()
	}
	if a.audit != nil {
		s.AuditFailures, s.AuditOmitted = a.audit.failures.Load(), a.audit.allOmitted.Load()
	}
	return s
}
