//go:build linux

package ecs_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine/enginetest"
	"github.com/quark-linux/quark/export/ecs"
	"github.com/quark-linux/quark/internal/golden"
)

// documents returns a line for each process of the start and each event.
func documents(t testing.TB, source quark.Source, o quark.Options) []byte {
	t.Helper()
	q, err := quark.New(source, o)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	e := ecs.NewEncoder(q)
	var out []byte
	add := func(ev *quark.Event) {
		if out, err = e.Append(out, ev); err != nil {
			t.Fatal(err)
		}
		out = append(out, '\n')
	}
	for p := range q.Processes() {
		add(&quark.Event{Process: p, TID: p.PID, Time: p.AsOf(), Wall: q.Clock().At(p.AsOf())})
	}
	if err := q.Drain(); err != nil {
		t.Fatal(err)
	}
	for !q.Drained() {
		switch ev, err := q.Get(); {
		case errors.Is(err, quark.ErrNothing):
			if err := q.Block(time.Second); err != nil {
				t.Fatal(err)
			}
		case err != nil:
			t.Fatal(err)
		default:
			add(ev)
		}
	}
	return out
}

// A short life, a shell of a user with a privileged program, what fails, what is lost.
func TestDocuments(t *testing.T) {
	m := enginetest.NewMachine()
	shell := m.Running("/bin/bash", "-l")
	shell.SetUID(1000)
	m.Sleep(2 * time.Second)
	shell.Fork().Exec("/usr/bin/id", "-u").Exit(0)
	shell.Fork().ExecFails("/usr/bin/no", 2).Exit(127)
	child := shell.Fork().Exec("/bin/sleep", "5")
	m.Sleep(2 * time.Second)
	m.Miss(quark.LossRingFull, 7)
	child.SetComm("wrong \xff").Kill(9)
	out := documents(t, m, quark.Options{FailedExecs: true})
	var pretty bytes.Buffer
	for line := range bytes.Lines(out) {
		if err := json.Indent(&pretty, bytes.TrimSpace(line), "", "  "); err != nil {
			t.Fatal(err)
		}
		pretty.WriteByte('\n')
	}
	golden.Compare(t, "testdata/documents.golden", pretty.Bytes())
}

// The members are those of the schema, but for those below quark, in what each backend reports on
// each kernel.
func TestFieldsAreOfTheSchema(t *testing.T) {
	list, err := os.ReadFile("testdata/fields.txt")
	if err != nil {
		t.Fatal(err)
	}
	known := strings.Fields(string(list))
	traces, err := filepath.Glob("../../engine/enginetest/testdata/*.trace")
	if err != nil || len(traces) == 0 {
		t.Fatal(traces, err)
	}
	seen := make(map[string]bool)
	for _, file := range traces {
		n := 0
		for line := range bytes.Lines(documents(t, enginetest.Trace(t, file), quark.Options{})) {
			var d map[string]any
			if err := json.Unmarshal(line, &d); err != nil {
				t.Fatalf("%s: %v: %s", file, err, line)
			}
			leaves(d, "", seen)
			n++
		}
		if n < 5 {
			t.Errorf("%s: %d documents", file, n)
		}
	}
	for name := range seen {
		if !slices.Contains(known, name) && !strings.HasPrefix(name, "quark.") {
			t.Errorf("%s is no field of the schema", name)
		}
	}
	for _, name := range []string{"@timestamp", "event.outcome", "process.args_count", "process.exit_code", "process.parent.pid", "user.id"} {
		if name = strings.ReplaceAll(name, ".parent.", "."); !seen[name] {
			t.Errorf("no document has %s", name)
		}
	}
}

// leaves notes the names of the members that are no objects. Relatives are processes, too.
func leaves(v map[string]any, path string, seen map[string]bool) {
	for name, member := range v {
		name = path + name
		switch name {
		case "process.parent", "process.session_leader", "process.group_leader", "process.entry_leader":
			name = "process"
		}
		if inner, ok := member.(map[string]any); ok {
			leaves(inner, name+".", seen)
			continue
		}
		seen[name] = true
	}
}

func BenchmarkAppend(b *testing.B) {
	m := enginetest.NewMachine()
	shell := m.Running("/bin/bash", "-l")
	m.Sleep(2 * time.Second)
	shell.Fork().Exec("/usr/bin/id", "-u").Exit(0)
	q, err := quark.New(m, quark.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer q.Close()
	q.Drain()
	ev, err := q.Get()
	for errors.Is(err, quark.ErrNothing) {
		q.Block(time.Second)
		ev, err = q.Get()
	}
	if err != nil {
		b.Fatal(err)
	}
	e, out := ecs.NewEncoder(q), []byte(nil)
	b.ReportAllocs()
	for b.Loop() {
		if out, err = e.Append(out[:0], ev); err != nil {
			b.Fatal(err)
		}
	}
}
