package procpoll

import (
	"cmp"
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/groupstatus"
	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/proctext"
)

// process is a process that was seen.
type process struct {
	start   uint64 // ns of CLOCK_BOOTTIME, of /proc: with the pid its identity
	memory  uint64 // address space of its image, 0 for unknown
	fixed   bool   // its addresses are not random
	threads uint32
	reading uint32 // number of the latest reading that has shown it
	fd      int32  // pidfd, or none
	image   int32  // descriptor of the address space, if the addresses are not random, or none
	forked  bool   // it has not executed
	ended   bool   // by its pidfd it is over
	told    bool   // so was its EXIT
}

// birth is a process that was first seen at a time.
type birth struct {
	pid      uint32
	start    uint64
	from, at uint64 // st is of between these
	st       procfs.Status
}

// first takes the processes that exist as known. It reads again if a task was made meanwhile, up to
// some times: one that is in neither the count nor the processes, or in both, would be counted as
// missed.
func (s *Source) first() error {
	const tries = 5
	for n := 1; ; n++ {
		s.forget()
		began, before, pids, err := s.list()
		if err != nil {
			return err
		}
		for _, pid := range pids {
			if st, start, err := s.status(pid); err == nil {
				s.learn(pid, start, &st)
				p := s.known[pid]
				p.told = st.Over() // nobody was told that it lived
				s.known[pid] = p
			}
		}
		after, err := s.count()
		if err != nil {
			return err
		}
		if before == after || n == tries {
			s.balance = balance{base: before, exact: [2]uint64{began, began}}
			break
		}
	}
	s.ended, s.due = s.now(), s.now()
	s.schedule()
	return nil
}

// list begins a reading: at this time, after the kernel had made so many tasks, there are these
// pids.
func (s *Source) list() (began, tasks uint64, pids []uint32, err error) {
	began = s.now()
	if tasks, err = s.count(); err == nil {
		pids, err = s.proc.PIDs()
	}
	return began, tasks, pids, err
}

// forget makes all processes unknown.
func (s *Source) forget() {
	for _, p := range s.known {
		s.closeAll(&p)
	}
	clear(s.known)
}

// closeAll closes the descriptors of a process.
func (s *Source) closeAll(p *process) {
	s.fds.close(p.fd)
	s.fds.close(p.image)
}

// learn makes a process known.
func (s *Source) learn(pid uint32, start uint64, st *procfs.Status) {
	p := process{start: start, threads: st.Threads, reading: s.reading, fd: none, image: none, forked: st.ForkNoExec}
	if s.fds != nil && !st.Kthread && !st.Over() {
		p.fd = s.fds.open(pid)
		if _, again, err := s.proc.Status(pid); p.fd != none && (err != nil || again != start) {
			s.fds.close(p.fd) // it may be of another process that has the number since
			p.fd = none
		}
	}
	s.note(pid, &p, st)
	s.known[pid] = p
}

// read reads /proc once. Its order matters: who is over by its pidfd is so in all that is read
// after that; who was made before the count was read and is in no directory entry is missed.
func (s *Source) read() error {
	s.cut = false
	s.reading++
	if s.fds != nil {
		s.fds.ended(s.end)
	}
	began, before, pids, err := s.list()
	if err != nil {
		return err
	}
	s.fresh = s.fresh[:0]
	for _, pid := range pids {
		s.look(pid)
	}
	slices.SortFunc(s.fresh, func(a, b birth) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.pid, b.pid))
	})
	for i := range s.fresh {
		s.born(&s.fresh[i])
	}
	for pid, p := range s.known {
		if p.reading != s.reading {
			s.gone(pid, &p)
		}
	}
	after, err := s.count()
	if err != nil {
		return err
	}
	if !s.cut { // else some of those that were found are not seen yet
		s.settle(before, after, began)
	}
	s.ended = s.now()
	return nil
}

// settle tells of what was missed.
func (s *Source) settle(before, after, began uint64) {
	missed, since := s.balance.settle(before, after, began)
	if missed == 0 {
		return
	}
	ev := s.to.Reserve()
	ev.SetGap(engine.Gap{Cause: engine.LossMissed, CPU: engine.AllCPUs, From: since, To: s.now(), Count: missed})
	s.to.Insert(ev)
}

// end notes that a process is over, by its pidfd.
func (s *Source) end(pid uint32) (fd int32) {
	p, ok := s.known[pid]
	if !ok {
		return none
	}
	p.ended = true
	s.known[pid] = p
	return p.fd
}

// look looks at a pid that has a directory entry.
func (s *Source) look(pid uint32) {
	from := s.now()
	st, start, err := s.status(pid)
	if err != nil {
		return
	}
	at := s.now() // after all that the status shows
	p, some := s.known[pid]
	switch {
	case some && p.start == start && (!p.ended || st.Over()):
		s.same(pid, &p, &st, at)
		return
	case some && !s.exit(pid, &p, s.startedBy(start, at)): // another process has the pid
		return
	}
	s.fresh = append(s.fresh, birth{pid, start, from, at, st})
}

