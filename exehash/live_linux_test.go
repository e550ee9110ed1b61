package exehash_test

import (
	"context"
	"crypto/sha256"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/exehash"
)

// The sum of a program in an eBPF event matches its file.
func TestLive(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err == nil {
		shell, err = filepath.EvalSymlinks(shell)
	}
	if err != nil {
		t.Skip(err)
	}
	contents, err := os.ReadFile(shell)
	if err != nil {
		t.Fatal(err)
	}
	q, err := quark.Open(quark.Options{Backends: quark.EBPF, HoldTime: 10 * time.Millisecond})
	if err != nil {
		t.Skip(err)
	}
	defer q.Close()
	cmd := exec.Command(shell, "-c", "read line")
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	for ev, err := range q.Events(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if p := ev.Process; p == nil || int(p.PID) != cmd.Process.Pid || !ev.Events.Has(quark.EventExec) {
			continue
		}
		if sum, err := new(exehash.Cache).Sum(ev.Process); err != nil || sum.SHA256 != sha256.Sum256(contents) {
			t.Errorf("got sum %x, cached %v, error %v", sum.SHA256, sum.Cached, err)
		}
		return
	}
	t.Fatal("no EXEC within a minute")
}
