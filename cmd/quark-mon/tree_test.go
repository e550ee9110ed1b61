package main

import (
	"bytes"
	"os/exec"
	"testing"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/engine/enginetest"
	"github.com/quark-linux/quark/internal/golden"
)

// A graph has names with any bytes, ended and forgotten parents, and a reused pid.
func TestTree(t *testing.T) {
	m := enginetest.NewMachine()
	sh := m.Running("/bin/sh")
	gone := sh.Fork()
	orphan := gone.Fork().Exec("/bin/cat", "no end")
	gone.Exit(0)
	m.Sleep(10 * time.Second)
	orphan.SetUID(1000) // its parent is forgotten
	m.Sleep(10 * time.Second)
	odd := sh.Fork().Exec("/bin/\"a\" \\\n\xff&lt;", "two\nlines", "\xfe \"&amp;\"", "größe")
	odd.Fork().Kill(9)
	odd.Exit(3)
	reused := sh.State
	reused.Kind, reused.Creator, reused.PID, reused.Task.PPID = engine.KindFork, 1, gone.State.PID, 1
	reused.Time = orphan.State.Task.Start + uint64(21*time.Second)
	reused.Task.Start = reused.Time
	m.Push(reused, enginetest.Raw{Kind: engine.KindSetProcTitle, PID: 99, Time: reused.Time + 1,
		Task: engine.Task{PPID: gone.State.PID, Known: quark.SetOf(quark.FieldPPID)}})

	q, err := quark.New(m, quark.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	for _, err := range q.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
	}
	var got bytes.Buffer
	if err := writeTree(&got, q, func(*quark.Process) bool { return true }); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/tree.dot", got.Bytes())
	if _, err := exec.LookPath("dot"); err != nil {
		t.Skip("needs dot: apt-get install graphviz")
	}
	dot := exec.Command("dot", "-Tsvg")
	dot.Stdin = &got
	if out, err := dot.CombinedOutput(); err != nil || !bytes.Contains(out, []byte(`größe`)) || bytes.Contains(out, []byte("Warning")) {
		t.Errorf("dot: %v\n%s", err, out)
	}
}
