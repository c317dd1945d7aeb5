package gateway

import (
	"time"

	"google.golang.org/protobuf/proto"
)

// Encode is a message as JSON.
func Encode(m proto.Message) ([]byte, error) { return encode(m) }

// WithHeartbeat sets how often a stream of events without an event has a comment.
func WithHeartbeat(every time.Duration) func(*Options) {
	return func(o *Options) { o.heartbeat = every }
}

// MaxStreams is how many streams may be open.
const MaxStreams = maxStreams

// MaxOwn is how many sessions one principal may have.
const MaxOwn = maxOwn
