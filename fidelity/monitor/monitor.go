package monitor

import (
	"bufio"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/fidelity/score"
)

// Monitor is a program that watches processes.
type Monitor struct {
	Name string
	// Package is the Debian package of the program.
	Package string
	// Programs are possible names of the program; the first one found is used.
	Programs []string
	// Needs are the other programs of the package that Arguments use.
	Needs []string
	// Arguments follow the program's name. "{}" stands for the file of File.
	Arguments []string
	// Environment has additional variables, as NAME=value.
	Environment []string

	// Terminal runs the program on a terminal, because some programs buffer output to a pipe.
	Terminal bool
	// Tracefs mounts tracefs and debugfs where the program expects them, visible only to it.
	Tracefs bool
	// File lets the program write to a file instead of its standard output. The file is read as
	// it grows.
	File bool
	// Record is the size of the records of the output. Zero means lines.
	Record int
	// Accounting is set if, instead of a program, the kernel writes records of acct(5).
	Accounting bool
	// Version are the arguments to print the version; none if the program has no such option.
	Version []string
	// Silent is set if the program does not count lost events.
	Silent bool
	// GuestOnly is the reason why the program runs in guests only, and on machines for tests.
	GuestOnly string

	// Table lists the fields of the output, Foreign describes their precision.
	Table   engine.CapabilityTable
	Foreign score.Tolerance
	// Threads is set if the program reports events of single threads.
	Threads bool
	// Apart is set if the program changes what others see of the processes; it then runs alone.
	// Traces is set if it ptraces the processes like a debugger; scenarios with their own
	// tracer then cannot run.
	Apart, Traces bool

	// Blocks is set if the watched processes wait for a slow monitor.
	Blocks bool

	// Decoder returns the decoder of a new run.
	Decoder func() Decoder
}

// Decoder turns the output of a monitor into events. It may keep state between lines. An error
// describes an invalid line; decoding continues with the next line.
type Decoder interface {
	// Decode decodes a line without its end. at is the arrival of the line, in CLOCK_MONOTONIC.
	Decode(line []byte, at uint64, to *Output) error
}

// Output is the result of decoding a line.
type Output struct {
	Events []*engine.Event
	// Lost is the number of lost events that the monitor reports, and Uncounted the number of
	// its reports without a figure.
	Lost, Uncounted uint64
}

// add appends an event of a process and returns the process.
func (o *Output) add(kind engine.Kind, pid uint32, at uint64) (*engine.Event, *engine.Process) {
	p := &engine.Process{PID: pid}
	ev := &engine.Event{Events: kind.Events(), Time: at, TID: pid, CPU: engine.AllCPUs, Process: p}
	o.Events = append(o.Events, ev)
	return ev, p
}

// setExit adds the wait status to the event of an end.
func setExit(ev *engine.Event, status int32) {
	p := ev.Process
	p.Known = p.Known.With(engine.FieldExit)
	p.Exited = true
	p.Task.Exit = engine.Exit{WaitStatus: status, Time: ev.Time}
}

// setUser sets the real and the effective user ids.
func setUser(p *engine.Process, real, effective uint32) {
	p.Known = p.Known.With(engine.FieldUIDs)
	p.Cred.UID, p.Cred.EUID = real, effective
}

func setParent(p *engine.Process, ppid uint32) {
	p.Known = p.Known.With(engine.FieldPPID)
	p.PPID = ppid
}

func setComm(p *engine.Process, name string) {
	p.Known = p.Known.With(engine.FieldComm)
	p.Comm = name
}

// realOnly formats ids for a monitor that prints only the real id.
func realOnly(f engine.Field, text string) string {
	if f == engine.FieldUIDs || f == engine.FieldGIDs {
		real, _, _ := strings.Cut(text, " ")
		return real + " " + real
	}
	return text
}

// claim is a field of a capability table.
type claim struct {
	field engine.Field
	at    engine.Events
	via   string
}

// Events with which monitors report fields.
const (
	atFork = engine.EventFork
	atExec = engine.EventExec
	atExit = engine.EventExit
	atLife = atFork | atExec | atExit
)

// table makes a capability table of kinds, with their remarks, and fields. Each field may be
// missing in any event.
func table(kinds map[engine.Kind]string, fields []claim, notes ...string) (t engine.CapabilityTable) {
	for k := range t.Kinds {
		t.Kinds[k].Via = "not printed"
	}
	for k, via := range kinds {
		t.Kinds[k] = engine.Capability{Origin: engine.OriginKernel, Via: via}
	}
	t.Kinds[engine.KindIDChange].Omits = engine.OmitPGID
	for f := range t.Fields {
		t.Fields[f].Via = "not printed"
	}
	for _, c := range fields {
		t.Fields[c.field] = engine.Capability{Origin: engine.OriginKernel, At: c.at, Partial: c.at, Via: c.via}
	}
	t.Notes = notes
	return t
}

// All returns the built-in monitors.
func All() []*Monitor {
	return []*Monitor{forkstat(), execsnoop(), exitsnoop(), bpftrace(), perf(), strace(), acct(), audit()}
}

// Find returns the monitor with this name.
func Find(name string) (*Monitor, error) {
	var names []string
	for _, m := range All() {
		if m.Name == name {
			return m, nil
		}
		names = append(names, m.Name)
	}
	return nil, fmt.Errorf("unknown monitor %q: use one of %s, or --command", name, strings.Join(names, ", "))
}

// Available returns an error if the monitor can't run here, nil if its program is installed.
func (m *Monitor) Available() error {
	if m.Accounting {
		return accountingElsewhere()
	}
	_, err := m.command("")
	return err
}

// command returns the command line with the program's path.
func (m *Monitor) command(file string) (list []string, err error) {
	if m.GuestOnly != "" && !scenario.InGuest() {
		return nil, fmt.Errorf("runs only on a machine for tests (QUARK_INITRAMFS=1): %s", m.GuestOnly)
	}
	programs, missing := m.Programs, strings.Join(m.Programs, " or ")
	for _, name := range m.Needs {
		if _, err := exec.LookPath(name); err != nil {
			programs, missing = nil, name
		}
	}
	for _, name := range programs {
		if path, err := exec.LookPath(name); err == nil {
			list = append([]string{path}, m.Arguments...)
			for i, a := range list {
				list[i] = strings.ReplaceAll(a, "{}", file)
			}
			return list, nil
		}
	}
	from := "its program"
	if m.Package != "" {
		from = "apt-get install " + m.Package
	}
	return nil, fmt.Errorf("%s is not installed: %s", missing, from)
}

// split returns the function that splits the output into lines or records.
func (m *Monitor) split() bufio.SplitFunc {
	if m.Record == 0 {
		return bufio.ScanLines
	}
	return func(data []byte, _ bool) (int, []byte, error) {
		if len(data) < m.Record {
			return 0, nil, nil
		}
		return m.Record, data[:m.Record], nil
	}
}

// lastKind returns the last kind of event that the monitor reports for a process.
func (m *Monitor) lastKind() engine.Events {
	for _, k := range slices.Backward([]engine.Kind{engine.KindFork, engine.KindExec, engine.KindExit}) {
		if m.Table.Kinds[k].Origin != engine.OriginNone {
			return k.Events()
		}
	}
	return 0
}
