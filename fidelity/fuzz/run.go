package fuzz

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/quark-linux/quark/fidelity/scenario"
	"golang.org/x/sys/unix"
)

// run runs the trial in its own process, and applies the faults from outside.
func (t *trial) run() (*result, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	in, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Args = []string{"quark-fidelity", "trial"}
	cmd.Env = append(os.Environ(), trialEnv+"=1")
	cmd.Stdin = bytes.NewReader(in)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.WaitDelay = 10 * time.Second // one of its processes may keep stderr open
	// Only the fuzzer receives ^C of the terminal, and it ends after the trial.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	timeout := time.AfterFunc(3*t.Patience, func() { unix.Kill(-cmd.Process.Pid, unix.SIGKILL) })
	defer timeout.Stop()
	r := new(result)
	values := json.NewDecoder(out)
	err = values.Decode(new(struct{})) // the processes begin
	if err == nil {
		end := t.Faults.begin(cmd.Process.Pid)
		err = values.Decode(new(struct{})) // the processes have ended
		end()
	}
	if err == nil {
		err = values.Decode(r)
	}
	if err2 := cmd.Wait(); err2 != nil || err != nil {
		return nil, fmt.Errorf("run scripts: %w: %s", errors.Join(err, err2), strings.TrimSpace(stderr.String()))
	}
	return r, nil
}

// begin starts the faults of the monitor with this pid, and returns a function that ends them.
func (f *Faults) begin(pid int) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for range f.Load {
		all.Go(func() {
			for ctx.Err() == nil {
			}
		})
	}
	all.Go(func() {
		f.Stop.repeat(ctx, func(stop bool) {
			unix.Kill(pid, map[bool]unix.Signal{true: unix.SIGSTOP, false: unix.SIGCONT}[stop])
		})
	})
	all.Go(func() {
		if !scenario.InGuest() {
			return
		}
		control := fmt.Sprintf("/sys/devices/system/cpu/cpu%d/online", runtime.NumCPU()-1)
		f.Offline.repeat(ctx, func(away bool) {
			// Some machines reject this.
			os.WriteFile(control, []byte(map[bool]string{true: "0", false: "1"}[away]), 0)
		})
	})
	return func() {
		cancel()
		all.Wait()
	}
}

// repeat switches a fault on and off until ctx ends, and leaves it off. Each off period is a
// quarter longer than the last: a signal restarts the kernel's verification of eBPF programs, so a
// slow guest would otherwise never open a queue.
func (p Pulse) repeat(ctx context.Context, set func(on bool)) {
	for on := false; p.On != 0; on = !on {
		wait := p.Off
		if on {
			wait = p.On
			p.Off += p.Off / 4
		}
		select {
		case <-time.After(wait):
			set(!on)
		case <-ctx.Done():
			if on {
				set(false)
			}
			return
		}
	}
}
