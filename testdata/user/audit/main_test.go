package main

import (
	"strings"
	"testing"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine/enginetest"
)

func TestAudit(t *testing.T) {
	m := enginetest.NewMachine()
	sh := m.Running("/bin/sh")
	sh.Fork().SetUID(1000).Exec("/bin/echo", "a b").SetUID(7).Exit(0)
	m.Miss(quark.LossSocketFull, 2)
	const more = 1000
	for range more {
		sh.Fork().Exec("/bin/true").Exit(0)
	}
	q, err := quark.New(m, quark.Options{MaxLength: 100})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	if err := q.Drain(); err != nil { // the orderly end comes at once, and loses nothing
		t.Fatal(err)
	}
	var b strings.Builder
	if err := audit(q, &b); err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(b.String(), "\n")
	const first = `{"time":"1970-01-01T00:00:01.003Z","pid":3,"parent":2,"uid":1000,"euid":1000,"path":"/bin/echo","args":["/bin/echo","a b"]}` + "\n"
	if lines[0] != first || !strings.Contains(lines[1], `"lost":{"socket_full":2}`) {
		t.Errorf("the first lines are\n%s%s", lines[0], lines[1])
	}
	if n := strings.Count(b.String(), `"path":"/bin/true"`); n != more {
		t.Errorf("%d of %d commands", n, more)
	}
}
