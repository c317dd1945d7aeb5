//go:build !linux

package child

import "syscall"

// attributes are those of any child.
func attributes() *syscall.SysProcAttr { return nil }
