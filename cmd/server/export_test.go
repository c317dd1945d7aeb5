package main

import (
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