// status reads the status of a process. The kernel takes the memory first and the flags later: in
// the middle of an exec a status can have the old image, and yet say that another was executed. So
// where that is new, the status is read again.
func (s *Source) status(pid uint32) (procfs.Status, uint64, error) {
	st, start, err := s.proc.Status(pid)
	if p, ok := s.known[pid]; err != nil || st.ForkNoExec || st.Kthread || ok && p.start == start && !p.forked {
		return st, start, err
	}
	return s.proc.Status(pid)
}

// same looks for what has changed of a process.
func (s *Source) same(pid uint32, p *process, st *procfs.Status, at uint64) {
	p.reading = s.reading
	if n := st.Threads; n > p.threads {
		s.balance.seen += uint64(n - p.threads)
	}
	p.threads = st.Threads
	// In the middle of an exec there is no image yet. There is none either if the exec has
	// failed when it was too late to go back, or the process has ended since.
	executed := st.Memory != 0 && !st.Kthread && (p.forked && !st.ForkNoExec || s.replaced(p, st))
	switch {
	case !executed:
		s.note(pid, p, st)
	case s.room():
		s.exec(pid, p.start, at)
		p.forked = false
		s.fds.close(p.image)
		p.image = none
		s.note(pid, p, st)
	}
	if st.Over() && !p.told && s.room() {
		p.told = true
		s.tellExit(pid, p, at, true)
	}
	s.known[pid] = *p
}

// note notes the image that a status has shown. Where addresses are not random it opens the address
// space, if that is still the one of the status.
func (s *Source) note(pid uint32, p *process, st *procfs.Status) {
	if st.Memory == 0 {
		return
	}
	p.memory, p.fixed = st.Memory, st.Fixed
	if !p.fixed || p.forked || p.image != none || s.fds == nil || s.fds.room <= 0 {
		return
	}
	fd, ok := s.proc.OpenImage(pid)
	if !ok {
		return
	}
	s.fds.room--
	p.image = fd
	if again, start, err := s.proc.Status(pid); err != nil || start != p.start || again.Memory != st.Memory {
		s.fds.close(p.image)
		p.image = none
	}
}

// replaced reports whether a status shows another image than the one that is noted. Where
// addresses are not random that is certain only if the noted one has no process any more.
func (s *Source) replaced(p *process, st *procfs.Status) bool {
	switch {
	case p.memory == 0 || p.memory == st.Memory:
		return false
	case p.fixed && st.Fixed:
		return p.image != none && !s.proc.ImageLives(p.image)
	}
	return true
}

// startedBy returns a time by which a process with a start time had started: the end of that
// tick. It is not before the latest reading, which has not shown the process, nor after the time
// at which this one has.
func (s *Source) startedBy(start, at uint64) uint64 {
	end := start + proctext.Tick
	return min(max(end-min(s.offset(), end), s.ended+1), at)
}

// born tells of a process that was first seen.
func (s *Source) born(b *birth) {
	// A process can have a FORK, an EXEC and an EXIT, of which a core was dumped.
	if !s.room() {
		return
	}
	isOne := s.watchYoung(b)
	ev := s.to.Reserve()
	ev.Kind, ev.PID, ev.TID, ev.Time = engine.KindFork, b.pid, b.pid, s.startedBy(b.start, b.at)
	executed := !b.st.ForkNoExec && !b.st.Kthread && b.st.Memory != 0
	var exec *engine.RawEvent
	read := ev
	if executed && s.shared.Reports(engine.EventExec) {
		exec = s.to.Reserve()
		exec.Kind, exec.PID, exec.TID, exec.Time = engine.KindExec, b.pid, b.pid, b.at
		read = exec
	}
	s.describe(read, b.start)
	if !isOne() {
		read.Task.Known &= engine.FieldStart.Set()
		read.Task.Carried, read.Task.Truncated = 0, 0
	}
	if read != ev {
		ev.Task = read.Task
		ev.Task.Known &= ofBirth
		ev.Task.Carried &= ofBirth
		ev.Task.Truncated = 0
	} else if !b.st.ForkNoExec && !b.st.Kthread { // the image is not that of the birth
		ev.Task.Known &^= procfs.Replaced
	}
	s.learn(b.pid, b.start, &b.st)
	s.balance.seen += uint64(max(b.st.Threads, 1))
	s.insert(ev)
	if exec != nil {
		s.insert(exec)
	}
	p := s.known[b.pid]
	if !executed && !b.st.ForkNoExec {
		p.forked = true // for the EXEC to come
	}
	if b.st.Over() {
		p.told = true
		s.tellExit(b.pid, &p, b.at, true)
	}
	s.known[b.pid] = p
}

