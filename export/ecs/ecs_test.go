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
		out = append(e.Append(out, ev), '\n')
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

// lives returns the documents of a short process, of a user's shell with a privileged program, of
// failed execs and of lost events.
func lives(t *testing.T) []byte {
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
	return documents(t, m, quark.Options{FailedExecs: true})
}

// A known value is included even if empty, and the current parent in addition to the one that
// forked the process.
func TestKnownValues(t *testing.T) {
	m := enginetest.NewMachine()
	shell := m.Running("/bin/sh")
	m.Sleep(2 * time.Second)
	child := shell.Fork().SetComm("")
	m.Sleep(2 * time.Second)
	child.State.Task.PPID = 1
	child.ExecFails("", 2).Exit(0)
	all := bytes.Split(bytes.TrimSpace(documents(t, m, quark.Options{FailedExecs: true})), []byte("\n"))
	var d struct {
		Process struct {
			Name   *string
			Parent struct{ PID uint32 }
		}
		Quark struct {
			PPID *uint32
			Path *string `json:"exec_failed_path"`
		}
	}
	for _, line := range all[len(all)-2:] { // the failed exec and the end
		if err := json.Unmarshal(line, &d); err != nil {
			t.Fatal(err)
		}
	}
	if d.Process.Name == nil || *d.Process.Name != "" || d.Quark.Path == nil || *d.Quark.Path != "" ||
		d.Process.Parent.PID != shell.State.PID || d.Quark.PPID == nil || *d.Quark.PPID != 1 {
		t.Errorf("%s", all[len(all)-2:])
	}
}

// The rules that let an event pass and the tags of its process have fields of the schema.
func TestRules(t *testing.T) {
	m := enginetest.NewMachine()
	m.Running("/bin/bash").Fork().Exec("/usr/bin/id").Exit(0)
	where, err := quark.ParseRules("tag shell if exe == bash\nbelow-shell: pass if exec and tag == shell\ndrop on any")
	if err != nil {
		t.Fatal(err)
	}
	all := string(documents(t, m, quark.Options{Where: where}))
	for _, want := range []string{`"rule":{"name":["below-shell"]}`, `"tags":["shell"]`} {
		if !strings.Contains(all, want) {
			t.Errorf("no %s in\n%s", want, all)
		}
	}
}

// A document has the bytes of a text that is not UTF-8.
func TestBytes(t *testing.T) {
	m := enginetest.NewMachine()
	p := m.Running("/bin/sh").Fork()
	p.State.Cgroup, p.State.Cwd = []byte("/a\xff"), []byte("/b\xff")
	p.Exec("/bin/c\xff", "d\xff").SetComm("e\xff").Exit(0)
	all := bytes.Split(bytes.TrimSpace(documents(t, m, quark.Options{})), []byte("\n"))
	var d struct {
		Quark struct {
			Bytes map[string][]byte `json:"bytes_b64"`
		}
	}
	if err := json.Unmarshal(all[len(all)-1], &d); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"cgroup": "/a\xff", "working_directory": "/b\xff", "executable": "/bin/c\xff",
		"command_line": "/bin/c\xff d\xff", "name": "e\xff"} {
		if got := string(d.Quark.Bytes[name]); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestDocuments(t *testing.T) {
	var pretty bytes.Buffer
	for line := range bytes.Lines(lives(t)) {
		if err := json.Indent(&pretty, bytes.TrimSpace(line), "", "  "); err != nil {
			t.Fatal(err)
		}
		pretty.WriteByte('\n')
	}
	golden.Compare(t, "testdata/documents.golden", pretty.Bytes())
}

// The schema lists the expected types of events of each category, and consumers reject others. For
// processes there are five, which do not include "error".
func TestTypesAreOfTheCategory(t *testing.T) {
	ofProcesses := []string{"access", "change", "end", "info", "start"}
	seen := make(map[string]bool)
	for line := range bytes.Lines(lives(t)) {
		var d struct {
			Event struct {
				Category, Type []string
				Action         string
			}
		}
		if err := json.Unmarshal(line, &d); err != nil {
			t.Fatal(err)
		}
		seen[d.Event.Action] = true
		for _, kind := range d.Event.Type {
			if slices.Contains(d.Event.Category, "process") && !slices.Contains(ofProcesses, kind) {
				t.Errorf("%s has the type %s, which the schema does not expect of a process", d.Event.Action, kind)
			}
		}
	}
	if !seen["process-exec-failed"] || !seen["process-existing"] {
		t.Errorf("no failed exec, or no process of the start, in %v", seen)
	}
}

// All members outside of quark are in the schema, for the events of each backend on each kernel.
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
			t.Errorf("%s: got %d documents", file, n)
		}
	}
	for name := range seen {
		if !slices.Contains(known, name) && !strings.HasPrefix(name, "quark.") {
			t.Errorf("%s is not a field of the schema", name)
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
