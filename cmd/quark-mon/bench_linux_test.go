package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/tinyelf"
)

// benchProcesses is the load of a run: the number of processes that fork, exec and exit.
const benchProcesses = 20000

// BenchmarkMonitor compares the CPU time of quark-mon and forkstat under the same load, one after
// the other. It measures the whole run, and the time after the monitor is ready. Load times are
// relative to the load without a monitor. The benchmark needs root, forkstat, and half a minute a
// run. No other program may fork meanwhile: then raw/process is 3.
//
//	go test -run - -bench Monitor -benchtime 1x ./cmd/quark-mon
func BenchmarkMonitor(b *testing.B) {
	self, programs := benchmarked(b, 0)
	forkstat, err := exec.LookPath("forkstat")
	if err != nil {
		b.Skip("needs forkstat: apt-get install forkstat")
	}
	for _, args := range []string{"-b -M -j", "-c -M -j", "-c -M --comm * -j"} {
		b.Run("quark-mon "+strings.TrimSuffix(args, " -j"), func(b *testing.B) {
			for range b.N {
				alone := load(b, benchProcesses, programs...)
				base := measure(b, exec.Command(forkstat), benchProcesses, programs...)
				r := measure(b, quarkMon(self, args), benchProcesses, programs...)
				alone = min(alone, load(b, benchProcesses, programs...))
				b.ReportMetric(r.cpu.Seconds()/base.cpu.Seconds(), "x-forkstat-cpu")
				b.ReportMetric(r.ready.Seconds()/base.ready.Seconds(), "x-forkstat-cpu-when-ready")
				b.ReportMetric(float64(r.ready.Microseconds())/benchProcesses, "us-cpu/process")
				b.ReportMetric(float64(r.rss)/1024, "MiB-peak-rss")
				b.ReportMetric(float64(r.lost), "lost")
				b.ReportMetric(float64(r.raw)/benchProcesses, "raw/process")
				b.ReportMetric(r.load.Seconds()/alone.Seconds(), "x-load-time")
				b.ReportMetric(base.load.Seconds()/alone.Seconds(), "x-load-time-forkstat")
			}
		})
	}
}

// BenchmarkExits measures the CPU time of quark-mon after it is ready, for 1,000 failing processes
// and 10,000 others. It measures three cases: all events, only the failing EXITs of all events, and
// a queue with only failing EXITs.
func BenchmarkExits(b *testing.B) {
	self, programs := benchmarked(b, append(make([]uint8, 10), 1)...)
	for _, backend := range []string{"-b", "-c", "-c -p"} {
		for _, kinds := range []string{"", " --exits nonzero", " --events exit --exits nonzero"} {
			b.Run(backend+kinds, func(b *testing.B) {
				for range b.N {
					r := measure(b, quarkMon(self, backend+" -M -j"+kinds), 11000, programs...)
					b.ReportMetric(float64(r.ready.Milliseconds()), "ms-cpu")
					b.ReportMetric(float64(r.raw), "raw")
					b.ReportMetric(float64(r.lost), "lost")
				}
			})
		}
	}
}

// benchmarked returns this program, for quarkMon, and the programs of the load. Any user can
// execute them, and they end with the given statuses.
func benchmarked(b *testing.B, statuses ...uint8) (self string, programs []string) {
	b.Helper()
	if os.Getuid() != 0 {
		b.Skip("needs root")
	}
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		b.Fatal(err)
	}
	for i, status := range statuses {
		programs = append(programs, filepath.Join(dir, strconv.Itoa(i)))
		if err := tinyelf.Write(programs[i], status); err != nil {
			b.Fatal(err)
		}
	}
	return self, programs
}

// quarkMon returns the command with options.
func quarkMon(self, args string) *exec.Cmd {
	cmd := exec.Command(self, strings.Fields(args)...)
	cmd.Env = append(os.Environ(), "QUARK_MON_RUN=1")
	return cmd
}

type measured struct {
	cpu       time.Duration
	ready     time.Duration // of it, since the monitor was ready
	load      time.Duration
	rss       int64 // KiB
	lost, raw uint64
}

// measure runs the load under a monitor, and returns the resources that the monitor used.
func measure(b *testing.B, cmd *exec.Cmd, processes int, programs ...string) (r measured) {
	b.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	// A monitor is ready when it has printed something: quark-mon its first statistics,
	// forkstat a process.
	lines := bufio.NewReaderSize(out, 1<<20)
	first := make(chan error, 1)
	last := make(chan []byte, 1)
	go func() {
		_, err := lines.ReadBytes('\n')
		first <- err
		var tail []byte
		for {
			line, err := lines.ReadSlice('\n')
			if len(line) > 0 {
				tail = append(tail[:0], line...)
			}
			if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
				last <- tail
				io.Copy(io.Discard, out)
				return
			}
		}
	}()
	for ready := false; !ready; {
		select {
		case err := <-first:
			if err != nil {
				b.Fatalf("%v ended before it was ready: %v", cmd.Args, err)
			}
			ready = true
		case <-time.After(50 * time.Millisecond):
			exec.Command("true").Run()
		}
	}
	opening := cpuTime(b, cmd.Process.Pid)
	r.load = load(b, processes, programs...)
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		b.Fatal(err)
	}
	tail := <-last
	cmd.Wait()
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	r.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	r.ready = r.cpu - opening
	r.rss = int64(usage.Maxrss)
	if bytes.HasPrefix(tail, []byte("{")) {
		var s statsRecord
		if err := json.Unmarshal(tail, &s); err != nil {
			b.Fatal(err)
		}
		r.lost, r.raw = s.Lost, s.Insertions
	}
	return r
}

// cpuTime returns the user and system time of all threads of a process.
func cpuTime(b *testing.B, pid int) time.Duration {
	const scheduler = 2 // CPUCLOCK_SCHED of include/linux/posix-timers.h
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduler), &ts); err != nil {
		b.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

// load runs processes one after the other. Each forks, executes one of the programs in turn, and
// exits.
func load(b *testing.B, processes int, programs ...string) time.Duration {
	begin := time.Now()
	for i := range processes {
		p, err := os.StartProcess(programs[i%len(programs)], []string{"tiny"}, &os.ProcAttr{})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := p.Wait(); err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(begin)
}
