package enginetest

import (
	"bytes"
	"fmt"
	"io"
	"path"
	"time"

	"github.com/quark-linux/quark/engine"
)

// Machine is a source with the events of simulated processes. The processes' methods create the
// events. Each event is a millisecond after the previous one, and has the values that a backend
// would report.
//
// A queue on a Machine uses the machine's time, so it joins events within its HoldTime, however
// fast the test is. The source ends when all events are delivered: create the events first, then
// read.
//
// Actions that are impossible in a kernel are mistakes of the test and panic: events of an exited
// process, a signal that does not exist, time that goes back.
type Machine struct {
	Source
	read      *Clock // the queue's time
	made      Clock  // time of the latest event
	first     []Raw  // processes that run before the first event
	processes []*Process
	ended     bool
}

// Process is a process of a Machine.
type Process struct {
	// State is the state that the process's next event reports. Change it to simulate changes
	// without an event, such as chdir(2). A field is known if State.Task.Known has it.
	State   Raw
	machine *Machine
	ended   bool
}

// step is the time between two events.
const step = time.Millisecond

// NewMachine returns a machine on which process 1, /sbin/init, runs.
func NewMachine() *Machine {
	m := &Machine{read: NewClock(), made: *NewClock()}
	m.Running("/sbin/init")
	return m
}

// Running adds a child of process 1 that runs before the first event, so a queue finds it at its
// start. It belongs to root and has its own session.
func (m *Machine) Running(file string, args ...string) *Process {
	p := m.add(Raw{Cwd: []byte("/"), Cgroup: []byte("/")})
	p.setImage(file, args)
	t := &p.State.Task
	t.PPID = min(1, p.State.PID-1)
	t.PGID, t.SID = p.State.PID, p.State.PID
	t.Start, t.StartUnit = uint64(p.State.PID), 1
	t.Known = engine.FieldsIDs | engine.SetOf(engine.FieldStart, engine.FieldPPID, engine.FieldPGID, engine.FieldSID, engine.FieldTTY)
	m.first = append(m.first, p.State)
	p.State.Exe, p.State.Args = nil, nil // set by an EXEC
	return p
}

// add adds a process with the next pid.
func (m *Machine) add(state Raw) *Process {
	state.PID = uint32(len(m.processes) + 1)
	p := &Process{State: state, machine: m}
	m.processes = append(m.processes, p)
	return p
}

// Sleep advances the time of the next event.
func (m *Machine) Sleep(d time.Duration) {
	if d < 0 {
		panic(fmt.Sprintf("enginetest: Sleep(%v): time does not go back", d))
	}
	m.made.Advance(d)
}

// Miss simulates the loss of n events: they are counted, and the stream has a gap.
func (m *Machine) Miss(cause engine.Loss, n uint64) {
	m.Lose(cause, n)
	from := m.made.Now() + 1
	m.made.Advance(step)
	gap := engine.Gap{Cause: cause, CPU: engine.AllCPUs, From: from, To: m.made.Now(), Count: n}
	m.Push(Raw{Kind: engine.KindGap, Time: gap.From, Gap: gap})
}

// mustLive panics if the process has ended.
func (p *Process) mustLive(kind engine.Kind) {
	if p.ended {
		panic(fmt.Sprintf("enginetest: %v of process %d, which has ended", kind, p.State.PID))
	}
}

// push creates an event of a kind from the process's current state. adjust, if not nil, changes the
// event.
func (p *Process) push(kind engine.Kind, adjust func(*Raw)) *Process {
	p.mustLive(kind)
	p.machine.made.Advance(step)
	r := p.State
	r.Kind, r.Time = kind, p.machine.made.Now()
	if adjust != nil {
		adjust(&r)
	}
	p.machine.Push(r)
	return p
}

// Fork creates a child and returns it.
func (p *Process) Fork() *Process {
	p.mustLive(engine.KindFork)
	c := p.machine.add(p.State)
	c.State.Task.PPID = p.State.PID
	c.State.Task.Start = p.machine.made.Now() + uint64(step)
	return c.push(engine.KindFork, func(r *Raw) { r.Creator = p.State.PID })
}

// Exec executes a file. Its path is also the first argument, before args. It returns p, as the
// methods below do.
func (p *Process) Exec(file string, args ...string) *Process {
	p.setImage(file, args)
	p.push(engine.KindExec, nil)
	p.State.Exe, p.State.Args = nil, nil
	return p
}

// ExecFails simulates an exec of a path that fails with an error number.
func (p *Process) ExecFails(path string, errno uint16) *Process {
	return p.push(engine.KindExecFailed, func(r *Raw) { r.Exe, r.Errno = []byte(path), errno })
}

