package gateway

import "time"

// WithHeartbeat sets how often a stream of events without an event has a comment.
func WithHeartbeat(every time.Duration) func(*Options) {
	return func(o *Options) { o.heartbeat = every }
}

// MaxStreams is how many streams may be open.
const MaxStreams = maxStreams

// MaxSessionsEach is how many sessions one principal may have.
const MaxSessionsEach = maxSessionsEach
