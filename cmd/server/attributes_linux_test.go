package main_test

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// attributes keep a server from outliving the test.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// limitFiles makes a process write no file beyond its first byte.
func limitFiles(pid int) error {
	return unix.Prlimit(pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1, Max: 1}, nil)
}
