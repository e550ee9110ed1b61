package scenario

import (
	"cmp"
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/script"
	"github.com/quark-linux/quark/fidelity/truth"
	bare "github.com/quark-linux/quark/internal/barefork"
)

const filePrefix = "file:"

// FromFile returns the scenario of a script file (see package script), which is read when the
// scenario runs. The path must not contain a semicolon. The name is "file:" and the path.
func FromFile(path string) Scenario {
	return Scenario{Name: filePrefix + path, Doc: "the script " + path, run: func(d *director) {
		text, err := os.ReadFile(path)
		d.must(err)
		d.runProcesses(d.parse(path, text), func(*process, ended) {})
	}}
}

func (d *director) parse(name string, text []byte) []*script.Process {
	s, err := script.Parse(string(text))
	if err != nil {
		d.fail(fmt.Errorf("%s: %w", name, err))
	}
	return s.Processes
}

//go:embed scripts
var scripts embed.FS

// ownScript runs the processes of a scenario's script one after the other. Each call must succeed.
func (d *director) ownScript(name string) {
	text, err := scripts.ReadFile("scripts/" + name + ".script")
	d.must(err)
	for _, l := range d.parse(name, text) {
		d.runProcesses([]*script.Process{l}, func(p *process, e ended) {
			d.check(p)
			d.wantCode(e.status, p.code)
		})
	}
}

func parseFile(name string) (s Scenario, ok bool) {
	path, ok := strings.CutPrefix(name, filePrefix)
	return FromFile(path), ok && path != ""
}

type play struct {
	*director
	ready   *gate // a paused process writes its number in pauses
	pauses  []*pausePoint
	waits   []wait
	cgroups []string // directories of the cgroups that it has created
}

// pausePoint is a place in a script where its process waits for the director.
type pausePoint struct {
	*process
	goOn  *gate
	trace bool // the director attaches as a tracer and detaches
	hides engine.Fields
}

// wait is a waitid(2) of a process for a child.
type wait struct {
	*process
	call int // the next call is a stamp
}

type reaped struct {
	pid int
	ended
}

// runProcesses starts the processes of a script, serves paused ones, and records all events at the
// end. It calls check with each process and its end.
func (d *director) runProcesses(list []*script.Process, check func(*process, ended)) {
	f := &play{director: d, ready: d.inherited()}
	defer f.removeCgroups()
	var first []*process
	own := [3]string{truth.StreamOf(0), truth.StreamOf(1), truth.StreamOf(2)}
	for _, l := range list {
		first = append(first, f.listCalls(l, &actor{stdio: own}, false, nil))
	}
	for _, p := range first {
		p.opts.Self = p.self
		d.start(p)
	}
	all := make(chan []reaped, 1)
	go func() {
		all <- reapAll()
		unix.Write(f.ready.w, []byte{0xff, 0xff, 0xff, 0xff})
	}()
	for f.servePaused(first) {
	}
	ends := append(<-all, f.waited()...)
	slices.SortStableFunc(ends, func(a, b reaped) int { return cmp.Compare(a.at, b.at) })
	endOf := f.matchEnds(first, ends)
	for _, p := range first {
		d.recordHistory(p, endOf[p], func(c *process) ended { return endOf[c] })
	}
	for p, e := range endOf {
		check(p, e)
		if at := p.brokeAt(e.status); at != 0 {
			d.record(truth.Record{Op: truth.Now, PID: p.pid, Latest: at, Own: true, State: p.broken})
		}
		if sig := e.status.Signal(); e.status.Signaled() && slices.Contains(dumping, sig) {
			d.record(truth.Record{Op: truth.Core, PID: p.pid, Earliest: p.lastStamp(), Latest: e.at, Optional: !e.status.CoreDump(), Compat: e.status.Signal() == unix.SIGSYS})
		}
	}
	for _, p := range first {
		p.run.Free()
	}
}

// dumping are the signals whose default action is a core dump.
var dumping = []unix.Signal{unix.SIGQUIT, unix.SIGILL, unix.SIGTRAP, unix.SIGABRT, unix.SIGBUS, unix.SIGFPE, unix.SIGSEGV, unix.SIGSYS, unix.SIGXCPU, unix.SIGXFSZ}

// inherited returns a gate that programs inherit.
func (d *director) inherited() *gate {
	g := d.gate()
	for _, fd := range []int{g.r, g.w} {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0)
		d.must(err)
	}
	return g
}

// reapAll waits for children until none is left. Orphans become children before their parent ends.
func reapAll() (list []reaped) {
	for {
		var status unix.WaitStatus
		var ru unix.Rusage
		pid, err := unix.Wait4(-1, &status, unix.WALL, &ru)
		switch {
		case err == unix.ECHILD:
			return list
		case err == nil && !status.Stopped():
			e := ended{status: status, at: truth.Clock()}
			e.used.Add(&ru)
			list = append(list, reaped{pid, e})
		}
	}
}

// servePaused lets the next paused process continue. It returns false when all processes have
// ended.
func (f *play) servePaused(first []*process) bool {
	b := make([]byte, 4)
	for {
		n, err := unix.Read(f.ready.r, b)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		f.must(err)
		if n != 4 {
			f.fail(io.ErrUnexpectedEOF)
		}
		break
	}
	number := int(binary.NativeEndian.Uint32(b))
	if number >= len(f.pauses) {
		return false
	}
	s := f.pauses[number]
	for _, p := range first {
		p.readIDs()
	}
	// The state is uncertain if the process has threads or its parent may kill it.
	if !s.killable && !s.hasThreads() && s.pid != 0 {
		if s.trace {
			f.tracePaused(s.pid)
		}
		if got, now, err := f.proc.Read(itoa(s.pid)); err == nil && got == s.pid {
			// The fork's record has closer bounds.
			now.Forget(s.hides | engine.FieldStart.Set())
			f.record(truth.Record{Op: truth.Now, PID: s.pid, Latest: truth.Clock(), State: now})
			f.awaitReaders(s.pid)
		}
	}
	s.goOn.open()
	return true
}