// watchYoung reads the status of a process again that may be so young that the next one with its
// number has the same start time, to /proc: who chooses numbers, as clone3(2) lets, can start both
// in a tick. What it returns reports whether all that was read since the call is of one process.
func (s *Source) watchYoung(b *birth) (isOne func() bool) {
	// Kernels without pidfds have no way to choose numbers either.
	if s.fds == nil || b.from+s.offset() >= b.start+proctext.Tick {
		return func() bool { return true }
	}
	fd, err := unix.PidfdOpen(int(b.pid), 0)
	if err != nil {
		return func() bool { return false }
	}
	if st, start, err := s.proc.Status(b.pid); err == nil && start == b.start {
		b.st, b.at = st, s.now()
	}
	return func() bool {
		defer unix.Close(fd)
		// One that was not waited for yet has its number still.
		return !errors.Is(unix.PidfdSendSignal(fd, 0, nil, 0), unix.ESRCH)
	}
}

// ofBirth are the fields of fixed size that a FORK has whose process has executed since.
const ofBirth = engine.FieldsNS | engine.Fields(1<<engine.FieldStart|1<<engine.FieldPPID|1<<engine.FieldPGID|1<<engine.FieldSID|
	1<<engine.FieldTTY|1<<engine.FieldPIDNS|1<<engine.FieldLogin)

// constant are the fields that never change in a life.
const constant = engine.Fields(1<<engine.FieldStart | 1<<engine.FieldPIDNS)

// describe sets all that /proc has of the process with a start time. It is of now, and may have
// changed since the event.
func (s *Source) describe(ev *engine.RawEvent, start uint64) {
	st, err := s.proc.Read(ev.PID, procfs.Readable, ev)
	t := &ev.Task
	switch {
	case err != nil || t.Known.Has(engine.FieldStart) && t.Start != start: // it is gone by now
		t.Known, t.Truncated = 0, 0
	case st.Ended:
		t.Known &^= procfs.Replaced
	}
	t.Start, t.StartUnit = start, engine.ProcStartUnit
	t.Known |= engine.FieldStart.Set()
	t.Carried = t.Known &^ constant
}

// exec tells of an image that was first seen at a time.
func (s *Source) exec(pid uint32, start, at uint64) {
	if !s.shared.Reports(engine.EventExec) {
		return
	}
	ev := s.to.Reserve()
	ev.Kind, ev.PID, ev.TID, ev.Time = engine.KindExec, pid, pid, at
	s.describe(ev, start)
	s.insert(ev)
}

// insert gives an event to the sink, if it is to be reported.
func (s *Source) insert(ev *engine.RawEvent) {
	if !s.shared.Reports(ev.Kind.Events()) {
		s.to.Release(ev)
		return
	}
	s.to.Insert(ev)
	s.handed++
}

// atOnce is how many events a process can have at once: FORK, EXEC, CORE_DUMP and EXIT.
const atOnce = 4

// room reports whether the sink has room for what can be told of a process.
func (s *Source) room() bool {
	s.cut = s.cut || s.to.Room() < min(atOnce, s.size)
	return !s.cut
}

// gone tells of the end of a process that the reading does not show. Where /proc hides a process
// from others, one that has changed its ids may be there still.
func (s *Source) gone(pid uint32, p *process) {
	gone := false
	switch {
	case p.fd != none:
		gone = p.ended || over(p.fd)
	case !s.exists(pid):
		gone = true
	default:
		_, start, err := s.proc.Status(pid)
		gone = err == nil && start != p.start
	}
	if gone {
		s.exit(pid, p, s.now())
	}
}

// exit tells of the end of a process that has left /proc by a time, and forgets it. It reports
// whether there was room.
func (s *Source) exit(pid uint32, p *process, at uint64) bool {
	if !p.told {
		if !s.room() {
			return false
		}
		s.tellExit(pid, p, at, false)
	}
	s.closeAll(p)
	delete(s.known, pid)
	return true
}

// tellExit tells of the end of a process, which is a zombie or is gone by a time.
func (s *Source) tellExit(pid uint32, p *process, at uint64, zombie bool) {
	ev := s.to.Reserve()
	ev.Kind, ev.PID, ev.TID, ev.Time = engine.KindExit, pid, pid, at
	t := &ev.Task
	t.Start, t.StartUnit = p.start, engine.ProcStartUnit
	t.Known = engine.FieldStart.Set()
	if status, ok := s.waitStatus(pid, p, zombie); ok {
		t.Exit = engine.Exit{WaitStatus: status, Time: at}
		t.Known |= engine.FieldExit.Set()
	}
	s.handed += uint64(s.shared.InsertExit(s.to, ev))
}

// waitStatus returns the wait status of a process that is over. That of a leader is the process's
// if it is of a signal to all.
func (s *Source) waitStatus(pid uint32, p *process, zombie bool) (status int32, ok bool) {
	if zombie {
		status, start, ok := s.proc.ExitStatus(pid)
		return status, ok && start == p.start && (s.wholeStatus || groupstatus.Certain(status))
	}
	if p.fd == none {
		return 0, false
	}
	status, ok = exitStatus(p.fd)
	return status, ok && ofProcess(status)
}

// ofProcess reports whether the status of a leader, which a pidfd has, is the process's. The kernel
// makes it so when the last other thread is released after the leader has ended. But a leader that
// waits until another thread has dumped core can end after that thread, with the signal alone.
func ofProcess(status int32) bool {
	return status&groupstatus.CoreDumped != 0 || !groupstatus.Dumps(status)
}
