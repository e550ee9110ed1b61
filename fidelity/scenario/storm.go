package scenario

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
	"github.com/quark-linux/quark/internal/children"
	"github.com/quark-linux/quark/internal/tinyelf"
)

// Storm is a load of many short-lived processes that fork, execute a program and exit.
type Storm struct {
	Processes int // total number
	Workers   int // number of workers; each starts one process after the other
	Rate      int // processes per second of all workers together; 0 is full speed
	// Length ends the storm after this time, even with fewer processes. Zero means no limit.
	Length time.Duration
}

// StormName is the name of the storm in the list of scenarios.
const StormName = "storm"

const stormPrefix = StormName + ","

// Scenario returns the storm as a scenario. Its name encodes all options.
func (s Storm) Scenario() Scenario {
	return Scenario{
		Name: fmt.Sprintf("%s%d,%d,%d,%d", stormPrefix, s.Processes, s.Workers, s.Rate, s.Length),
		Doc:  fmt.Sprintf("%d processes by %d workers, %d a second", s.Processes, s.Workers, s.Rate),
		run:  s.run,
		// The workers start before the storm begins.
		Early: true,
	}
}

func parseStorm(name string) (s Storm, ok bool) {
	arg, ok := strings.CutPrefix(name, stormPrefix)
	if !ok {
		return s, false
	}
	n, err := fmt.Sscanf(arg, "%d,%d,%d,%d", &s.Processes, &s.Workers, &s.Rate, &s.Length)
	return s, err == nil && n == 4 && s.Processes > 0 && s.Workers > 0 && s.Rate >= 0 && s.Length >= 0
}

var defaultStorm = Storm{Processes: scale(1000, 100), Workers: 4}

// run starts the workers, which wait, and then lets all of them continue at once.
func (s Storm) run(d *director) {
	d.must(tinyelf.Write(filepath.Join(d.dir, StormName), 0))
	gate := d.gate()
	ready := d.gate()
	var workers []int
	for i := range s.Workers {
		share := s.Processes / s.Workers
		if i < s.Processes%s.Workers {
			share++
		}
		var pause time.Duration
		if s.Rate > 0 {
			pause = time.Second * time.Duration(s.Workers) / time.Duration(s.Rate)
		}
		workers = append(workers, d.spawn(d.self, &syscall.ProcAttr{
			Dir:   d.dir,
			Env:   []string{fmt.Sprintf("%s=worker:%d:%d:%d", Env, share, pause, s.Length)},
			Files: []uintptr{0, 1, 2, truthFD, uintptr(gate.r), uintptr(ready.w), procFD},
		}))
	}
	for range workers {
		_, err := unix.Read(ready.r, make([]byte, 1))
		d.must(err)
	}
	d.awaitReaders(d.pid)
	for range workers {
		gate.open()
	}
	for _, pid := range workers {
		d.wantCode(d.reapSpawned(pid), 0)
	}
}

// worker is the role of a process that starts its share of a storm.
func worker(args string) error {
	var n int
	var every, length time.Duration
	_, err := fmt.Sscanf(args, "%d:%d:%d", &n, &every, &length)
	if err := errors.Join(err, takeFDs(3, unix.O_CLOEXEC, truthFD, goFD, readyFD, procFD), report(truth.Exec)); err != nil {
		return err
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	w := &stormer{pid: os.Getpid(), path: filepath.Join(dir, StormName)}
	w.execed.Set(engine.FieldComm, StormName)
	w.execed.Set(engine.FieldExe, w.path)
	w.execed.Set(engine.FieldArgs, StormName+"\x00x\x00")
	if err := awaitGo(); err != nil {
		return err
	}
	next := time.Now()
	end := next.Add(length)
	for range n {
		if length > 0 && time.Now().After(end) {
			break
		}
		if every > 0 {
			time.Sleep(time.Until(next))
			next = next.Add(every)
		}
		if err := w.runOne(); err != nil {
			return err
		}
	}
	for _, r := range w.records {
		if err := write(r); err != nil {
			return err
		}
	}
	os.Exit(0)
	return nil
}

type stormer struct {
	pid     int
	path    string         // the program that the processes execute
	execed  truth.State    // state after its exec
	records []truth.Record // written after the storm
}

// runOne starts a process and waits for its end.
func (w *stormer) runOne() error {
	before := truth.Clock()
	pid, err := syscall.ForkExec(w.path, []string{StormName, "x"}, &syscall.ProcAttr{})
	if err != nil {
		return fmt.Errorf("start a process: %w", err)
	}
	born := truth.Clock()
	status, err := children.Wait(pid)
	if err != nil {
		return fmt.Errorf("wait for a process: %w", err)
	}
	end := truth.Clock()
	w.records = append(w.records,
		truth.Record{Op: truth.Fork, PID: pid, Earliest: before, Latest: born, Parent: w.pid, Creator: w.pid},
		// ForkExec can return shortly before the exec is complete.
		truth.Record{Op: truth.Exec, PID: pid, Earliest: before, Latest: end, State: w.execed},
		truth.Record{Op: truth.Exit, PID: pid, Earliest: before, Latest: end, Status: int32(status)})
	return nil
}

// Run runs the storm, and returns its short-lived processes and their number per second. begin, if
// not nil, is called when the storm is ready to begin.
func (s Storm) Run(patience time.Duration, begin func() error) (short []*truth.Process, rate float64, err error) {
	run, err := Start(s.Scenario())
	if err != nil {
		return nil, 0, err
	}
	if begin != nil {
		err = begin()
	}
	outcomes, waitErr := run.Wait(patience)
	if err := errors.Join(err, waitErr); err != nil {
		return nil, 0, err
	}
	first, last := truth.Forever, uint64(0)
	for _, l := range outcomes[0].Processes {
		for _, e := range l.Events {
			if e.Kind == engine.KindExec && e.State.Value[engine.FieldComm] == StormName {
				short = append(short, l)
				first, last = min(first, l.Born()), max(last, l.Ended())
			}
		}
	}
	if len(short) > 0 {
		rate = float64(len(short)) / (float64(last-first) / 1e9)
	}
	return short, rate, nil
}
