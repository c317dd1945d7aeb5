//go:build unix

package main

import (
	"os/signal"
	"syscall"
)

// ignoreSignals ignores SIGXFSZ and SIGPIPE. A write beyond the largest size of a file raises SIGXFSZ. A write
// to standard output or standard error whose reader has left raises SIGPIPE. When they are ignored, the write fails
// and the process goes on.
func ignoreSignals() { signal.Ignore(syscall.SIGXFSZ, syscall.SIGPIPE) }
