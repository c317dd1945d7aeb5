package child

import "syscall"

// attributes keep the child from outliving its parent, and an interrupt from
// the terminal from reaching it before the parent stops it.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
