package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/tinyelf"
)

// costEnv is the variable that says how many processes to start. 2000 are enough to compare
// CPU times, which takes minutes under software emulation.
const costEnv = "QUARK_TEST_PROCESSES"

// costLimit is how much more CPU time than eBPF a backend's monitor may take.
var costLimit = map[string]float64{"kprobe": 1.5}

// monitorCost lets quark-mon -M count processes that fork, exec and exit: no event may be
// lost. A backend that has a limit runs beside eBPF, so that both see the same load at the
// same time and a busy machine slows both. The time spent in probes is the CPU time of the
// load, not of quark-mon. To measure, in a guest:
//
//	QUARK_TEST_PROCESSES=5000 quark-test -v --deadline 10m -k t_cost
func monitorCost(t *test) {
	asked := os.Getenv(costEnv)
	if asked == "" {
		t.Skipf("it measures, for minutes, when asked to: %s is how many processes", costEnv)
	}
	n, err := strconv.Atoi(asked)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q: a number of processes is wanted", costEnv, asked)
	}
	program := filepath.Join(filepath.Dir(t.self()), "quark-mon")
	if _, err := os.Stat(program); err != nil {
		t.Skipf("%v: quark-mon has to lie beside quark-test", err)
	}
	all := []*monitor{t.monitor(program, t.backend())}
	limit := costLimit[t.backend()]
	if limit > 0 {
		all = append(all, t.monitor(program, "ebpf"))
	}
	tiny := filepath.Join(t.TempDir(), "tiny")
	if err := tinyelf.Write(tiny, 0); err != nil {
		t.Fatalf("%v", err)
	}
	begin := time.Now()
	for range n {
		p := t.spawn(script().Exec(tiny, []string{"tiny", "of few", "arguments"}, []string{"PATH=/bin"}), barefork{})
		t.reapBlind(p)
		if p.status != 0 {
			t.Fatalf("the scenario did not do its work: status %#x", p.status)
		}
		p.Free() // else each fork would have to copy the mappings of all before
	}
	took := time.Since(begin)
	for _, m := range all {
		m.settle(t, uint64(3*n))
		t.Logf("%s: %d processes in %v, %.1f us of CPU time each, %d records, %d lost",
			m.backend, n, took.Round(time.Millisecond), m.used.Seconds()*1e6/float64(n), m.last.Insertions, m.last.Lost)
		if m.last.Lost != 0 {
			t.Errorf("%s lost %d events: %v", m.backend, m.last.Lost, m.last.LostBy)
		}
		m.end(t)
	}
	if limit > 0 {
		ratio := all[0].used.Seconds() / all[1].used.Seconds()
		t.Logf("%.2f of the CPU time of ebpf", ratio)
		if ratio > limit {
			t.Errorf("%s takes %.2f of the CPU time of ebpf, which may be %.1f", t.backend(), ratio, limit)
		}
	}
}

// monitor is a quark-mon that counts.
type monitor struct {
	backend string
	cmd     *exec.Cmd
	lines   chan monitorStats // the newest, closed at the end
	broken  error             // why lines was closed
	last    monitorStats
	before  time.Duration // CPU time when it had started
	used    time.Duration // since then
}

// monitorStats has the members of a line of quark-mon -M -j that are used.
type monitorStats struct {
	Time       time.Time         `json:"time"`
	Insertions uint64            `json:"insertions"`
	Removals   uint64            `json:"removals"`
	Lost       uint64            `json:"lost"`
	LostBy     map[string]uint64 `json:"lost_by"`
}

// monitor starts a quark-mon and waits until it counts.
func (t *test) monitor(program, backend string) *monitor {
	option := map[string]string{"ebpf": "-b", "kprobe": "-k", "cnproc": "-c"}[backend]
	m := &monitor{backend: backend, cmd: exec.Command(program, option, "-M", "-j"), lines: make(chan monitorStats, 1)}
	var complaint strings.Builder
	m.cmd.Stderr = &complaint
	out, err := m.cmd.StdoutPipe()
	if err == nil {
		err = m.cmd.Start()
	}
	if err != nil {
		t.Fatalf("start quark-mon %s: %v", option, err)
	}
	t.Cleanup(func() {
		if m.cmd.ProcessState == nil {
			m.cmd.Process.Kill()
			m.cmd.Wait()
		}
	})
	go m.follow(out)
	t.Waiting("quark-mon " + option + " to count")
	var ok bool
	if m.last, ok = <-m.lines; !ok {
		m.cmd.Wait()
		t.Fatalf("quark-mon %s: %v: %s", option, m.broken, strings.TrimSpace(complaint.String()))
	}
	m.before = m.cpuTime(t)
	return m
}

// follow reads the statistics of each second and keeps the newest. A monitor
// whose output nobody reads stops when the pipe is full, after some three
// minutes, and loses events.
func (m *monitor) follow(out io.Reader) {
	for d := json.NewDecoder(out); ; {
		var s monitorStats
		if m.broken = d.Decode(&s); m.broken != nil {
			close(m.lines)
			io.Copy(io.Discard, out)
			return
		}
		select {
		case <-m.lines:
		default:
		}
		m.lines <- s
	}
}

// settle waits until the monitor has read and delivered everything from before. On a busy
// machine it always holds some events.
func (m *monitor) settle(t *test, insertions uint64) {
	t.Waiting(fmt.Sprintf("%d records in quark-mon with %s", insertions, m.backend))
	for begin := time.Now(); m.last.Time.Before(begin) || m.last.Insertions+m.last.Lost < insertions; {
		m.next(t)
	}
	for target := m.last.Insertions; m.last.Removals < target; {
		m.next(t)
	}
	m.used = m.cpuTime(t) - m.before
}

func (m *monitor) next(t *test) {
	var ok bool
	select {
	case m.last, ok = <-m.lines:
		if !ok {
			t.Fatalf("quark-mon with %s: %v", m.backend, m.broken)
		}
	case <-time.After(time.Until(t.Deadline)):
		t.Hang(t.Limit, fmt.Sprintf("quark-mon with %s, which has %d records", m.backend, m.last.Insertions))
	}
}

// cpuTime returns the user and system time of all threads so far.
func (m *monitor) cpuTime(t *test) time.Duration {
	const scheduler = 2 // CPUCLOCK_SCHED of include/linux/posix-timers.h
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^m.cmd.Process.Pid<<3|scheduler), &ts); err != nil {
		t.Fatalf("read the CPU time of quark-mon: %v", err)
	}
	return time.Duration(ts.Nano())
}

// end ends the monitor as a person would.
func (m *monitor) end(t *test) {
	t.Waiting("quark-mon with " + m.backend + " to end")
	if err := m.cmd.Process.Signal(unix.SIGINT); err != nil {
		t.Fatalf("%v", err)
	}
	for range m.lines {
	}
	if err := m.cmd.Wait(); err != nil {
		t.Errorf("quark-mon with %s: %v", m.backend, err)
	}
}
