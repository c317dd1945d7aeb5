//go:build !linux

package main_test

import "syscall"

// attributes are Linux's alone.
func attributes() *syscall.SysProcAttr { return nil }

// limitFiles does nothing, because a process can change the limits of another process only on Linux.
func limitFiles(int) error { return nil }
