//go:build unix

package main

import (
	"os/signal"
	"syscall"
)

// ignoreSignals ignores SIGXFSZ. A write beyond the largest size of a file raises
// it; when it is ignored, the write fails and the process goes on.
func ignoreSignals() { signal.Ignore(syscall.SIGXFSZ) }
