package procfs

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/clock"
)

// ErrBlocked is the error of a process that cannot be read in time.
var ErrBlocked = errors.New("read /proc: the process keeps its memory locked")

const (
	// A read takes microseconds. After readPatience it is abandoned if its thread sleeps in the
	// kernel, and after readLimit in any case: emulated machines are slow.
	readPatience = 100 * time.Millisecond
	readLimit    = 3 * time.Second

	// Each waiting read halves readPatience, up to this many times, so that many such processes
	// do not delay the others.
	mostHalvings = 4

	// maxBlocked bounds the number of waiting threads. If it is reached, no memory of processes
	// is read.
	maxBlocked = 64
)

// Reader reads processes from /proc. It is not safe for concurrent use.
//
// A read of a process's memory waits for the lock of its address space. A thread of the process can
// hold the lock for any time, for example while a file system hangs. From Linux 6.18 on, all files
// of a process that is about to execute such an image wait, too. So another goroutine reads, and
// the Reader abandons a read that still waits after 100 ms. The unread fields are unknown, and are
// not read again until that read returns.
type Reader struct {
	*reader // of this goroutine: for reads that never wait, and to make workers
	*blocked
	worker *worker // nil after an abandoned read
	timer  *time.Timer

	patience, limit time.Duration // readPatience, readLimit
}

// extent is how much of a process can be read.
type extent int

const (
	everything    extent = iota
	withoutMemory        // not the arguments and the environment
	nothing
)

// blocked has the processes with abandoned reads that still wait. All readers of one /proc share
// it.
type blocked struct {
	total   atomic.Uint64
	waiting atomic.Int64 // reads that have not returned
	mu      sync.Mutex
	extents map[uint32]extent // what can be read of a process meanwhile
}

