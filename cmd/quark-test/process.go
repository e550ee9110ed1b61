package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	bare "github.com/quark-linux/quark/internal/barefork"
	"github.com/quark-linux/quark/internal/clock"
)

// barefork has the options for starting a process. The zero value means a plain fork.
type barefork = bare.Options

func script() *bare.Script { return new(bare.Script) }

// proc is a process that a test has started.
type proc struct {
	*bare.Process
	before uint64 // CLOCK_MONOTONIC before its fork
	status unix.WaitStatus
	reaped bool
}

// age returns the time since p was forked.
func (p *proc) age() time.Duration { return time.Duration(clock.Monotonic() - p.before) }

// spawn starts a process, which is killed at the end of the test.
func (t *test) spawn(s *bare.Script, opts barefork) *proc {
	p := &proc{before: clock.Monotonic()}
	var err error
	if p.Process, err = bare.Start(s, opts); errors.Is(err, errors.ErrUnsupported) {
		t.Skipf("start a process: %v", err)
	}
	if err != nil {
		t.Fatalf("start a process: %v", err)
	}
	t.Cleanup(func() {
		if !p.reaped {
			unix.Kill(p.PID, unix.SIGKILL)
			unix.Wait4(p.PID, &p.status, 0, nil)
		}
		p.Free()
	})
	return p
}

// reap waits for the exit of p and reads events meanwhile.
func (t *test) reap(p *proc) {
	t.await(fmt.Sprintf("the end of process %d", p.PID), func() bool { return t.ended(p) })
}

// ended reports whether p has ended. It fails the test if a system call of p's script failed.
func (t *test) ended(p *proc) bool {
	pid, err := unix.Wait4(p.PID, &p.status, unix.WNOHANG, nil)
	if err != nil && !errors.Is(err, unix.EINTR) {
		t.Fatalf("wait for process %d: %v", p.PID, err)
	}
	p.reaped = pid == p.PID
	if p.reaped {
		if err := p.Check(); err != nil {
			t.Fatalf("scenario: %v", err)
		}
	}
	return p.reaped
}

// gate is a pipe at which one process waits for another.
type gate struct {
	r, w int
	t    *test
	name string
}

func (t *test) gate(name string) *gate {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		t.Fatalf("make a pipe: %v", err)
	}
	t.Cleanup(func() {
		unix.Close(fds[0])
		unix.Close(fds[1])
	})
	return &gate{fds[0], fds[1], t, name}
}

// open lets one process pass.
func (g *gate) open() {
	if _, err := unix.Write(g.w, []byte{1}); err != nil {
		g.t.Fatalf("open gate %s: %v", g.name, err)
	}
}

func itoa(n int) string { return strconv.Itoa(n) }
