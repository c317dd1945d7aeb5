package child

import "syscall"

// attributes kill the child when its parent ends. They also put it into a
// process group of its own, so that an interrupt from the terminal reaches the
// parent alone.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
