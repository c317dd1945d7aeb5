//go:build unix

package main

import (
	"os/signal"
	"syscall"
)

// ignoreSignals leaves what a write may raise to the write: a file that may not
// grow is an error of the storage, not the end.
func ignoreSignals() { signal.Ignore(syscall.SIGXFSZ) }
