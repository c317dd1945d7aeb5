package main

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"hindsight/cmd/server/internal/access"
	"hindsight/cmd/server/internal/config"
	"hindsight/internal/gateway"
	"hindsight/internal/metrics"
	"hindsight/internal/rpc"
)

// openAccess reads who may call. The guard checks HTTP requests, and is nil if it has nothing to do.
func openAccess(c config.Config, log *zap.Logger, instruments *metrics.Metrics) (*access.Access, *gateway.Guard, error) {
	a, err := access.Open(access.Options{
		Tokens: c.Tokens, JWTKeys: c.JWTKeys, JWTIssuer: c.JWTIssuer, JWTAudience: c.JWTAudience,
		AuditLog: c.AuditLog, Log: log.Named("access"), Now: time.Now,
	})
	if err != nil {
		return nil, nil, err
	}
	if err := watchAccess(instruments, a.Stats); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("instruments of access: %w", err), a.Close())
	}
	if a.Auth == nil && a.Audit() == nil {
		return a, nil, nil
	}
	return a, gateway.NewGuard(gateway.GuardOptions{Auth: a.Auth, Audit: a.Audit(), Status: rpc.StatusOf, Now: time.Now}), nil
}
