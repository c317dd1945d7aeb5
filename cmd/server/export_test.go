package main

import (
	"net"

	"go.uber.org/zap"

	"hindsight/cmd/server/internal/config"
	"hindsight/internal/engine"
	"hindsight/internal/metrics"
)

// Shown is what the instruments show of models, one after the other, each read at
// once.
func Shown(models []engine.Live, read func(metrics.Model)) {
	var room parts
	for i := range models {
		read(room.model(&models[i]))
	}
}

// WarnExposed is warnExposed.
func WarnExposed(log *zap.Logger, c config.Config, addresses ...net.Addr) {
	warnExposed(log, c, addresses...)
}
