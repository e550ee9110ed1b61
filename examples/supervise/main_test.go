package main

import (
	"strings"
	"testing"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine/enginetest"
)

// The machine is made up: the test needs no kernel and no root.
func TestReport(t *testing.T) {
	m := enginetest.NewMachine()
	command := m.Running("/bin/sh") // pid 2
	daemon := command.Fork().Fork().Exec("/usr/sbin/daemon")
	command.Fork().Exec("/bin/false").Exit(1)
	m.Running("/bin/login").Fork().Exec("/bin/true").Exit(0)
	m.Sleep(3 * time.Second)
	daemon.Kill(15)
	where, err := quark.CompareFilter("tree", "==", "2")
	if err != nil {
		t.Fatal(err)
	}
	q, err := quark.New(m, quark.Options{Where: where})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	var out strings.Builder
	if err := report(t.Context(), q, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`["/bin/false"]: code 1, signal 0, after `, `["/usr/sbin/daemon"]: code 0, signal 15, after 3.0`} {
		if !strings.Contains(out.String(), want) || strings.Count(out.String(), "\n") != 2 {
			t.Errorf("no %s, or more, in\n%s", want, &out)
		}
	}
}
