package main

import (
	"strings"
	"testing"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/cmd/quark-mon/internal/line"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/engine/enginetest"
	"github.com/quark-linux/quark/internal/golden"
)

// family returns a machine with processes that fork others, one of them deeply nested.
func family() *enginetest.Machine {
	m := enginetest.NewMachine()
	sh := m.Running("/bin/sh")
	other := m.Running("/usr/sbin/cron")
	build := sh.Fork().Exec("/usr/bin/make", "-j2")
	build.Fork().Exec("/usr/bin/cc", "a.c").Exit(0)
	slow := build.Fork().Exec("/usr/bin/cc", "b.c")
	as := slow.Fork().Exec("/usr/bin/as")
	other.Fork().Exec("/usr/bin/touch", "/tmp/\x1b[2J").Exit(1)
	as.Kill(9)
	m.Sleep(5 * time.Second)
	slow.Exit(1)
	build.Exit(2)
	m.Miss(engine.LossRingFull, 3)
	m.Push(enginetest.Raw{Kind: engine.KindExit, PID: 99, Time: as.State.Task.Start + uint64(6*time.Second)})
	m.Push(enginetest.Raw{Kind: engine.KindExit, PID: 98, Time: as.State.Task.Start + uint64(6*time.Second),
		Task: engine.Task{PPID: 97, Known: quark.SetOf(quark.FieldPPID)}})
	for p, i := other, 0; i < maxDepth+3; i++ {
		p = p.Fork()
		p.SetComm("deep")
	}
	return m
}

// asTree returns the family's events as a tree.
func asTree(t *testing.T, height int) (out []byte) {
	t.Helper()
	columns, err := line.Parse(treeColumns)
	if err != nil {
		t.Fatal(err)
	}
	q, err := quark.New(family(), quark.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	s := &screen{fd: -1, Printer: line.New(line.Options{Columns: columns, Clock: q.Clock(), Zone: time.UTC})}
	s.SetSize(90, height)
	l := &treePrinter{screen: s, q: q}
	for ev, err := range q.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		out = l.Append(out, ev)
	}
	return out
}

func TestLives(t *testing.T) { golden.Compare(t, "testdata/lives.golden", asTree(t, 40)) }

// Each page repeats the ancestors, followed by at least one line.
func TestLivesOnPages(t *testing.T) {
	for height := 5; height < 12; height++ {
		out := strings.Split(strings.TrimSpace(string(asTree(t, height))), "\n")
		for i, s := range out[1:] {
			above := out[i]
			if strings.HasPrefix(above, "TIME") && !strings.HasPrefix(s, "--") && !strings.Contains(s, "***") && !strings.Contains(s, " 99 ") {
				t.Errorf("height %d: got %q below a heading", height, s)
			}
			if strings.HasPrefix(above, "--") && strings.HasPrefix(s, "TIME") {
				t.Errorf("height %d: got a heading below %q", height, above)
			}
		}
	}
}
