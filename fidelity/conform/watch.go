package conform

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/fidelity/score"
	"github.com/quark-linux/quark/fidelity/truth"
)

// patience bounds a scenario, and the delivery of its last events. It is meant for
// emulated machines.
const patience = 3 * time.Minute

// watch is a source and what it has reported of the current scenario.
type watch struct {
	s       engine.Source
	threads bool // it reports single threads
	opened  uint64
	seen    []score.Seen
	ended   map[uint32]bool
}

func newWatch(s engine.Source, threads bool) *watch {
	return &watch{s: s, threads: threads, opened: truth.Clock(), ended: make(map[uint32]bool)}
}

// read takes what the source has queued.
func (w *watch) read() error {
	evs, err := drain(w.s)
	for _, ev := range evs {
		s := seen(ev)
		w.seen = append(w.seen, s)
		if s.Process.Exited {
			w.ended[s.Process.PID] = true
		}
	}
	return err
}

// seen presents a raw event to the judge as the engine would present it alone. What the
// engine adds from earlier events is unknown in it.
func seen(ev *engine.RawEvent) score.Seen {
	return score.Seen{
		Events: ev.Kind.Events(), ID: ev.IDChange, Time: ev.Time, At: ev.Time, Tracer: ev.Tracer.PID, Thread: ev.Thread, TID: ev.TID,
		Process: &engine.Process{
			PID: ev.PID, Task: ev.Task,
			Comm:     string(ev.Bytes(engine.FieldComm)),
			Filename: string(ev.Bytes(engine.FieldFilename)),
			Cwd:      string(ev.Bytes(engine.FieldCwd)),
			Cgroup:   string(ev.Bytes(engine.FieldCgroup)),
			Cmdline:  ev.Bytes(engine.FieldCmdline),
			Exited:   ev.Kind == engine.KindExit && !ev.Thread,
		},
	}
}

// await waits for the end of a scenario. With atOnce set the source is read meanwhile,
// so that it can look at processes that still live, else only afterwards.
func (w *watch) await(run *scenario.Running, atOnce bool) (o *scenario.Outcome, err error) {
	requests, done := make(chan chan error), make(chan struct{})
	if atOnce {
		run.ReadAll = func() error {
			answer := make(chan error)
			requests <- answer
			return <-answer
		}
	}
	go func() {
		defer close(done)
		o, err = run.Wait(patience)
	}()
	var failed error
	for atOnce {
		failed = errors.Join(failed, w.read())
		if w.s.Arm(true) {
			Poll(w.s, 5*time.Millisecond)
		}
		select {
		case answer := <-requests:
			failed = errors.Join(failed, w.read())
			answer <- failed
		case <-done:
			return o, errors.Join(err, failed)
		default:
		}
	}
	<-done
	return o, err
}

// settle reads until the source has reported the end of a process of each CPU that was
// started after everything else.
func (w *watch) settle() error {
	cpus, err := scenario.CPUs()
	if err != nil {
		return err
	}
	for _, cpu := range cpus {
		if err := w.settleOn(cpu); err != nil {
			return err
		}
	}
	return nil
}

func (w *watch) settleOn(cpu int) error {
	for end := time.Now().Add(patience); time.Now().Before(end); {
		pid, _, err := scenario.Brief(cpu)
		if err != nil {
			return err
		}
		delete(w.ended, uint32(pid))
		// Its end may have been lost, then there has to be another.
		for again := time.Now().Add(3 * time.Second); time.Now().Before(again); time.Sleep(time.Millisecond) {
			if err := w.read(); err != nil || w.ended[uint32(pid)] {
				return err
			}
		}
	}
	return fmt.Errorf("%s has not reported the last event on CPU %d for %v", w.s.Name(), cpu, patience)
}

// judgeAll reads what is still missing and scores. The proc connector's message of an
// end can come after those of processes that were started later.
func (w *watch) judgeAll(o *scenario.Outcome) (*score.Score, error) {
	late := time.Duration(score.AfterEnd(w.s.Name()))
	for end := time.Now().Add(late); ; time.Sleep(10 * time.Millisecond) {
		if err := w.settle(); err != nil {
			return nil, err
		}
		sc := w.judge(o)
		if sc.Seen >= sc.Truth || time.Now().After(end) {
			return sc, nil
		}
	}
}

// judge scores what the source reported of a scenario.
func (w *watch) judge(o *scenario.Outcome) *score.Score {
	return score.Lives(&score.Witness{
		Backend: w.s.Name(), Table: w.s.Capabilities(), Opened: w.opened, BootOffset: bootOffset(),
		AfterEnd: score.AfterEnd(w.s.Name()), Threads: w.threads, Single: w.seen,
	}, o.Lives)
}

// bootOffset is CLOCK_BOOTTIME minus CLOCK_MONOTONIC in ns: the time spent suspended.
func bootOffset() uint64 {
	var boot, mono unix.Timespec
	least := time.Duration(1<<63 - 1)
	for range 10 {
		unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono)
		unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot)
		least = min(least, time.Duration(boot.Nano()-mono.Nano()))
	}
	if least < time.Millisecond {
		return 0 // never suspended: what is left is the time between the readings
	}
	return uint64(least)
}
