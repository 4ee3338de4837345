package lab

import (
	"os/exec"
	"runtime"
	"syscall"
)

// RunTied runs cmd to its end, as cmd.Run does, with two differences: it has a process group of its own, so that a Ctrl-C in
// the terminal reaches it only by way of its caller, and it does not outlive this process, however that ends (on Linux).
func RunTied(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
	// The kernel kills the child when the thread that forked it ends, not when the process does.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return cmd.Run()
}
