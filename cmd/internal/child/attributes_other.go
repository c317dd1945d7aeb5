//go:build !linux

package child

import "syscall"

// attributes are the default ones.
func attributes() *syscall.SysProcAttr { return nil }
