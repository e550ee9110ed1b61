package tracepoint

import (
	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/clock"
)

// What /proc says is of the moment of reading. It is given to an event only if it is of the same
// process:
//
//   - that started no later than the event, by the start time in /proc, which has ticks of 10 ms;
//   - if it may have started later in the same tick, no other process with its pid was born
//     since, and nothing was lost since.
//
// But for what never changes it is marked as carried: it is of right after the event. What a fork
// reads of a process that has executed since is not given to it, nor to an exec what may be of the
// next one.

// constant are the fields that never change in a life.
const constant = engine.Fields(1<<engine.FieldStart | 1<<engine.FieldPIDNS)

// ofRecords are the fields that are only taken from records.
const ofRecords = engine.Fields(1<<engine.FieldComm | 1<<engine.FieldParentTID | 1<<engine.FieldExecPath)

// readProc reads the processes of what was queued since the last call.
func (s *Source) readProc() {
	if s.relearn && clock.Monotonic() >= s.learned+learnInterval {
		s.learn()
	}
	if len(s.toRead) > 0 {
		s.clock.Update()
	}
	for i, e := range s.toRead {
		s.toRead[i] = nil
		switch e.what {
		case newTask:
			if x := s.execs.In[e.task]; x != nil && x.time > e.time {
				continue // the exec's reading has the start time
			}
			s.readProcess(e, e.task)
		case executed:
			if e.next == nil { // else it has another image
				s.readProcess(e, e.pid)
			}
		case ended:
			s.readStatus(e)
		}
	}
	s.toRead = s.toRead[:0]
}

func (s *Source) readProcess(e *entry, pid uint32) {
	ev, t := e.ev, &e.ev.Task
	known, truncated := t.Known, t.Truncated
	want := procfs.Readable &^ known &^ ofRecords
	st, err := s.proc.Read(pid, want|engine.FieldStart.Set(), ev)
	if err != nil || !s.clock.StartedBy(t.Start, e.time) || !s.births && !s.clock.StartedBefore(t.Start, e.time) {
		t.Known, t.Truncated = known, truncated
		return
	}
	if e.what == newTask && !st.ForkNoExec && !st.Kthread {
		t.Known &^= want & procfs.Replaced
	}
	e.got, e.read, e.memory = t.Known&^known, clock.Monotonic(), st.Memory
	t.Carried |= e.got &^ constant
	ev.Read = e.read
}

// readStatus reads how a process has ended, if its parent has not waited for it yet.
func (s *Source) readStatus(e *entry) {
	if !s.showStatus || e.ev == nil || e.ev.Task.Known.Has(engine.FieldExit) {
		return
	}
	status, start, ok := s.proc.ExitStatus(e.pid)
	if !ok || !s.clock.StartedBy(start, e.time) || !s.births && !s.clock.StartedBefore(start, e.time) {
		return
	}
	t := &e.ev.Task
	t.Exit, t.Start, t.StartUnit = engine.Exit{WaitStatus: status, Time: e.time}, start, engine.ProcStartUnit
	t.Known |= engine.FieldExit.Set() | engine.FieldStart.Set()
	e.got, e.read = engine.FieldExit.Set()|engine.FieldStart.Set(), clock.Monotonic()
}

// certain reports whether the process that was read is that of the event.
func (s *Source) certain(e *entry, pid uint32) bool {
	if s.clock.StartedBefore(e.ev.Task.Start, e.time) {
		return true
	}
	// Another process with the same start time was born in the same tick, and its record was
	// read or lost.
	const soon = engine.ProcStartUnit + inFlight
	return s.births && s.noted >= e.time+soon && !s.born.In[pid].within(e.time, e.read+inFlight) && !(e.time <= s.lossTo && s.lossFrom <= e.time+soon)
}

// inFlight is how long a record may come after its stamp, in ns: the task can lose its CPU while it
// writes.
const inFlight = 2_000_000

// prove takes away what was read unless it is certain to be of the process of the event.
func (s *Source) prove(e *entry, pid uint32) {
	if e.got == 0 || s.certain(e, pid) {
		return
	}
	if s.noted < e.time+s.hold && !s.finishing {
		s.unread++
	}
	e.forget()
}

// compare takes the image away from an exec that was read, if it may be that of the next exec: a
// child that was made in between would have it then. An exec replaces the memory before its record
// is made.
func (s *Source) compare(e *entry) {
	// The record of the next one may be missing.
	late := s.noted < e.read+inFlight || e.time <= s.lossTo && s.lossFrom <= e.read
	if late || e.next != nil && (e.memory == 0 || e.next.memory == 0 || e.memory == e.next.memory) {
		e.drop(procfs.Image | engine.FieldCaps.Set())
	}
}

// forget takes away what was read.
func (e *entry) forget() { e.drop(engine.AllFields) }

func (e *entry) drop(fields engine.Fields) {
	fields &= e.got
	t := &e.ev.Task
	t.Known &^= fields
	t.Carried &^= fields
	t.Truncated &^= fields
	e.got &^= fields
}

// learnInterval is how often threads are looked for at most, in ns, while events are lost.
const learnInterval = 100_000_000

// learn looks which threads there are, for kernels that do not tell the end of a process.
func (s *Source) learn() {
	s.relearn = false
	defer func() { s.learned = clock.Monotonic() }()
	began := clock.Monotonic()
	pids, err := s.proc.PIDs()
	if err != nil {
		return
	}
	pids = append([]uint32(nil), pids...) // as Tasks uses the memory
	s.groups.learn(began, func(add func(pid, tid uint32), leaderDone func(pid uint32)) {
		for _, pid := range pids {
			if s.proc.Threads(pid) <= 1 {
				continue
			}
			for _, tid := range s.proc.Tasks(pid) {
				// The record of one that has begun to end may be of before the
				// look.
				switch st, _, err := s.proc.ThreadStatus(pid, tid); {
				case err != nil:
				case !st.Zombie() && !st.Ending:
					add(pid, tid)
				case tid == pid && st.Zombie():
					leaderDone(pid)
				}
			}
		}
	})
}
