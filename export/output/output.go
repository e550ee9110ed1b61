package output

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/export"
	"github.com/quark-linux/quark/export/internal/spool"
)

// Options say how lines are written. The zero value is right for most.
type Options struct {
	// Of a file: RotateSize and RotateEvery say when it is renamed and a new one begun, 0 is
	// never. Only a file of one line can be larger than RotateSize. RotateEvery counts from
	// 1970 in UTC: 24h is each midnight. Keep is how many renamed ones are kept, 0 is all.
	RotateSize  int64
	RotateEvery time.Duration
	Keep        int

	// Program is the name under which the journal and syslog have lines: quark-mon.
	Program string

	// Gap returns the line that says how many were dropped for lack of room; nil: none does.
	Gap func(count uint64, from, to time.Time) []byte
	// Report is called when writing begins to fail, with why, with nil when it works again and
	// with what is refused. It is called from a goroutine, and may be nil.
	Report func(error)

	Length, Bytes      int           // bound what waits: 16384, and 16 MiB
	RetryMin, RetryMax time.Duration // pauses after failures: 500 ms to 30 s
	Grace              time.Duration // for what waits at Close: 5 s
}

// entry is a line with what the journal and syslog say beside it.
type entry struct {
	line    []byte
	time    time.Time
	events  string // names
	summary string
	pid     uint32 // 0: none
	warning bool
}

// sink is where entries go.
type sink interface {
	// send writes a batch, at most for as long as ctx lasts.
	send(ctx context.Context, batch []entry) spool.Outcome
	close() error
}

// causeTooLarge is a line that is longer than a message can be.
const causeTooLarge = "too_large"

// Output writes lines to a target. Put is for one goroutine, all else for any.
type Output struct {
	target string
	spool  *spool.Spool[entry]
	sink   sink
}

// Open opens a target: "journald", "syslog" (the host's, /dev/log), "syslog+unix:PATH",
// "syslog+udp://HOST:PORT", "syslog+tcp://HOST:PORT" or else the name of a file or FIFO. An error
// says that it can't be written now; later ones, and that nobody reads a FIFO, are reported.
func Open(target string, o Options) (*Output, error) {
	if o.Program == "" {
		o.Program = "quark-mon"
	}
	out := &Output{target: target}
	var err error
	kind, address, _ := strings.Cut(target, ":")
	switch address = strings.TrimPrefix(address, "//"); {
	case target == "journald":
		out.sink, err = openJournal(o.Program)
	case target == "syslog":
		out.sink, err = openSyslog("unix", "/dev/log", o.Program)
	case strings.HasPrefix(kind, "syslog+"):
		out.sink, err = openSyslog(strings.TrimPrefix(kind, "syslog+"), address, o.Program)
	default:
		out.target = "file"
		out.sink, err = openPath(target, &o)
	}
	if err != nil {
		return nil, err
	}
	gap := func(count uint64, from, to time.Time) (entry, int) {
		e := entry{line: o.Gap(count, from, to), time: from, events: "DROPPED", warning: true,
			summary: fmt.Sprintf("%d events were dropped: too many waited to be written", count)}
		return e, size(&e)
	}
	if o.Gap == nil {
		gap = nil
	}
	out.spool = spool.New(spool.Options{Length: o.Length, Bytes: o.Bytes, RetryMin: o.RetryMin, RetryMax: o.RetryMax, Grace: o.Grace, Report: o.Report},
		spool.Target[entry]{Deliver: out.sink.send, Causes: []string{causeTooLarge}, Gap: gap})
	return out, nil
}

func size(e *entry) int { return 150 + len(e.line) + len(e.summary) }

// Put takes a line, with the end of its last line, that tells of an event or, if ev is nil, of
// something else. It copies what it keeps.
func (o *Output) Put(ev *quark.Event, line []byte) {
	if o.spool.Full() {
		return
	}
	e := entryOf(ev, line)
	o.spool.Put(e, size(&e))
}

func entryOf(ev *quark.Event, line []byte) entry {
	e := entry{line: bytes.Clone(line), time: time.Now()}
	if ev != nil {
		e.time, e.events, e.summary, e.warning = ev.Wall, ev.Events.String(), export.Summary(ev), ev.Events.Has(quark.EventGap)
		if ev.Process != nil {
			e.pid = ev.Process.PID
		}
	}
	return e
}

// Name is the kind of target: "file", or the target of syslog or the journal.
func (o *Output) Name() string { return o.target }

// Counts returns what became of the lines so far.
func (o *Output) Counts() export.Counts { return o.spool.Counts() }

// Close writes what waits, for as long as Grace lasts.
func (o *Output) Close() error {
	if err := o.spool.Close(); err != nil {
		return err // the sink is in use
	}
	return o.sink.close()
}

// oneByOne sends a batch by f, which sends one.
func oneByOne(ctx context.Context, batch []entry, f func(*entry) error) spool.Outcome {
	for i := range batch {
		err := ctx.Err()
		if err == nil {
			err = f(&batch[i])
		}
		switch {
		case err == nil:
		case i == 0 && errors.Is(err, errTooLarge):
			// The rest of the batch is a batch of its own.
			return spool.Outcome{Skip: len(batch) - 1, Dropped: 1, Cause: causeTooLarge, Err: err}
		case errors.Is(err, errTooLarge):
			return spool.Outcome{Skip: len(batch) - i}
		default:
			return spool.Outcome{Retry: true, Done: i, Err: fmt.Errorf("trying again: %w", err)}
		}
	}
	return spool.Outcome{}
}

var errTooLarge = errors.New("a message is too large")
