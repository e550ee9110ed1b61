//go:build linux

package procpoll

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
)

// Source is an [engine.Source] that reads /proc.
type Source struct {
	proc  fs.FS
	every uint64 // interval in nanoseconds
	known map[identity]process
	read  uint64 // when the last read began, 0 after Close
	base  uint64 // tasks that the kernel had created by Open
	found uint64 // tasks found since Open
	stats engine.SourceStats
}

// identity distinguishes processes with the same pid.
type identity struct {
	pid   uint32
	start uint64 // CLOCK_BOOTTIME in nanoseconds, in steps of [engine.ProcStartUnit]
}

// process has the values of one read of /proc/PID/stat, so that all values belong to one process.
type process struct {
	identity
	ppid, pgid, sid uint32
	threads         uint64
	executed        bool // whether it executed a file since its fork
	comm            []byte
}

// Open returns a source that reads proc, os.DirFS("/proc") or a test's tree, at an interval.
func Open(proc fs.FS, interval time.Duration) (*Source, error) {
	s := &Source{proc: proc, every: uint64(interval), known: make(map[identity]process), read: monotonic()}
	list, err := s.list()
	if err != nil {
		return nil, err
	}
	for _, p := range list {
		s.known[p.identity] = p
	}
	s.base, err = s.tasks()
	return s, err
}

func monotonic() uint64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // fails only for unknown clocks
	return uint64(ts.Nano())
}

// Name is "procpoll".
func (s *Source) Name() string { return "procpoll" }

// FD returns -1: no descriptor reports new processes, so the engine calls Populate at intervals.
func (s *Source) FD() int { return -1 }

// Arm returns true: there are never queued events that Populate must read.
func (s *Source) Arm(bool) bool { return true }

// Finish makes each call of Populate read /proc, because the queue ends.
func (s *Source) Finish() { s.every = 0 }

// Close drops all state. A kernel source detaches here.
func (s *Source) Close() error {
	s.known, s.read = nil, 0
	return nil
}

// Stats returns the counters: produced events were delivered or lost.
func (s *Source) Stats() (engine.SourceStats, error) { return s.stats, nil }

// Capabilities lists the reported kinds and fields, and the reasons for missing ones.
func (s *Source) Capabilities() *engine.CapabilityTable {
	t := new(engine.CapabilityTable)
	for k, via := range map[engine.Kind]string{
		engine.KindFork: "a new entry in /proc",
		engine.KindExec: "PF_FORKNOEXEC in /proc/PID/stat: the first exec of a process",
		engine.KindExit: "a removed entry, without the exit status",
		engine.KindGap:  "processes in /proc/stat: created tasks that were not seen, including threads",
	} {
		t.Kinds[k] = engine.Capability{Origin: engine.OriginProc, Via: via, At: k.Events()}
	}
	t.Kinds[engine.KindExec].Partial = engine.EventExec // only the first EXEC is found
	for f := range engine.Field(engine.NumFields) {
		t.Fields[f].Via = "not read"
		if fields.Has(f) {
			t.Fields[f] = engine.Capability{Origin: engine.OriginProc, Via: "/proc/PID/stat", At: engine.EventFork | engine.EventExec | engine.EventExit}
		}
	}
	return t
}

// Scan reports the existing processes to the engine. Without Scan they would have no names.
func (s *Source) Scan(f func(*engine.RawEvent) error) error {
	for _, p := range s.known {
		ev := &engine.RawEvent{Time: s.read}
		p.describe(ev)
		if err := f(ev); err != nil {
			return err
		}
	}
	return nil
}

// Populate reads /proc if the interval is over. Changes whose events do not fit into the sink are
// not stored, so that the next call finds them again.
func (s *Source) Populate(to engine.Sink) error {
	if s.read == 0 {
		return os.ErrClosed
	}
	began := monotonic()
	if began < s.read+s.every || to.Room() == 0 {
		return nil
	}
	made, err := s.tasks()
	list, err2 := s.list()
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	now, there := monotonic(), make(map[identity]bool)
	for _, p := range list {
		there[p.identity] = true
	}
	for id, p := range s.known {
		if !there[id] && s.insert(to, engine.KindExit, now, p) {
			delete(s.known, id)
		}
	}
	for _, p := range list {
		before, ok := s.known[p.identity]
		if !ok && !s.insert(to, engine.KindFork, now, p) {
			break
		}
		s.found += p.threads - min(before.threads, p.threads)
		p.executed = before.executed || p.executed && s.insert(to, engine.KindExec, now, p)
		s.known[p.identity] = p
	}
	if to.Room() > 0 { // if the sink is full, a found process may be missing in found
		s.countMissed(to, made-s.base, now)
		s.read = began
	}
	return nil
}