func (b *blocked) extent(pid uint32) extent {
	n := b.waiting.Load()
	if n == 0 {
		return everything
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.extents[pid]
	switch {
	case n >= 2*maxBlocked:
		return nothing
	case n >= maxBlocked:
		return max(e, withoutMemory)
	}
	return e
}

// add records that a read of a process with extent e waits.
func (b *blocked) add(pid uint32, e extent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.extents[pid] == everything {
		b.total.Add(1)
	}
	b.waiting.Add(1)
	b.extents[pid] = e + 1
}

// remove records that a read of a process has returned.
func (b *blocked) remove(pid uint32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting.Add(-1)
	delete(b.extents, pid) // also if another waits: the next one finds out
}

// Blocked returns how many processes could not be read in time since Open.
func (b *blocked) Blocked() uint64 { return b.total.Load() }

// operation is a task of a worker for its Reader.
type operation int

const (
	opRead operation = iota
	opCmdline
	opStatus
	opThreadStatus
	opExitStatus
)

// question is a request to a worker. Its answer is in the same worker.
type question struct {
	operation
	pid, tid uint32
	want     engine.Fields
	sparing  bool
	extent   extent
}

type answer struct {
	st         Status
	start      uint64
	waitStatus int32
	ok         bool
	err        error
}

// worker is a goroutine that reads. The Reader uses its members only between answer and question.
type worker struct {
	*reader
	questions chan struct{}
	answers   chan struct{}
	late      chan struct{} // closed when the Reader does not wait any more
	thread    atomic.Int64  // that began to answer
	q         question
	a         answer
	ev        engine.RawEvent // being filled
}

func (w *worker) run(b *blocked) {
	for range w.questions {
		w.thread.Store(int64(unix.Gettid()))
		w.answer()
		w.answers <- struct{}{}
	}
	select {
	case <-w.late:
		b.remove(w.q.pid)
	default:
	}
	unix.Close(w.own.fd)
	close(w.answers)
}

func (w *worker) answer() {
	q, a := &w.q, &w.a
	w.Sparing, w.withoutMemory = q.sparing, q.extent == withoutMemory
	*a = answer{}
	switch q.operation {
	case opRead:
		a.st, a.err = w.readProcess(q.pid, q.want, &w.ev)
	case opCmdline:
		a.ok = w.readArguments(&w.ev)
	case opStatus:
		a.st, a.start, a.err = w.readStatus(q.pid)
	case opThreadStatus:
		a.st, a.start, a.err = w.readThreadStatus(q.pid, q.tid)
	case opExitStatus:
		a.waitStatus, a.start, a.ok = w.readExitStatus(q.pid)
	}
}

// ask passes a question to the worker, and ev unless it is nil. If the memory of the process cannot
// be read in time, ask asks again without the memory. The answer is valid until the next call.
func (r *Reader) ask(q question, ev *engine.RawEvent) *answer {
	for q.extent = r.blocked.extent(q.pid); q.extent < nothing; q.extent++ {
		if a := r.askOnce(q, ev); a != nil {
			return a
		}
	}
	return &answer{err: ErrBlocked}
}

// askOnce returns nil, and leaves ev unchanged, if there is no answer in time.
func (r *Reader) askOnce(q question, ev *engine.RawEvent) *answer {
	if r.worker == nil {
		r.start()
	}
	w := r.worker
	q.sparing = r.Sparing
	w.q = q
	if ev != nil {
		w.ev = *ev
	}
	w.questions <- struct{}{}
	patience := r.patience >> min(r.waiting.Load(), mostHalvings)
	if r.timer == nil {
		r.timer = time.NewTimer(patience)
	} else {
		r.timer.Reset(patience)
	}
	for waited := patience; ; waited += patience {
		select {
		case <-w.answers:
			r.timer.Stop()
			if ev != nil {
				*ev = w.ev
			}
			return &w.a
		case <-r.timer.C:
		}
		if waited >= r.limit || r.sleeps(w) {
			break
		}
		r.timer.Reset(patience)
	}
	r.add(q.pid, q.extent)
	close(w.late)
	close(w.questions)
	r.worker = nil
	if ev != nil {
		ev.Detach() // the worker may still write behind its texts
	}
	return nil
}

// sleeps reports whether the thread that runs the worker waits in the kernel.
func (r *Reader) sleeps(w *worker) bool {
	b := strconv.AppendInt(append(r.path[:0], "self/task/"...), int64(w.thread.Load()), 10)
	st, _, err := r.status(r.proc, append(b, "/stat\x00"...))
	return err == nil && st.State == 'D'
}

// start makes a worker. Open calls it, so that later reads open no more descriptors.
func (r *Reader) start() {
	r.worker = &worker{reader: r.another(), questions: make(chan struct{}), answers: make(chan struct{}, 1), late: make(chan struct{})}
	go r.worker.run(r.blocked)
}

// end ends the idle worker.
func (r *Reader) end() {
	if w := r.worker; w != nil {
		close(w.questions)
		<-w.answers
		r.worker = nil
	}
}

// fork returns a Reader for another goroutine. The caller ends it by release.
func (r *Reader) fork() *Reader {
	return &Reader{reader: r.another(), blocked: r.blocked, patience: r.patience, limit: r.limit}
}

func (r *Reader) release() {
	r.end()
	unix.Close(r.own.fd)
}

// Close closes the descriptor of /proc.
func (r *Reader) Close() error {
	if r.proc < 0 {
		return os.ErrClosed
	}
	r.release()
	fd := r.proc
	r.proc = -1
	return unix.Close(fd)
}

// OpenFor returns a Reader that also reads the requested variables of the environment.
func OpenFor(environ *source.Environ) (*Reader, error) {
	variables, err := environ.Compile()
	if err != nil {
		return nil, err
	}
	r, err := Open()
	if err == nil && variables != nil {
		r.ReadEnviron(variables.Set)
	}
	return r, err
}

// ReadEnviron makes Read pass the environment to set. cut reports that the end of all is missing.
// Call ReadEnviron before any read.
func (r *Reader) ReadEnviron(set func(ev *engine.RawEvent, all []byte, cut bool)) {
	var mu sync.Mutex // against a worker that is late
	r.environ = func(ev *engine.RawEvent, all []byte, cut bool) {
		mu.Lock()
		defer mu.Unlock()
		set(ev, all, cut)
	}
	r.hidden &^= engine.FieldEnviron.Set()
	r.end()
	r.start()
}

// ShareBlocked makes r and to count each blocked process once. Call it before to reads. It does
// nothing if r is nil.
func (r *Reader) ShareBlocked(to *Reader) {
	if r != nil {
		to.end()
		to.blocked = r.blocked
		to.start()
	}
}

// Read fills in the fields want of process pid that can be read, and returns its Status. Other
// fields of ev stay unchanged. The error is ErrVanished if the whole process could not be read, and
// ErrBlocked if the process blocks all reads. If it blocks only reads of its memory, its arguments
// and environment are unknown, without an error.
//
// The fields of [Replaced] belong to one image, or are unknown. An execve first replaces the memory
// and the link to the executable, then comm and credentials, then the arguments. Until then the
// command line is empty and Status.Memory is 0. So Read reads stat, which has the comm, at the
// start and at the end. If the memory differs, an execve completed in between. If the memory is the
// same and the process has a command line, no execve was in progress. If this process may not see
// the memory, only an empty command line reveals an execve.
//
// The kernel writes comm into stat before it reads the memory, so an execve can come between the
// two. A comm that differs at the end is therefore unknown. State, ForkNoExec and Memory are from
// the end of the read. Status.Ended is about a process that ended meanwhile. The image may belong
// to an execve that is still to be reported.
func (r *Reader) Read(pid uint32, want engine.Fields, ev *engine.RawEvent) (Status, error) {
	a := r.ask(question{operation: opRead, pid: pid, want: want}, ev)
	return a.st, a.err
}

// Cmdline reads the arguments of process ev.PID and reports whether it has any. It reads the
// environment too, if Read does. An empty environment stays unknown.
func (r *Reader) Cmdline(ev *engine.RawEvent) bool {
	return r.ask(question{operation: opCmdline, pid: ev.PID}, ev).ok
}

// Status returns the status and the start time of process pid. It reads only the file stat.
func (r *Reader) Status(pid uint32) (st Status, start uint64, err error) {
	a := r.ask(question{operation: opStatus, pid: pid}, nil)
	return a.st, a.start, a.err
}

// ThreadStatus returns the status and the start time of a thread of process pid.
func (r *Reader) ThreadStatus(pid, tid uint32) (st Status, start uint64, err error) {
	a := r.ask(question{operation: opThreadStatus, pid: pid, tid: tid}, nil)
	return a.st, a.start, a.err
}

// ExitStatus returns the wait status of process pid, which has ended and was not waited for yet,
// and its start time. From Linux 6.1 on it is the status of the process, as its parent will get it.
// Before, the kernel shows the status of the leader.
func (r *Reader) ExitStatus(pid uint32) (status int32, start uint64, ok bool) {
	a := r.ask(question{operation: opExitStatus, pid: pid}, nil)
	return a.waitStatus, a.start, a.ok
}

// Scan calls f for every process, in the order of pids, with all fields that can be read. ev is
// valid during the call. A process that vanishes is left out. An error of f ends the scan and is
// returned. f must not use r.
//
// Several goroutines read batches of processes, because the kernel takes most of the time. All have
// ended when Scan returns.
func (r *Reader) Scan(f func(ev *engine.RawEvent) error) error {
	pids, err := r.PIDs()
	if err != nil {
		return err
	}
	batches := slices.Collect(slices.Chunk(pids, scanBatch))
	read := make([]chan []engine.RawEvent, min(len(batches), maxReaders, runtime.GOMAXPROCS(0)))
	var running sync.WaitGroup
	for i := range read {
		read[i] = make(chan []engine.RawEvent)
		running.Go(func() {
			r := r.fork()
			defer r.release()
			r.ownRoot, _ = placeOf(r.proc, pathOwnRoot)
			// f uses one array while the other is filled.
			var events [2][scanBatch]engine.RawEvent
			for n := i; n < len(batches); n += len(read) {
				to := &events[n/len(read)%2]
				read[i] <- to[:r.readBatch(batches[n], to)]
			}
		})
	}
	for n := range batches {
		events := <-read[n%len(read)]
		for i := range events {
			if err == nil {
				err = f(&events[i])
			}
		}
	}
	running.Wait()
	return err
}

const (
	maxReaders = 4
	scanBatch  = 32
)

// readBatch reads processes into to and returns how many exist.
func (r *Reader) readBatch(pids []uint32, to *[scanBatch]engine.RawEvent) (n int) {
	for _, pid := range pids {
		if r.Describe(pid, &to[n]) {
			n++
		}
	}
	return n
}

// Describe reads all readable fields of a process, and reports whether it exists. The time of ev is
// the end of the reading. The kind of a zombie is EXIT, as [engine.Engine.Learn] requires.
func (r *Reader) Describe(pid uint32, ev *engine.RawEvent) bool {
	ev.Reset()
	ev.PID, ev.TID = pid, pid
	st, err := r.Read(pid, Readable, ev)
	if st.Ended {
		ev.Task.Known &^= Replaced
	}
	if st.Over() {
		ev.Kind = engine.KindExit
	}
	ev.Time = clock.Monotonic()
	return err == nil || errors.Is(err, ErrBlocked)
}
