//go:build !linux

package main_test

import "syscall"

// attributes are Linux's alone.
func attributes() *syscall.SysProcAttr { return nil }

// limitFiles does nothing: a process changes the limits of another one only on Linux.
func limitFiles(int) error { return nil }
