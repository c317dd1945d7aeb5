//go:build !unix

package main

// ignoreSignals does nothing: writes raise no signals here.
func ignoreSignals() {}
