package main_test

import "syscall"

// attributes keep a server from outliving the test.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
