package scenario

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
	bare "github.com/quark-linux/quark/internal/barefork"
	"github.com/quark-linux/quark/internal/children"
	"github.com/quark-linux/quark/internal/tinyelf"
)

// Storm is a load of many short lives.
type Storm struct {
	Processes int // total number
	Workers   int // processes that start them, each one after the other
	Rate      int // processes per second of all workers together; 0 is full speed
	Mode      Mode
	// Length, if not 0, ends the storm after this time even if fewer processes were started.
	Length time.Duration
	// Bare storms record no short lives: recording would distort a measurement of cost.
	Bare bool
}

// StormName is the storm in the list of scenarios.
const StormName = "storm"

// Mode is the kind of lives of a storm.
type Mode string

// The kinds of lives.
const (
	ForkExit     Mode = "fork+exit"
	ForkExecExit Mode = "fork+exec+exit"
	Threads      Mode = "threads" // threads of the workers, created and ended
	Exits        Mode = "exit"    // exits of processes that exist before the storm begins
	// Lives fork, exec and end after each of Lifetimes in turn, many at a time.
	Lives Mode = "lives"
)

// Lifetimes are those of [Lives], from the exec to the end.
var Lifetimes = []time.Duration{
	time.Millisecond, 3 * time.Millisecond, 10 * time.Millisecond, 30 * time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond, time.Second,
}

// LifeName is the comm of a process of a storm of [Lives].
func LifeName(lifetime time.Duration) string { return lifePrefix + lifetime.String() }

const lifePrefix = "live-"

const stormPrefix = StormName + ","

// Scenario returns the storm as a scenario. Its name encodes all options.
func (s Storm) Scenario() Scenario {
	return Scenario{
		Name: fmt.Sprintf("%s%d,%d,%d,%t,%d,%s", stormPrefix, s.Processes, s.Workers, s.Rate, s.Bare, s.Length, s.Mode),
		Doc:  fmt.Sprintf("%d processes by %d workers, %d a second", s.Processes, s.Workers, s.Rate),
		run:  s.run,
		// The workers start before the storm begins.
		Early: true,
	}
}

// parseStorm reads the name of a storm.
func parseStorm(name string) (s Storm, ok bool) {
	arg, ok := strings.CutPrefix(name, stormPrefix)
	if !ok {
		return s, false
	}
	n, err := fmt.Sscanf(arg, "%d,%d,%d,%t,%d,%s", &s.Processes, &s.Workers, &s.Rate, &s.Bare, &s.Length, &s.Mode)
	return s, err == nil && n == 6 && s.Processes > 0 && s.Workers > 0 && s.Rate >= 0 && s.Length >= 0
}

// defaultStorm is the storm in the list.
var defaultStorm = Storm{Processes: scale(1000, 100), Workers: 4, Mode: ForkExecExit}

// run starts the workers, which wait, and then lets all go on at once.
func (s Storm) run(d *director) {
	d.must(tinyelf.Write(filepath.Join(d.dir, StormName), 0))
	if s.Mode == Lives {
		for _, lifetime := range Lifetimes {
			d.must(tinyelf.WriteSleeper(filepath.Join(d.dir, LifeName(lifetime)), lifetime, 0))
		}
	}
	gate := d.gate()
	ready := d.gate()
	var workers []int
	for i := range s.Workers {
		share := s.Processes / s.Workers
		if i < s.Processes%s.Workers {
			share++
		}
		pause := 0
		if s.Rate > 0 {
			pause = int(time.Second) * s.Workers / s.Rate
		}
		workers = append(workers, d.spawn(d.self, &syscall.ProcAttr{
			Dir:   d.dir,
			Env:   []string{fmt.Sprintf("%s=worker:%d:%d:%s:%t:%d", Env, share, pause, s.Mode, s.Bare, s.Length)},
			Files: []uintptr{0, 1, 2, truthFD, uintptr(gate.r), uintptr(ready.w), procFD},
		}))
	}
	for range workers {
		_, err := unix.Read(ready.r, make([]byte, 1))
		d.must(err)
	}
	d.must(pause())
	for range workers {
		gate.open()
	}
	for _, pid := range workers {
		d.wantCode(d.reapSpawned(pid), 0)
	}
}

