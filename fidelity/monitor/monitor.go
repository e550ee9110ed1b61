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
	// Package is the Debian package that has the program.
	Package string
	// Programs are the names that the program may have, the first one that is found is taken.
	Programs []string
	// Needs are programs of the package that Arguments name.
	Needs []string
	// Arguments follow the program's name. "{}" stands for the file of File.
	Arguments []string
	// Environment has further variables, as NAME=value.
	Environment []string

	// Terminal lets it print to a terminal: a program that keeps lines back in a buffer if its
	// output is a pipe does not do so there.
	Terminal bool
	// Tracefs mounts tracefs and debugfs where the program looks for them, for it alone.
	Tracefs bool
	// File lets it write to a file, which is read as it grows. The file has the place of its
	// standard output.
	File bool
	// Record is the size of its records; 0: it prints lines.
	Record int
	// Accounting says that there is no program: the kernel writes records of acct(5).
	Accounting bool
	// Version are the arguments that let its program print its version, none if it can't.
	Version []string
	// Silent says that it does not count what it loses.
	Silent bool
	// GuestOnly is why the program is run in guests only.
	GuestOnly string

	// Table is what its output can say, and Foreign how exact that is.
	Table   engine.CapabilityTable
	Foreign score.Tolerance
	// Threads says that it reports threads, as such.
	Threads bool
	// Apart says that it changes what others see of the processes, so that it has performances
	// of its own. Traces says that it traces them, as a debugger does: those that want a tracer
	// themselves cannot be performed.
	Apart, Traces bool

	// Blocks says that the processes that it watches wait for it if it does not keep up.
	Blocks bool

	// Decoder returns the decoder of a new run.
	Decoder func() Decoder
}

// Decoder turns what a monitor prints into events. It keeps what earlier lines said where one line
// alone does not say all. An error says what of a line makes no sense; the next line is decoded.
type Decoder interface {
	// Decode decodes a line without its end, which came at a time of CLOCK_MONOTONIC.
	Decode(line []byte, at uint64, to *Output) error
}

// Output is what a decoder makes of a line.
type Output struct {
	Events []*engine.Event
	// Lost is how many events the monitor says that it lost, and Uncounted how often it said
	// that it lost some without a number.
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

// setUser sets the real and the effective user id.
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

// realOnly is the form of ids of a monitor that prints the real one only.
func realOnly(f engine.Field, text string) string {
	if f == engine.FieldUIDs || f == engine.FieldGIDs {
		real, _, _ := strings.Cut(text, " ")
		return real + " " + real
	}
	return text
}

// claim is a field of a table.
type claim struct {
	field engine.Field
	at    engine.Events
	via   string
}

// Events at which monitors bring fields.
const (
	atFork = engine.EventFork
	atExec = engine.EventExec
	atExit = engine.EventExit
	atLife = atFork | atExec | atExit
)

// table makes a capability table: by kind how its events are reported, and the fields. A field may
// be missing in any event.
func table(kinds map[engine.Kind]string, fields []claim, notes ...string) (t engine.CapabilityTable) {
	for k := range t.Kinds {
		t.Kinds[k].Via = "not printed"
	}
	for k, via := range kinds {
		t.Kinds[k] = engine.Capability{Origin: engine.OriginKernel, Via: via}
	}
	for f := range t.Fields {
		t.Fields[f].Via = "not printed"
	}
	for _, c := range fields {
		t.Fields[c.field] = engine.Capability{Origin: engine.OriginKernel, At: c.at, Partial: c.at, Via: c.via}
	}
	t.Notes = notes
	return t
}

// All returns the monitors that are known, without those of a format.
func All() []*Monitor {
	return []*Monitor{forkstat(), execsnoop(), exitsnoop(), bpftrace(), perf(), strace(), acct(), audit()}
}

// Find returns the monitor of that name.
func Find(name string) (*Monitor, error) {
	var names []string
	for _, m := range All() {
		if m.Name == name {
			return m, nil
		}
		names = append(names, m.Name)
	}
	return nil, fmt.Errorf("no monitor %q: there are %s, and --command runs any other", name, strings.Join(names, ", "))
}

// PackagePrograms returns the names of the programs of its package that the image of guests has:
// those that it is run by, of which a release has one, and those that are named in its arguments.
func (m *Monitor) PackagePrograms() []string {
	switch {
	case m.Package == "":
		return nil
	case len(m.Needs) > 0:
		return m.Needs
	}
	return m.Programs
}

// Available returns why the monitor can't be run here, nil if its program is installed.
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
		return nil, fmt.Errorf("run in guests only (make fidelity-matrix MONITORS=%s): %s", m.Name, m.GuestOnly)
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

// split returns what cuts its output into lines or records.
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

// lastKind returns the kind of event that shows that all of a short life has come: the last one of
// a life that is reported.
func (m *Monitor) lastKind() engine.Events {
	for _, k := range slices.Backward([]engine.Kind{engine.KindFork, engine.KindExec, engine.KindExit}) {
		if m.Table.Kinds[k].Origin != engine.OriginNone {
			return k.Events()
		}
	}
	return 0
}
