package monitor

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/fidelity/meter"
	"github.com/quark-linux/quark/fidelity/monitor/supervisor"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/fidelity/truth"
	bare "github.com/quark-linux/quark/internal/barefork"
	"github.com/quark-linux/quark/internal/children"
	"github.com/quark-linux/quark/internal/tinyelf"
)

// Options are the options of a run. The zero value is right for most machines.
type Options struct {
	// Patience limits the time until a monitor is ready, and until it has delivered its last
	// events. Default 20 s, or 90 s in a guest, which may be emulated on a busy host; three
	// times as long for a monitor that compiles its programs.
	Patience time.Duration
	// Grace limits the time for the monitor to end. Default 5 s.
	Grace time.Duration
}

// Run is a running monitor.
type Run struct {
	*Queue
	// Ready is the time from the start to the first report of a process.
	Ready time.Duration

	opts  Options
	dir   string
	super *supervisor.Supervisor
	ours  io.ReadCloser
	// theirErrs is the program's standard error; nil without a program.
	theirErrs io.Closer
	written   atomic.Int64
	reading   sync.WaitGroup // readers of the program's open files
	decoding  sync.WaitGroup
	inbox     *inbox
	stopping  chan struct{}
	errs      complaints
	base      time.Duration // CPU time when it was ready
}

// Start starts a monitor and waits until it reports processes.
func (m *Monitor) Start(o Options) (*Run, error) {
	patience := 20 * time.Second
	if scenario.InGuest() {
		patience = 90 * time.Second
	}
	o.Patience, o.Grace = cmp.Or(o.Patience, patience), cmp.Or(o.Grace, 5*time.Second)
	dir, err := os.MkdirTemp("", "quark-monitor-")
	if err != nil {
		return nil, err
	}
	r := &Run{Queue: newQueue(m), opts: o, dir: dir, inbox: newInbox(maxInbox), stopping: make(chan struct{})}
	r.errs.lost = r.addLost
	began := time.Now()
	if err = r.start(); err == nil {
		err = r.awaitReady()
	}
	if err != nil {
		_, notes := r.Stop()
		// An invalid line can be an error message of the monitor.
		notes = slices.DeleteFunc(notes, func(note string) bool {
			return r.firstBad != "" && strings.Contains(note, r.firstBad) && strings.Contains(err.Error(), r.firstBad)
		})
		text := strings.Join(append([]string{err.Error()}, notes...), "; ")
		if said := r.errs.last(); said != "" && !strings.Contains(text, said) {
			text += "; it said: " + said
		}
		return nil, errors.New(oneLine(text))
	}
	r.Ready = time.Since(began)
	if r.super != nil {
		r.base, _ = supervisor.Usage(r.super.PID)
	}
	return r, nil
}

func (r *Run) start() (err error) {
	m := r.mon
	file := filepath.Join(r.dir, "output")
	var out *os.File
	switch {
	case m.File || m.Accounting:
		f, err := os.Create(file)
		if err != nil {
			return err
		}
		out = f
		r.ours = &tail{file: file, stopping: r.stopping}
	case m.Terminal:
		r.ours, out, err = terminal()
	default:
		r.ours, out, err = widePipe()
	}
	if err != nil {
		return err
	}
	defer out.Close()
	if err = r.program(file, out); err != nil {
		return err
	}
	r.reading.Go(r.readOutput)
	r.decoding.Go(r.decode)
	return nil
}

func (r *Run) program(file string, out *os.File) error {
	m := r.mon
	o := supervisor.Options{Environ: m.Environment, Tracefs: m.Tracefs, Grace: r.opts.Grace}
	var err error
	if m.Accounting {
		err, o.Accounting = accountingElsewhere(), file
	} else {
		o.Command, err = m.command(file)
	}
	if err != nil {
		return err
	}
	theirs, errs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer errs.Close()
	if m.File || m.Accounting {
		out = errs
	}
	r.super, err = supervisor.Start(o, out, errs)
	if err != nil {
		theirs.Close()
		return err
	}
	r.theirErrs = theirs
	r.reading.Go(func() { io.Copy(&r.errs, theirs) })
	r.reading.Go(func() {
		<-r.super.Done()
		r.recordEnd(errors.New("the monitor ended"))
	})
	return nil
}

