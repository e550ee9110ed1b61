package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/internal/command"
	"github.com/quark-linux/quark/internal/getent"
	"github.com/quark-linux/quark/internal/rawfile"
)

func main() {
	// Without the signal, a write to a closed standard output is an error, after which
	// quark-mon detaches from the kernel. Programs that it runs do not inherit this setting.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	err := run(signals, os.Args[1:], os.Stdout, os.Stderr)
	if status := statusError(0); errors.As(err, &status) {
		os.Exit(int(status))
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "quark-mon: %v\n", err)
		os.Exit(1)
	}
}

func run(signals chan os.Signal, args []string, out, errw io.Writer) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	undo := make(chan func(), 4)
	var running atomic.Pointer[child]
	go handleSignals(signals, func(s os.Signal) {
		if c := running.Load(); c != nil {
			c.signal(s)
		} else {
			stop()
		}
	}, undo, errw)
	return command.Run(ctx, newCommand(out, func(ctx context.Context, o *options) error {
		if o.output == "" && !signal.Ignored(syscall.SIGHUP) { // as nohup(1) does
			signal.Notify(signals, syscall.SIGHUP)
		}
		out := out
		if o.command != nil {
			out = errw // the command uses standard output
		}
		m := &monitor{options: o, out: bufio.NewWriterSize(direct(out), 64<<10)}
		if o.command != nil {
			m.child = newChild(o.command, &running)
		}
		return m.run(ctx, stop, undo, out, errw)
	}), args, out)
}

// run opens the queue and prints its events until ctx ends, or stop is called. It sends functions
// that detach from the kernel to undo.
func (m *monitor) run(ctx context.Context, stop func(), undo chan<- func(), out, errw io.Writer) (err error) {
	opening, cancel := ctx, func() {}
	if m.duration > 0 {
		opening, cancel = context.WithTimeout(ctx, m.duration)
	}
	err = m.open(opening)
	cancel()
	if err != nil {
		return err
	}
	q := m.q
	if out, err = m.openOutput(out, errw); err != nil {
		return errors.Join(err, m.close())
	}
	// A recording in a FIFO can block a write or a read until the other end is opened.
	undo <- func() { m.closeFiles() }
	undo <- func() { q.Close() }
	m.chooseForm(out, errw)
	if m.top {
		m.announce(errw)
		if m.live, err = newLive(m, out.(*os.File), stop); err != nil {
			return errors.Join(err, m.close())
		}
		defer m.live.close()
		undo <- m.live.close
	}
	if m.drop {
		if err := dropPrivileges(); err != nil {
			return errors.Join(err, m.close())
		}
	}
	if !m.top {
		m.announce(errw)
	}
	end := stop
	if m.child != nil {
		if err := m.child.start(m.q.Clock(), stop); err != nil {
			return errors.Join(err, m.close())
		}
		end = func() { m.child.signal(syscall.SIGTERM) }
	}
	if m.duration > 0 {
		defer time.AfterFunc(m.duration, end).Stop()
	}
	err = m.watch(ctx)
	if m.live != nil {
		m.live.close()
	}
	if err == nil || m.failure != nil {
		err = m.printRest(errw)
	}
	if errors.Is(err, os.ErrClosed) {
		select {} // until the second signal, which ends the program
	}
	if errors.Is(err, syscall.EPIPE) {
		err = nil // the output was closed: not an error
	}
	if m.child != nil {
		<-m.child.ended
		m.child.report(errw)
		if err := errors.Join(err, m.close()); err != nil {
			return err
		}
		return m.child.status()
	}
	return errors.Join(err, m.close())
}

// direct returns a writer to out that costs less if out is a regular file.
func direct(out io.Writer) io.Writer {
	if f, ok := out.(*os.File); ok {
		if st, err := f.Stat(); err == nil && st.Mode().IsRegular() {
			return rawfile.File{File: f}
		}
	}
	return out
}

