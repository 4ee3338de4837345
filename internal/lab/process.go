package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
)

// process is a child that ends with us.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the child has been reaped
	err  error         // why it ended; read after done
}

// startProcess runs argv with its output appended to logPath, as that user (nil: as we run).
//
// The kernel kills the child when the thread that forked it ends, not when the process does. So one goroutine keeps its
// thread from the fork until the child is reaped.
func startProcess(argv []string, dir, logPath string, as *account) (*process, error) {
	return startProcessWith(argv, dir, logPath, as, "")
}

// startProcessWith is startProcess with a text for the child to read.
func startProcessWith(argv []string, dir, logPath string, as *account, stdin string) (*process, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644) //nolint:gosec // a log of a throw-away server, in a folder of ours
	if err != nil {
		return nil, fmt.Errorf("opening the server's log: %w", err)
	}
	defer log.Close()                         //nolint:errcheck // the child has its own descriptor; we write nothing
	cmd := exec.Command(argv[0], argv[1:]...) //nolint:gosec,noctx // the program was found by us; a server outlives the context that starts it
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = log, log
	if stdin != "" {
		cmd.Stdin = strings.NewReader(stdin)
	}
	// A group of its own: Ctrl-C in the terminal reaches us only, and we end the servers in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
	if as != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: as.uid, Gid: as.gid}
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("running %s: %w", argv[0], err)
	}
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) signal(sig os.Signal) error {
	err := p.cmd.Process.Signal(sig)
	if errors.Is(err, os.ErrProcessDone) {
		return ErrStopped
	}
	if err != nil {
		return fmt.Errorf("signalling process %d: %w", p.pid(), err)
	}
	return nil
}

// kill ends the child at once and waits until it is gone.
func (p *process) kill() error {
	if err := p.signal(syscall.SIGKILL); err != nil && !errors.Is(err, ErrStopped) {
		return err
	}
	<-p.done
	return nil
}

// exitError says how the child ended. Only to be called after done.
func (p *process) exitError() error {
	if p.err != nil {
		return fmt.Errorf("it ended: %w", p.err)
	}
	return errors.New("it ended by itself")
}
