package child

import (
	"errors"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"queen/bench/internal/procfs"
)

// Process is a program that was started.
type Process struct {
	PID procfs.Process

	cmd   *exec.Cmd
	ended chan struct{}
	err   error // valid once ended is closed, never nil then
}

// Start runs a command.
func Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, ended: make(chan struct{})}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started := make(chan error, 1)
	go func() {
		// Pdeathsig is about the thread that forked: it has to live as long as the program.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		if p.err == nil {
			p.err = errors.New("exit 0")
		}
		close(p.ended)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	p.PID = procfs.Process(cmd.Process.Pid)
	return p, nil
}

// Ended is closed when the program is gone.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Err says how the program ended; call it once Ended is closed.
func (p *Process) Err() error { return p.err }

// ExitCode is -1 for a program that a signal ended; call it once Ended is closed.
func (p *Process) ExitCode() int { return p.cmd.ProcessState.ExitCode() }

// Signal sends a signal and does not wait.
func (p *Process) Signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// Kill ends the program with SIGKILL and waits until it is gone.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.ended
}

// Stop sends SIGTERM and waits; false for a program that took longer than the limit and was killed.
func (p *Process) Stop(limit time.Duration) bool {
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
		return true
	case <-time.After(limit):
		p.Kill()
		return false
	}
}