// chooseForm sets the form of printed events.
func (m *monitor) chooseForm(out, errw io.Writer) {
	q := m.q
	if m.columns != nil {
		m.screen = newScreen(m, out)
	}
	switch {
	case m.count:
		m.stats = m.out
	case m.verbose > 2:
		m.stats = errw
	}
	switch {
	case m.top, m.count, m.quiet:
	case m.tree:
		l := &treePrinter{screen: m.screen, q: q}
		if m.form = l.Append; m.child != nil {
			l.root = os.Getpid()
		}
	case m.columns != nil:
		m.form = m.screen.Append
	case m.json:
		m.form = func(b []byte, ev *quark.Event) []byte {
			if m.lineage {
				return append(q.AppendJSON(b, ev), '\n')
			}
			return append(ev.AppendJSON(b, q.Clock(), q.Backend()), '\n')
		}
		if m.Names {
			names, plain := quark.NewNames(), m.form
			names.Ask = func(database, id string) string {
				name, _, _ := getent.Lookup(database, id)
				return name
			}
			m.form = func(b []byte, ev *quark.Event) []byte { return appendNames(plain(b, ev), names, ev.Process) }
		}
	case m.lineage:
		m.form = q.AppendDump
	default:
		m.form = func(b []byte, ev *quark.Event) []byte { return ev.AppendDump(b) }
	}
}

// handleSignals calls stop at the first signal, and ends the program at the second. This works even
// if run is blocked by a stalled reader of the output, or by a FIFO that no process has opened at
// the other handleSignals. At the second signal, handleSignals first runs the functions in undo,
// which detach from the kernel.
func handleSignals(signals <-chan os.Signal, stop func(os.Signal), undo <-chan func(), errw io.Writer) {
	stop(<-signals)
	// timeout(1) and other programs send a signal to the process and to its group. This counts
	// as one signal.
	for same := time.After(50 * time.Millisecond); same != nil; {
		select {
		case <-signals:
		case <-same:
			same = nil
		}
	}
	<-signals
	callWithin(3*time.Second, func() {
		for len(undo) > 0 {
			(<-undo)()
		}
	})
	callWithin(100*time.Millisecond, func() {
		fmt.Fprintln(errw, "quark-mon: ended by a second signal: not all was printed")
	})
	os.Exit(1)
}

// callWithin calls f, and returns when f has returned or limit is over.
func callWithin(limit time.Duration, f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(limit):
	}
}

// monitor prints the events of a queue.
type monitor struct {
	*options
	q *quark.Queue
	files
	out    *bufio.Writer
	line   []byte
	form   func([]byte, *quark.Event) []byte // appends an event; nil if none is printed
	screen *screen                           // nil unless events are printed as lines
	live   *live                             // screen of top, or nil
	child  *child                            // the command that quark-mon runs, or nil
	stats  io.Writer                         // output of statistics once a second, or nil
	tick   time.Time                         // time of the next statistics
	rows   int

	failure error // error of the source, after which there are no more events
}

// announce prints the name of the running backend.
func (m *monitor) announce(errw io.Writer) {
	fmt.Fprintf(errw, "quark-mon: %s", m.Describe(m.q))
	if m.replayed != nil {
		fmt.Fprintf(errw, ", recorded on Linux %s", m.replayed.Kernel())
	}
	fmt.Fprintln(errw)
	if m.verbose > 0 {
		m.describe(errw)
	}
	if m.verbose > 1 {
		fmt.Fprintf(errw, "quark-mon: events of a process join as follows\n%s\n", m.q.Matrix())
	}
}

// describe prints the capability table.
func (m *monitor) describe(w io.Writer) {
	table := m.q.Capabilities()
	for k := range quark.Kind(quark.NumKinds) {
		fmt.Fprintf(w, "quark-mon: event %-14s %-8s %s\n", k, table.Kinds[k].Origin, table.Kinds[k].Via)
	}
	for f := range quark.Field(quark.NumFields) {
		c := table.Fields[f]
		fmt.Fprintf(w, "quark-mon: field %-14s %-8s %s (%s)\n", f, c.Origin, c.Via, c.At)
	}
	for _, n := range table.Notes {
		fmt.Fprintf(w, "quark-mon: %s\n", n)
	}
}