// worker is the role of a process that starts its share of a storm.
func worker(args []string) error {
	if len(args) != 5 {
		return fmt.Errorf("not a role")
	}
	n, err := strconv.Atoi(args[0])
	every, err2 := strconv.Atoi(args[1])
	length, err3 := strconv.Atoi(args[4])
	if err := errors.Join(err, err2, err3, takeFDs(3, unix.O_CLOEXEC, truthFD, goFD, readyFD, procFD), report(truth.Exec)); err != nil {
		return err
	}
	w := &stormer{pid: os.Getpid(), mode: Mode(args[2])}
	if w.dir, err = os.Getwd(); err != nil {
		return err
	}
	w.executes(StormName)
	if w.mode == Exits {
		if err := w.gather(n); err != nil {
			return err
		}
	}
	if err := pause(); err != nil {
		return err
	}
	next := time.Now()
	end := next.Add(time.Duration(length))
	var over chan error
	if w.mode == Lives {
		over = make(chan error, 1)
		go func() { over <- w.reap(n) }()
	}
	for i := range n {
		if length > 0 && time.Now().After(end) {
			break
		}
		if w.mode == Lives {
			w.executes(LifeName(Lifetimes[i%len(Lifetimes)]))
		}
		if every > 0 {
			time.Sleep(time.Until(next))
			next = next.Add(time.Duration(every))
		}
		if err := w.one(); err != nil {
			return err
		}
	}
	if w.mode == Lives {
		if err := <-over; err != nil {
			return err
		}
		w.bound()
	}
	if args[3] != "true" {
		for _, r := range append(w.records, w.ends...) {
			if err := write(r); err != nil {
				return err
			}
		}
	}
	os.Exit(0)
	return nil
}

// stormer is the state of a worker.
type stormer struct {
	pid     int
	mode    Mode
	dir     string          // of the programs
	path    string          // the program that the processes execute
	execed  truth.State     // the state of a process that has executed it
	records []truth.Record  // written after the storm
	waiting []*bare.Process // Exits only
	ends    []truth.Record  // Lives only, written by reap
}

// executes sets the program that the processes execute.
func (w *stormer) executes(name string) {
	w.path = filepath.Join(w.dir, name)
	w.execed = truth.State{}
	w.execed.Set(engine.FieldComm, name)
	w.execed.Set(engine.FieldFilename, w.path)
	w.execed.Set(engine.FieldCmdline, name+"\x00x\x00")
}

// reap waits for the ends of n processes that start starts, as soon as each ends: what /proc shows
// of a process that has ended and was not waited for is more than it shows of most.
func (w *stormer) reap(n int) error {
	began := truth.Clock() // each may have ended some time before it is waited for
	for len(w.ends) < n {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.ECHILD):
			time.Sleep(time.Millisecond) // the next one comes
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("wait for a process: %w", err)
		default:
			w.ends = append(w.ends, truth.Record{Op: truth.Exit, PID: pid, Earliest: began, Latest: truth.Clock(), Status: int32(status)})
		}
	}
	return nil
}

// bound sets until when each exec was complete: its program sleeps for the lifetime after it, and
// had ended when it was waited for. A pid that was used again has its ends in the order of its
// births.
func (w *stormer) bound() {
	ends := make(map[int][]uint64)
	for _, r := range w.ends {
		ends[r.PID] = append(ends[r.PID], r.Latest)
	}
	for i := range w.records {
		r := &w.records[i]
		if r.Op != truth.Exec {
			continue
		}
		end := ends[r.PID][0]
		ends[r.PID] = ends[r.PID][1:]
		for _, lifetime := range Lifetimes {
			if r.State.Value[engine.FieldComm] == LifeName(lifetime) {
				r.Latest = end - uint64(lifetime)
			}
		}
	}
}

// start starts a process of Lives.
func (w *stormer) start() error {
	before := truth.Clock()
	pid, err := syscall.ForkExec(w.path, []string{filepath.Base(w.path), "x"}, &syscall.ProcAttr{})
	if err != nil {
		return fmt.Errorf("start a process: %w", err)
	}
	born := truth.Clock()
	w.born(pid, before, born)
	// ForkExec returns before the exec is complete: see bound.
	w.records = append(w.records, truth.Record{Op: truth.Exec, PID: pid, Earliest: before, State: w.execed})
	return nil
}