// tracePaused attaches to a waiting process, and detaches once it is stopped.
func (f *play) tracePaused(pid int) {
	if f.trace(pid, unix.PTRACE_SEIZE) != nil {
		return
	}
	f.must(ptraceCall(unix.PTRACE_INTERRUPT, pid, 0))
	await(func() bool { return f.trace(pid, unix.PTRACE_DETACH) == nil })
}

// waited returns the children for which a process of the script has waited. The result of such a
// wait is valid even if a signal ended the process before the call returned.
func (f *play) waited() (list []reaped) {
	for _, w := range f.waits {
		info := w.run.Bytes(w.number, w.call, 2, infoStatus+4)
		number := func(at int) int { return int(binary.NativeEndian.Uint32(info[at:])) }
		if number(infoPID) == 0 {
			continue
		}
		status := unix.WaitStatus(number(infoStatus))
		switch number(infoCode) {
		case 1: // CLD_EXITED
			status <<= 8
		case 3: // CLD_DUMPED
			status |= 0x80
		}
		e := ended{status: status, at: truth.Clock()}
		if at, ok := w.run.Stamp(w.number, w.call+1); ok {
			e.at = at
		}
		list = append(list, reaped{number(infoPID), e})
	}
	return list
}

// matchEnds finds the end of each process. Processes with the same pid ended in the order of their
// start.
func (f *play) matchEnds(first []*process, ends []reaped) map[*process]ended {
	var started []*process
	begun := make(map[*process]uint64) // earliest time of its start
	var gather func(*process)
	gather = func(p *process) {
		if !p.thread && p.pid != 0 {
			started = append(started, p)
		}
		for _, s := range p.steps {
			if s.other != 0 {
				begun[p.others[s.other-1]], _ = p.run.Stamp(p.number, s.before)
			}
		}
		for _, o := range p.others {
			gather(o)
		}
	}
	for _, p := range first {
		p.readIDs()
		gather(p)
	}
	slices.SortStableFunc(started, func(a, b *process) int { return cmp.Compare(begun[a], begun[b]) })
	of := make(map[*process]ended)
	for _, p := range started {
		i := slices.IndexFunc(ends, func(e reaped) bool { return e.pid == p.pid })
		if i < 0 {
			f.fail(fmt.Errorf("the end of process %d is unknown", p.pid))
		}
		of[p] = ends[i].ended
		ends = slices.Delete(ends, i, i+1)
	}
	return of
}

// cgroup is a cgroup that a script has created.
type cgroup struct {
	path      string
	fd, procs int // of the directory, and of cgroup.procs
}

// newCgroup creates a cgroup, in which no process is yet.
func (f *play) newCgroup() *cgroup {
	dir, path := f.makeCgroup(len(f.cgroups))
	f.cgroups = append(f.cgroups, dir)
	fd := f.keep(unix.Open(dir, unix.O_RDONLY, 0))
	return &cgroup{path, fd, f.keep(unix.Open(filepath.Join(dir, "cgroup.procs"), unix.O_WRONLY, 0))}
}

func (f *play) removeCgroups() {
	if len(f.cgroups) > 0 {
		f.endAll()
	}
	for _, dir := range f.cgroups {
		os.Remove(dir)
	}
}

// linked reads a link below /proc/self.
func linked(p *process, field engine.Field, name string) probe {
	const most = 512
	p.call("readlinkat", unix.SYS_READLINKAT, procFD, "self/"+name, bare.Buffer(most), most)
	return probe{field.Set(), p.Len() - 1, func(p *process, call, n int) (s truth.State) {
		if text := string(p.run.Bytes(p.number, call, 2, n)); n < most {
			if kind, ok := strings.CutPrefix(name, "ns/"); ok {
				text = strings.Trim(text, kind+":[]")
			}
			s.Set(field, truth.PathOf(text))
		}
		return s
	}}
}

// named reads the comm.
func named(p *process) probe {
	p.call("prctl", unix.SYS_PRCTL, unix.PR_GET_NAME, bare.Buffer(16))
	return probe{engine.FieldComm.Set(), p.Len() - 1, func(p *process, call, _ int) (s truth.State) {
		name, _, _ := strings.Cut(string(p.run.Bytes(p.number, call, 1, 16)), "\x00")
		s.Set(engine.FieldComm, name)
		return s
	}}
}

const overflowID = 65534 // shown for ids without a mapping in a user namespace

// ids reads the user or group ids.
func ids(p *process, which engine.IDChange) probe {
	number := uintptr(unix.SYS_GETRESUID)
	if which == engine.ChangedGID {
		number = unix.SYS_GETRESGID
	}
	p.call("getresuid", number, bare.Buffer(4), bare.Buffer(4), bare.Buffer(4))
	empty := idRecord(which, 0, 0, 0).State
	return probe{empty.Known, p.Len() - 1, func(p *process, call, _ int) truth.State {
		var id [3]int
		for i := range id {
			id[i] = int(binary.NativeEndian.Uint32(p.run.Bytes(p.number, call, i, 4)))
		}
		if slices.Contains(id[:], overflowID) {
			return truth.State{} // another user namespace
		}
		return idRecord(which, id[0], id[1], id[2]).State
	}}
}
