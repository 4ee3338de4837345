package lab

import "syscall"

// dieWithParent has the kernel kill the child when we end, also when we are killed and can do nothing more.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