// gather starts the processes of a storm of exits, which wait to be killed.
func (w *stormer) gather(n int) error {
	for range n {
		// The processes end with the worker, should it fail.
		s := new(bare.Script).Call("prctl", unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, int(unix.SIGKILL)).Stop()
		before := truth.Clock()
		p, err := bare.Start(s, bare.Options{Share: true})
		if err != nil {
			return fmt.Errorf("start a process: %w", err)
		}
		w.born(p.PID, before, truth.Clock())
		w.waiting = append(w.waiting, p)
	}
	return nil
}

// born records the fork of a process.
func (w *stormer) born(pid int, earliest, latest uint64) {
	w.records = append(w.records, truth.Record{Op: truth.Fork, PID: pid, Earliest: earliest, Latest: latest, Parent: w.pid, Creator: w.pid})
}

// one starts a process, or kills one that gather started, and waits for its end.
func (w *stormer) one() (err error) {
	var pid int
	before := truth.Clock()
	switch w.mode {
	case Threads:
		return oneThread()
	case Lives:
		return w.start()
	case ForkExecExit:
		pid, err = syscall.ForkExec(w.path, []string{filepath.Base(w.path), "x"}, &syscall.ProcAttr{})
	default:
		var p *bare.Process
		if w.mode == Exits {
			p, w.waiting = w.waiting[0], w.waiting[1:]
			err = unix.Kill(p.PID, unix.SIGKILL)
		} else {
			p, err = bare.Start(new(bare.Script).Exit(0), bare.Options{Share: true})
		}
		if err == nil {
			pid = p.PID
			defer p.Free()
		}
	}
	if err != nil {
		return fmt.Errorf("start a process: %w", err)
	}
	born := truth.Clock()
	status, err := children.Wait(pid)
	if err != nil {
		return fmt.Errorf("wait for a process: %w", err)
	}
	end := truth.Clock()
	if w.mode != Exits {
		w.born(pid, before, born)
	}
	if w.mode == ForkExecExit {
		// ForkExec returns shortly before the exec is complete.
		w.records = append(w.records, truth.Record{Op: truth.Exec, PID: pid, Earliest: before, Latest: end, State: w.execed})
	}
	w.records = append(w.records, truth.Record{Op: truth.Exit, PID: pid, Earliest: before, Latest: end, Status: int32(status)})
	return nil
}

// oneThread starts a thread and waits until it is about to end. The thread ends because the
// goroutine that is locked to it does.
func oneThread() error {
	done := make(chan bool)
	go func() {
		runtime.LockOSThread()
		close(done)
	}()
	<-done
	return nil
}

// Time runs the storm and returns its duration. watch, if not nil, is called when the workers are
// ready, before the storm begins.
func (s Storm) Time(patience time.Duration, watch func() error) (time.Duration, error) {
	run, err := Start(s.Scenario())
	if err != nil {
		return 0, err
	}
	if watch != nil {
		if err := watch(); err != nil {
			run.close()
			return 0, err
		}
	}
	begin := time.Now()
	_, err = run.Wait(patience)
	return time.Since(begin), err
}

// Speed runs the storm and returns how many processes ran per second.
func (s Storm) Speed(patience time.Duration) (float64, error) {
	took, err := s.Time(patience, nil)
	return float64(s.Processes) / took.Seconds(), err
}

// ShortLives returns the short lives of a storm, without its workers, and their rate per second.
func ShortLives(all []*truth.Life) (lives []*truth.Life, rate float64) {
	first, last := truth.Forever, uint64(0)
	for _, l := range all {
		for _, e := range l.Events {
			if name := e.State.Value[engine.FieldComm]; e.Kind == engine.KindExec && (name == StormName || strings.HasPrefix(name, lifePrefix)) {
				lives = append(lives, l)
				first, last = min(first, l.Born()), max(last, l.Ended())
			}
		}
	}
	if len(lives) > 0 {
		rate = float64(len(lives)) / (float64(last-first) / 1e9)
	}
	return lives, rate
}