// insert delivers an event and reports whether there was room for it.
func (s *Source) insert(to engine.Sink, kind engine.Kind, now uint64, p process) bool {
	if to.Room() == 0 {
		return false
	}
	ev := to.Reserve()
	ev.Kind, ev.Time = kind, now
	p.describe(ev)
	to.Insert(ev)
	s.stats.Produced++
	return true
}

// describe sets the fields. All but the start time may have been different at the event, so they
// are cached.
func (p *process) describe(ev *engine.RawEvent) {
	ev.PID, ev.TID = p.pid, p.pid
	t := &ev.Task
	t.Start, t.StartUnit, t.PPID, t.PGID, t.SID = p.start, engine.ProcStartUnit, p.ppid, p.pgid, p.sid
	ev.Set(engine.FieldComm, p.comm)
	t.Known, t.Cached = fields, fields&^engine.FieldStart.Set()
}

// fields are the fields that describe sets.
const fields = engine.Fields(1<<engine.FieldStart | 1<<engine.FieldPPID | 1<<engine.FieldPGID | 1<<engine.FieldSID | 1<<engine.FieldComm)

// countMissed reports tasks as lost that the kernel has created since Open and that were never
// found in /proc. The gap begins at the last read, because no lost event is older.
func (s *Source) countMissed(to engine.Sink, made, now uint64) {
	missed := made - min(made, s.found+s.stats.Lost[engine.LossUnseen])
	if missed == 0 {
		return
	}
	s.stats.Lost[engine.LossUnseen] += missed
	s.stats.Produced += missed
	ev := to.Reserve()
	ev.SetGap(engine.Gap{Cause: engine.LossUnseen, CPU: engine.AllCPUs, From: s.read, To: now, Count: missed})
	to.Insert(ev)
}

// stat reads /proc/PID/stat.
func (s *Source) stat(pid uint32) (p process, err error) {
	b, err := fs.ReadFile(s.proc, fmt.Sprintf("%d/stat", pid))
	if err != nil {
		return p, err
	}
	// The name can contain parentheses.
	open, end := bytes.IndexByte(b, '('), bytes.LastIndex(b, []byte(") "))
	if open < 0 || end < open {
		return p, fmt.Errorf("/proc/%d/stat has no name", pid)
	}
	var flags, ticks uint64
	var skip string
	_, err = fmt.Sscan(string(b[end+2:]), &skip, &p.ppid, &p.pgid, &p.sid, &skip, &skip, &flags, &skip, &skip, &skip,
		&skip, &skip, &skip, &skip, &skip, &skip, &skip, &p.threads, &skip, &ticks)
	p.identity, p.comm = identity{pid, ticks * engine.ProcStartUnit}, b[open+1:end]
	p.executed = flags&0x40 == 0 // PF_FORKNOEXEC
	return p, err
}

// list returns the processes that exist, parents before their children.
func (s *Source) list() (list []process, err error) {
	entries, err := fs.ReadDir(s.proc, ".")
	for _, e := range entries {
		pid, err := strconv.ParseUint(e.Name(), 10, 32)
		if err != nil {
			continue
		}
		p, err := s.stat(uint32(pid))
		if err == nil {
			list = append(list, p)
		} else if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH) {
			return nil, err // the process may still exist
		}
	}
	slices.SortFunc(list, func(a, b process) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.pid, b.pid)) })
	return list, err
}

// tasks returns the number of processes and threads that the kernel has created since boot.
func (s *Source) tasks() (n uint64, err error) {
	b, err := fs.ReadFile(s.proc, "stat")
	if err == nil {
		_, after, _ := bytes.Cut(b, []byte("\nprocesses "))
		_, err = fmt.Sscan(string(after), &n)
	}
	return n, err
}