func (p *Process) setImage(file string, args []string) {
	p.State.Exe, p.State.Args = []byte(file), append([]byte(file), 0)
	for _, arg := range args {
		p.State.Args = append(append(p.State.Args, arg...), 0)
	}
	p.setComm(path.Base(file))
}

func (p *Process) setComm(comm string) { p.State.Comm = bytes.Clone([]byte(comm)[:min(len(comm), 15)]) }

// SetComm changes the process's name, as prctl(2) does.
func (p *Process) SetComm(comm string) *Process {
	p.setComm(comm)
	return p.push(engine.KindSetProcTitle, nil)
}

// SetUID changes all three user ids, as setuid(2) does for root.
func (p *Process) SetUID(uid uint32) *Process {
	c := &p.State.Task.Cred
	c.UID, c.EUID, c.SUID = uid, uid, uid
	return p.pushChange(engine.ChangedUID)
}

// SetGID changes all three group ids, as setgid(2) does for root.
func (p *Process) SetGID(gid uint32) *Process {
	c := &p.State.Task.Cred
	c.GID, c.EGID, c.SGID = gid, gid, gid
	return p.pushChange(engine.ChangedGID)
}

// SetSID creates a session and a process group, as setsid(2) does.
func (p *Process) SetSID() *Process {
	p.State.Task.SID, p.State.Task.PGID = p.State.PID, p.State.PID
	return p.pushChange(engine.ChangedSID)
}

// SetMntNS enters a mount namespace, as setns(2) does.
func (p *Process) SetMntNS(inode uint32) *Process {
	old := engine.Namespaces{Mnt: p.State.Task.NS.Mnt}
	p.State.Task.NS.Mnt, p.State.Task.Known = inode, p.State.Task.Known.With(engine.FieldMntNS)
	return p.ChangeNS(engine.NSChange{Changed: engine.ChangedMnt, Old: old})
}

// ChangeNS reports a change of namespaces. State has the new ones.
func (p *Process) ChangeNS(c engine.NSChange) *Process {
	return p.push(engine.KindNSChange, func(r *Raw) { r.NSChange = c })
}

func (p *Process) pushChange(ids engine.IDChange) *Process {
	return p.push(engine.KindIDChange, func(r *Raw) { r.IDChange = ids })
}

// Exit ends the process with the low 8 bits of a code. Process 1 becomes the parent of its
// children.
func (p *Process) Exit(code int) *Process { return p.end(int32(code&0xff) << 8) }

// Kill ends the process by a signal, 1 to 64. Add 0x80 for a core dump.
func (p *Process) Kill(signal int) *Process {
	if s := signal &^ 0x80; s < 1 || s > 64 {
		panic(fmt.Sprintf("enginetest: Kill(%d): signals are 1 to 64", signal))
	}
	return p.end(int32(signal))
}

func (p *Process) end(status int32) *Process {
	p.mustLive(engine.KindExit)
	defer func() { p.ended = true }()
	for _, c := range p.machine.processes {
		if c.State.Task.PPID == p.State.PID {
			c.State.Task.PPID = 1
		}
	}
	return p.push(engine.KindExit, func(r *Raw) {
		r.Task.Exit = engine.Exit{WaitStatus: status, Time: r.Time}
		r.Task.Known = r.Task.Known.With(engine.FieldExit)
	})
}

// Clock implements engine.Timekeeper.
func (m *Machine) Clock() *engine.Clock { return m.read.Engine() }

// Scan implements engine.Scanner.
func (m *Machine) Scan(f func(*engine.RawEvent) error) error {
	for i := range m.first {
		r := new(engine.RawEvent)
		m.first[i].Fill(r)
		if err := f(r); err != nil {
			return err
		}
	}
	return nil
}

// Populate implements engine.Source. Each event becomes available at its time. io.EOF follows the
// last event.
func (m *Machine) Populate(to engine.Sink) error {
	if n, err := m.populate(to, m.read.now); err != nil || n > 0 {
		return err
	}
	if m.Queued() == 0 {
		m.ended = true
		return io.EOF
	}
	// Time stops once just before the next event, so that older events are delivered first.
	switch next := m.queue[m.head].Time; {
	case m.read.now+1 < next:
		m.read.now = next - 1
	case m.read.now < next:
		m.read.now = next
	}
	return nil
}

// Finish implements engine.Finisher: it moves the time to the last event.
func (m *Machine) Finish() { m.read.now = max(m.read.now, m.made.now) }

// Arm implements engine.Source: the next event is always available.
func (m *Machine) Arm(bool) bool { return m.ended }