// widePipe returns a pipe with room for output while this process does not run.
func widePipe() (ours, theirs *os.File, err error) {
	if ours, theirs, err = os.Pipe(); err == nil {
		// The largest size without a privilege. On failure the pipe keeps its size.
		unix.FcntlInt(theirs.Fd(), unix.F_SETPIPE_SZ, 1<<20)
	}
	return ours, theirs, err
}

// readOutput reads the monitor's output until its end.
func (r *Run) readOutput() {
	defer r.inbox.close()
	for buf := make([]byte, 1<<18); ; {
		n, err := r.ours.Read(buf)
		r.written.Add(int64(n))
		if n > 0 && !r.inbox.put(buf[:n], truth.Clock()) {
			r.recordEnd(fmt.Errorf("output is too fast: %d MiB wait to be decoded", maxInbox>>20))
		}
		if err == nil {
			continue
		}
		// A terminal returns EIO once all others have closed it.
		if !errors.Is(err, io.EOF) && !errors.Is(err, unix.EIO) && !errors.Is(err, os.ErrClosed) {
			r.lock(func() { r.fail(err) })
		}
		return
	}
}

// decode decodes the output until its end.
func (r *Run) decode() {
	for list, ok := r.inbox.receive(); ok; list, ok = r.inbox.receive() {
		for i, c := range list {
			if i > 0 && r.inbox.dropping() {
				break
			}
			r.read(c.text, c.at)
		}
	}
	r.recordEnd(errors.New("the monitor ended, or closed its output"))
}

// Hold buffers the monitor's output until Release without decoding it, so that reading is the only
// CPU usage here. The arrival of an event is still the time of its read. Hold forgets the pids seen
// so far, as they may be reused.
func (r *Run) Hold() {
	r.inbox.hold(true)
	r.lock(func() { clear(r.seen) })
}

// Release resumes decoding after Hold.
func (r *Run) Release() { r.inbox.hold(false) }

// recordEnd records why the output ended, unless the run is stopping.
func (r *Run) recordEnd(why error) {
	select {
	case <-r.stopping:
	default:
		r.lock(func() { r.fail(why) })
		r.Wake()
	}
}