// watch prints events until ctx is done, an error occurs, a recording ends, or a recording cannot
// be written.
func (m *monitor) watch(ctx context.Context) error {
	defer context.AfterFunc(ctx, m.q.Wake)()
	if m.recording != nil {
		defer context.AfterFunc(ctx, m.stopReading)()
	}
	m.tick = time.Now().Add(time.Second)
	if m.host {
		m.line = append(m.q.Clock().Host.AppendJSON(append(m.line[:0], `{"host":`...)), "}\n"...)
		if err := m.write(); err != nil {
			return err
		}
	}
	if err := m.snapshot(); err != nil {
		return err
	}
	for !m.q.Drained() && !m.recordingFailed() {
		if err := m.step(ctx); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return nil // printRest prints the rest without waiting
		}
		if err := m.flushAndWait(); err != nil {
			return err
		}
	}
	return nil
}

// step prints the events that are ready, until ctx is done. If the reader of the output is slower
// than the events, step returns only then.
func (m *monitor) step(ctx context.Context) error {
	for ctx.Err() == nil {
		ev, err := m.q.Get()
		switch {
		case err == nil:
			if err := m.print(ev); err != nil {
				return err
			}
		case errors.Is(err, quark.ErrNothing):
			return nil
		default:
			if !errors.Is(err, os.ErrClosed) {
				m.failure = err
			}
			return err
		}
	}
	return nil
}

// flushAndWait flushes the output, and waits for more events or for the next line of statistics.
func (m *monitor) flushAndWait() error {
	timeout := time.Duration(-1)
	if m.stats != nil || m.live != nil {
		if timeout = time.Until(m.tick); timeout <= 0 {
			m.tick = m.tick.Add(time.Second)
			each := m.printStats
			if m.live != nil {
				each = m.live.tick
			}
			if err := each(); err != nil {
				return err
			}
			timeout = max(0, time.Until(m.tick))
		}
	}
	if err := m.out.Flush(); err != nil {
		return err
	}
	if m.screen != nil {
		m.screen.fit()
	}
	return m.q.Block(timeout)
}

// snapshot prints the existing processes, as events without a kind.
func (m *monitor) snapshot() error {
	if m.noSnapshot || m.tree || m.form == nil {
		return nil
	}
	var ev quark.Event
	for p := range m.q.Processes() {
		if p.Exited {
			continue // the process ended while the queue was opened
		}
		ev.Process, ev.TID = p, p.PID
		ev.Time, ev.Wall = p.AsOf(), m.q.Clock().At(p.AsOf())
		if !m.q.Passes(&ev) {
			continue
		}
		if err := m.print(&ev); err != nil {
			return err
		}
	}
	return m.out.Flush()
}

func (m *monitor) print(ev *quark.Event) error {
	if m.live != nil {
		m.live.count(ev)
	}
	if m.child != nil {
		if !m.child.owns(ev) {
			return nil
		}
		m.child.count(ev)
	}
	if m.form == nil {
		return nil
	}
	m.line = m.form(m.line[:0], ev)
	return m.write()
}

// write prints m.line.
func (m *monitor) write() error {
	_, err := m.out.Write(m.line)
	return err
}

// printRest prints the events that are still held, and then the statistics.
func (m *monitor) printRest(errw io.Writer) error {
	if err := m.q.Drain(); err != nil {
		return err
	}
	for m.failure == nil {
		if err := m.step(context.Background()); err != nil && m.failure == nil {
			return err
		}
		if m.q.Drained() {
			break
		}
		if err := m.q.Block(-1); err != nil {
			return err
		}
	}
	if m.count && m.json {
		if err := m.printStats(); err != nil {
			return err
		}
	}
	if err := m.out.Flush(); err != nil {
		return err
	}
	s, err := m.q.Stats()
	if err == nil && m.verbose > 0 {
		fmt.Fprint(errw, statsHeader, statsRow(&s))
	}
	if err == nil {
		fmt.Fprint(errw, m.summary(&s))
	}
	return errors.Join(m.failure, err)
}
