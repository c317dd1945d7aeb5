//go:build !linux

package main_test

import "syscall"

// attributes are Linux's alone.
func attributes() *syscall.SysProcAttr { return nil }
