package bench

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/quark-linux/quark/fidelity/meter"
	"github.com/quark-linux/quark/fidelity/scenario"
)

// Result is one monitor under one load.
type Result struct {
	Monitor string        `json:"monitor"`
	Mode    scenario.Mode `json:"mode"`
	Rate    int           `json:"rate"`    // wanted, lives a second; 0 is as many as there can be
	Offered float64       `json:"offered"` // that there were
	CPU     time.Duration `json:"cpu_ns"`  // of the monitor, for each life
	Slow    float64       `json:"slowdown"`
	Lost    uint64        `json:"lost"`   // reported as lost; 0 where the program reports none
	Silent  bool          `json:"silent"` // it does not count what it loses
	RSS     int64         `json:"peak_rss_kib"`
}

// Options say what is measured.
type Options struct {
	Monitors []string // see Monitors
	Modes    []scenario.Mode
	Rates    []int         // lives a second
	Length   time.Duration // of each load, about
	Patience time.Duration
	Progress func(string)
}

// foreign are the programs of others, and what shows that they are ready: their
// first line.
var foreign = map[string][]string{
	"forkstat":  {"forkstat"},
	"execsnoop": {"execsnoop"},
	"bpftrace":  {"bpftrace", "-e", `BEGIN { printf("ready\n"); } tracepoint:sched:sched_process_fork,tracepoint:sched:sched_process_exec,tracepoint:sched:sched_process_exit { printf("%d %s\n", pid, comm); }`},
}

// Monitors are those that can be measured here, with the reason for each that can't.
func Monitors() (list []string, absent []error) {
	for _, name := range []string{"ebpf", "kprobe", "cnproc", "cnproc+count"} {
		m, err := meter.Start(name)
		if err == nil {
			_, err = m.Stop()
		}
		if err != nil {
			absent = append(absent, fmt.Errorf("%s: %w", name, err))
			continue
		}
		list = append(list, name)
	}
	for _, name := range []string{"forkstat", "execsnoop", "bpftrace"} {
		if _, err := exec.LookPath(name); err != nil {
			absent = append(absent, fmt.Errorf("%s: not installed", name))
			continue
		}
		list = append(list, name)
	}
	return list, absent
}

// Run measures every monitor under every load, and each load alone before and after.
func Run(o Options) (list []Result, err error) {
	for _, mode := range o.Modes {
		for _, rate := range o.Rates {
			n := int(float64(rate) * o.Length.Seconds())
			if rate == 0 {
				n = int(4000 * o.Length.Seconds())
			}
			load := scenario.Storm{Processes: n, Workers: 2, Rate: rate, Mode: mode, Bare: true}
			alone, err := load.Time(o.Patience)
			if err != nil {
				return list, err
			}
			for _, name := range o.Monitors {
				o.Progress(fmt.Sprintf("%s, %s at %d/s", name, mode, rate))
				r, took, err := measure(name, load, o.Patience)
				if err != nil {
					return list, fmt.Errorf("%s: %w", name, err)
				}
				r.Slow = took.Seconds() / alone.Seconds()
				list = append(list, *r)
			}
		}
	}
	return list, nil
}

func measure(name string, s scenario.Storm, patience time.Duration) (*Result, time.Duration, error) {
	r := &Result{Monitor: name, Mode: s.Mode, Rate: s.Rate}
	var took time.Duration
	var cpu time.Duration
	if command, ok := foreign[name]; ok {
		m, err := startForeign(command)
		if err != nil {
			return nil, 0, err
		}
		took, err = s.Time(patience)
		used, rss, err2 := m.stop()
		if err = errors.Join(err, err2); err != nil {
			return nil, 0, err
		}
		cpu, r.RSS, r.Silent = used, rss, true
	} else {
		m, err := meter.Start(name)
		if err != nil {
			return nil, 0, err
		}
		took, err = s.Time(patience)
		u, err2 := m.Stop()
		if err = errors.Join(err, err2); err != nil {
			return nil, 0, err
		}
		cpu, r.RSS, r.Lost = u.CPU, u.RSS, u.Lost
	}
	r.Offered = float64(s.Processes) / took.Seconds()
	r.CPU = cpu / time.Duration(s.Processes)
	return r, took, nil
}

// program is a monitor of somebody else.
type program struct {
	cmd  *exec.Cmd
	done chan struct{}
	base time.Duration // CPU time when it was ready
}

func startForeign(command []string) (*program, error) {
	p := &program{cmd: exec.Command(command[0], command[1:]...), done: make(chan struct{})}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	first := make(chan error, 1)
	go func() {
		defer close(p.done)
		lines := bufio.NewReaderSize(out, 1<<20)
		_, err := lines.ReadBytes('\n')
		first <- err
		io.Copy(io.Discard, lines)
	}()
	// It is ready when it has printed something, perhaps about a process.
	for end := time.Now().Add(20 * time.Second); ; {
		select {
		case err := <-first:
			if err != nil {
				p.stop()
				return nil, fmt.Errorf("it ended before it was ready: %w", err)
			}
			p.base = cpuOf(p.cmd.Process.Pid)
			return p, nil
		case <-time.After(50 * time.Millisecond):
			exec.Command("true").Run()
		}
		if time.Now().After(end) {
			p.stop()
			return nil, errors.New("it was not ready after 20 s")
		}
	}
}

func (p *program) stop() (cpu time.Duration, rss int64, err error) {
	rss = peakOf(p.cmd.Process.Pid)
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		return 0, 0, err
	}
	<-p.done
	p.cmd.Wait() // killed by a signal, or not: it is over
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime() - p.base, rss, nil
}

// cpuOf is the CPU time that a process has used; that of its first thread, which is
// all it has.
func cpuOf(pid int) time.Duration {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
	var ns int64
	fmt.Sscan(string(b), &ns)
	return time.Duration(ns)
}

func peakOf(pid int) (kib int64) {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return meter.Peak(b)
}
