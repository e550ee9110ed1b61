//go:build linux && (amd64 || arm64)

package backends

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/retry"
)

func TestCheckPID(t *testing.T) {
	p, err := OpenProc(nil, new(source.Environ))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := checkSystem(); err != nil {
		t.Skip(err)
	}
	if start, state := p.CheckPID(uint32(os.Getpid())); state != engine.PIDAlive || start == 0 || start%engine.ProcStartUnit != 0 {
		t.Errorf("this process: got start %d, state %d", start, state)
	}
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := uint32(cmd.Process.Pid)
	gone := false
	for range retry.For(10 * time.Second) {
		if _, state := p.CheckPID(pid); state == engine.PIDGone {
			gone = true // the process is a zombie
			break
		}
	}
	if !gone {
		t.Fatal("a zombie was not reported as gone")
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if _, state := p.CheckPID(pid); state != engine.PIDGone {
		t.Errorf("a reaped process: got state %d, want PIDGone", state)
	}
}
