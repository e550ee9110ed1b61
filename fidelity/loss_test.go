package fidelity

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/backends/cnproc"
	"github.com/quark-linux/quark/backends/ebpf"
	"github.com/quark-linux/quark/backends/kprobe"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/recorder"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/fidelity/score"
	"github.com/quark-linux/quark/fidelity/truth"
)

// TestForcedLoss gives each backend tiny buffers and reads them too late: the reported loss must
// equal the number of missing events.
func TestForcedLoss(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	for _, name := range backends.All.Names() {
		t.Run(name, func(t *testing.T) {
			l, err := forceLoss(name, time.Minute)
			if err != nil {
				t.Skip(err)
			}
			t.Logf("%+v", *l)
			if !l.exact() {
				t.Errorf("not exact: got %+v", *l)
			}
		})
	}
}

// forcedLoss compares the events that a queue with tiny buffers lost with those it reported as
// lost. A second queue with normal buffers records all events.
type forcedLoss struct {
	missing int // events of our processes that were not delivered
	// least and most count the events of all processes of the host that only the normal queue
	// delivered. least counts those stamped from the first to the last of our processes. most
	// counts from before the opening of the tiny queue until after its closing and, with
	// cnproc, adds the result of mayDump. On an idle host least and most are equal.
	least, most int
	reported    int
	cause       string
}

func (l *forcedLoss) exact() bool {
	return l.missing > 0 && l.missing <= l.least && l.least <= l.reported && l.reported <= l.most
}

func TestExactLoss(t *testing.T) {
	for _, l := range []forcedLoss{
		{missing: 500, least: 510, most: 510, reported: 509},
		{missing: 500, least: 510, most: 512, reported: 513},
		{missing: 520, least: 510, most: 530, reported: 515},
		{},
	} {
		if l.exact() {
			t.Errorf("got exact, want inexact: %+v", l)
		}
	}
	if l := (forcedLoss{missing: 500, least: 510, most: 512, reported: 511}); !l.exact() {
		t.Errorf("got inexact, want exact: %+v", l)
	}
}

// lossProcesses is the number of processes. Their events, two each, overflow a one-page ring or the
// smallest socket buffer, even when many CPUs share them.
const lossProcesses = 300

// forceLoss runs processes while a queue with tiny buffers is not read.
func forceLoss(name string, patience time.Duration) (*forcedLoss, error) {
	cpus, err := scenario.CPUs()
	if err != nil {
		return nil, err
	}
	// Threads are included because their events can be lost too.
	opts := quark.Options{HoldTime: 100 * time.Millisecond, MinAgg: true, Threads: backends.ReportsThreads(name)}
	all, err := OpenQueue(name, opts, false)
	if err != nil {
		return nil, err
	}
	opts.EBPF, opts.KProbe, opts.CNProc = ebpf.Options{RingSize: 1}, kprobe.Options{RingSize: 1}, cnproc.Options{ReceiveBuffer: 1}
	tiny, err := OpenQueue(name, opts, false)
	if err != nil {
		_, err2 := all.Close()
		return nil, errors.Join(err, err2)
	}
	all.Start()
	from := truth.Clock()
	var records []truth.Record
	for i := range lossProcesses {
		_, r, err := scenario.Brief(cpus[i%len(cpus)])
		if err != nil {
			_, err2 := all.Close()
			_, err3 := tiny.Close()
			return nil, errors.Join(err, err2, err3)
		}
		records = append(records, r...)
	}
	// The tiny queue has not been read before this point.
	tiny.Start()
	to, err := recorder.WaitDelivered([]*recorder.Listener{all, tiny}, nil, patience)
	stats, err1 := tiny.Close()
	if err == nil && err1 == nil {
		// The normal queue then has all events from the time of the tiny queue.
		_, err = recorder.WaitDelivered([]*recorder.Listener{all}, nil, patience)
	}
	whole, err2 := all.Close()
	if err = errors.Join(err, err1, err2); err != nil {
		return nil, err
	}
	processes, err := truth.Assemble(records)
	if err != nil {
		return nil, err
	}
	l := &forcedLoss{reported: int(stats.Lost()), cause: causes(&stats)}
	l.least = countRaw(all.Seen(), from, to) - countRaw(tiny.Seen(), from, to)
	l.most = int(whole.Insertions) - int(stats.Insertions)
	if name == "cnproc" {
		l.most += mayDump(all.Seen())
	}
	s := score.Compute(&score.Delivered{Table: tiny.Queue.Capabilities(), Opened: from, Single: tiny.Seen(), Clock: score.Stamps(tiny.Queue.Capabilities())}, processes)
	l.missing = s.Truth - s.Seen
	return l, nil
}

// mayDump counts the exits by a signal that may dump core. For these the proc connector sends one
// more message. The message can be lost, but is an event only if a core was dumped.
func mayDump(seen []score.Seen) (n int) {
	for _, s := range seen {
		if x := s.Process.Exit; s.Events.Has(engine.EventExit) && !s.Thread && x.Signal() != 0 && !x.CoreDumped() {
			n++
		}
	}
	return n
}

// countRaw counts the source's events stamped after from, until to. It skips gaps and inferred
// exits, which stand for lost events, and core dumps and new parents, which are lost with an exit.
// The exits of a last thread and of its group are one event of the source.
func countRaw(seen []score.Seen, from, to uint64) (n int) {
	type key struct {
		pid  uint32
		time uint64
	}
	ends := make(map[key]bool)
	for _, s := range seen {
		if s.Time <= from || s.Time > to || s.Events.Has(engine.EventGap|engine.EventGone|engine.EventCoreDump|engine.EventReparent) {
			continue
		}
		if s.Events == engine.EventExit {
			if k := (key{s.Process.PID, s.Time}); !ends[k] {
				ends[k] = true
				n++
			}
			continue
		}
		n += len(s.Events.Names(nil))
	}
	return n
}