func (r *Run) lock(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

// awaitReady starts processes until the monitor has reported one.
func (r *Run) awaitReady() error {
	path := filepath.Join(r.dir, "ready")
	if err := tinyelf.Write(path, 0); err != nil {
		return err
	}
	var pids []uint32
	for end := time.Now().Add(r.opts.Patience); time.Now().Before(end); {
		if err := r.Failed(); err != nil {
			return err
		}
		one, err := r.markers(path)
		if err != nil {
			return err
		}
		pids = append(pids, one...)
		for range 20 {
			for _, pid := range pids {
				if r.saw(pid) != 0 {
					return nil
				}
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	if err := r.failedAfter(1); err != nil {
		return err
	}
	hint := ""
	if !r.mon.Terminal && !r.mon.File {
		hint = ` (does it keep lines back in a buffer? it does not on a terminal: "terminal": true in its format)`
	}
	return fmt.Errorf("not ready after %v: %w%s", r.opts.Patience, errSilent, hint)
}

// markers runs processes that execute a program and end: one on each of the given CPUs, or one on
// any CPU. They run in parallel.
func (r *Run) markers(path string, cpus ...int) (pids []uint32, err error) {
	var all []*bare.Process
	defer func() {
		for _, p := range all {
			if _, err2 := children.Wait(p.PID); err2 != nil {
				err = errors.Join(err, fmt.Errorf("wait for a process: %w", err2))
			}
			p.Free()
		}
	}()
	for i := range max(1, len(cpus)) {
		s := new(bare.Script)
		if len(cpus) > 0 {
			s.Pin(cpus[i])
		}
		p, err := bare.Start(s.Exec(path, []string{"marker"}, nil), bare.Options{Share: true})
		if err != nil {
			return nil, fmt.Errorf("start a process: %w", err)
		}
		all, pids = append(all, p), append(pids, uint32(p.PID))
	}
	return pids, nil
}

// retryDelay is the delay before another test process replaces a test process whose event may be
// lost, for example because a buffer is full.
const retryDelay = time.Second

// WaitDelivered starts a process on each CPU, after all other processes, and waits until the
// monitor has delivered the end of each. It returns an error if the monitor fails before.
func (r *Run) WaitDelivered() error {
	left, err := scenario.CPUs()
	if err != nil {
		return err
	}
	path, last := filepath.Join(r.dir, "last"), r.mon.lastKind()
	if err := tinyelf.Write(path, 0); err != nil {
		return err
	}
	end := time.Now().Add(r.opts.Patience)
	started := make(map[int][]uint32) // by CPU
	for next := (time.Time{}); len(left) > 0; time.Sleep(2 * time.Millisecond) {
		if err := r.Failed(); err != nil {
			return err
		}
		if now := time.Now(); now.After(end) {
			return fmt.Errorf("the monitor hangs: after %v %w", r.opts.Patience, errSilent)
		} else if now.After(next) {
			next = now.Add(retryDelay)
			pids, err := r.markers(path, left...)
			if err != nil {
				return err
			}
			for i, cpu := range left {
				started[cpu] = append(started[cpu], pids[i])
			}
		}
		left = slices.DeleteFunc(left, func(cpu int) bool {
			return slices.ContainsFunc(started[cpu], func(pid uint32) bool { return r.saw(pid).Has(last) })
		})
	}
	for !r.Empty() {
		if time.Now().After(end) {
			return errors.New("the monitor's events are not read")
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// Usage returns the monitor's resource usage since it was ready.
func (r *Run) Usage() (u meter.Usage) {
	if r.super != nil {
		u.CPU, u.RSS = supervisor.Usage(r.super.PID)
		u.CPU = max(u.CPU-r.base, 0)
	}
	r.lock(func() { u.Raw, u.Lost, u.Silent = r.total, r.lost, r.mon.Silent })
	return u
}

// Written returns the number of bytes that the monitor has written.
func (r *Run) Written() int64 { return r.written.Load() }

// Programs returns the eBPF programs that the monitor has open.
func (r *Run) Programs() (own []ebpf.ProgramID) {
	if r.super != nil {
		for _, id := range supervisor.Programs(r.super.PID) {
			own = append(own, ebpf.ProgramID(id))
		}
	}
	return own
}

// Pause stops the monitor by SIGSTOP.
func (r *Run) Pause() error { return r.signal(unix.SIGSTOP) }

// Resume continues the monitor after Pause.
func (r *Run) Resume() error { return r.signal(unix.SIGCONT) }

func (r *Run) signal(s unix.Signal) error {
	if r.mon.Accounting {
		return errors.New("no program to pause")
	}
	return r.super.Signal(s)
}

// Stop ends the monitor. It returns the usage since it was ready, and one line for each problem.
func (r *Run) Stop() (u meter.Usage, notes []string) {
	if r.Failed() != nil {
		r.inbox.drop() // the rest can have many invalid lines
	}
	close(r.stopping)
	r.Release()
	if r.super != nil {
		u = r.Usage() // without the cost of ending
		notes = r.endNotes(r.super.Stop())
	}
	if !r.finish() {
		notes = append(notes, "its output is still open in a process outside the supervisor")
	}
	os.RemoveAll(r.dir)
	r.mu.Lock()
	defer r.mu.Unlock()
	u.Raw, u.Lost, u.Silent = r.total, r.lost, r.mon.Silent
	if r.badLines > 0 {
		notes = append(notes, fmt.Sprintf("%d lines are invalid, the first: %s", r.badLines, r.firstBad))
	}
	if r.unknown > 0 {
		notes = append(notes, fmt.Sprintf("the monitor reported lost events %d times without a number", r.unknown))
	}
	return u, notes
}

// finish waits until all writers have closed the output, and closes it. It returns false if some
// writer did not.
func (r *Run) finish() bool {
	done := make(chan struct{})
	go func() {
		r.reading.Wait()
		close(done)
	}()
	over := true
	select {
	case <-done:
	case <-time.After(r.opts.Grace):
		over = false
	}
	for _, c := range []io.Closer{r.ours, r.theirErrs} {
		if c != nil {
			c.Close()
		}
	}
	<-done
	r.decoding.Wait()
	return over
}

// endNotes describes an unexpected end of the program.
func (r *Run) endNotes(report supervisor.Report, err error) (notes []string) {
	status := unix.WaitStatus(report.Status)
	said := r.errs.last()
	switch {
	case err != nil:
		notes = append(notes, fmt.Sprintf("the supervisor failed: %v", err))
	case report.Error != "":
		notes = append(notes, report.Error)
	case report.Hung:
		notes = append(notes, fmt.Sprintf("the monitor did not end within %v of SIGINT and was killed", r.opts.Grace))
	case report.Early && status.Signaled():
		notes = append(notes, strings.TrimSuffix(fmt.Sprintf("killed by signal %d (%v): %s", status.Signal(), status.Signal(), said), ": "))
	case report.Early:
		notes = append(notes, strings.TrimSuffix(fmt.Sprintf("the monitor exited with %d: %s", status.ExitStatus(), said), ": "))
	}
	if len(report.Left) > 0 {
		notes = append(notes, "left running, and killed: "+strings.Join(report.Left, ", "))
	}
	return notes
}

// addLost counts losses that the monitor reports on standard error.
func (r *Run) addLost(out Output) {
	r.lock(func() { r.lost += out.Lost })
}

// Events returns the number of events read.
func (r *Run) Events() (n uint64) {
	r.lock(func() { n = r.total })
	return n
}

// tail reads a growing file until its end, once the monitor has been stopped.
type tail struct {
	file     string
	f        *os.File
	stopping <-chan struct{}
	late     bool
}

func (t *tail) Read(b []byte) (n int, err error) {
	for {
		if t.f == nil {
			if t.f, err = os.Open(t.file); err != nil {
				return 0, err
			}
		}
		n, err := t.f.Read(b)
		if n > 0 || !errors.Is(err, io.EOF) {
			return n, err
		}
		if t.late {
			return 0, io.EOF
		}
		select {
		case <-t.stopping:
			time.Sleep(20 * time.Millisecond)
			t.late = true // once more, for output written as the monitor ended
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func (t *tail) Close() error {
	if t.f == nil {
		return nil
	}
	return t.f.Close()
}

// complaints keeps the end of a program's standard error. There programs of libbpf-tools also
// report losses.
type complaints struct {
	lost func(Output)
	mu   sync.Mutex
	text []byte
	line []byte // the start of a line
}

func (c *complaints) Write(b []byte) (int, error) {
	const most = 4 << 10
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text = append(c.text, b...)
	c.text = c.text[max(0, len(c.text)-most):]
	c.line = append(c.line, b...)
	for {
		line, rest, ok := bytes.Cut(c.line, []byte{'\n'})
		if !ok {
			break
		}
		var out Output
		if err, ok := lostLine(string(line), &out); ok && err == nil {
			c.lost(out)
		}
		c.line = rest
	}
	if len(c.line) > most {
		c.line = nil
	}
	return len(b), nil
}

// last returns the last lines, joined to one line.
func (c *complaints) last() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return oneLine(string(c.text))
}

// oneLine joins the lines of a text, and keeps only the end of a long text.
func oneLine(text string) string {
	const most = 400
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	if len(text) > most {
		text = "..." + text[len(text)-most:]
	}
	return strings.ToValidUTF8(text, "?")
}
