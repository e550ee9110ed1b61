// Package meter measures the cost of a monitor: CPU time, memory and the run time of its eBPF
// programs. It also runs a backend of quark as a separate process, which either counts or prints
// events.
package meter

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/backends"
)

// monitorEnv is the environment variable that makes Main run a monitor. Its value is the name of a
// backend, with "+print" to print each event instead of counting the events, or with ":BYTES" to
// count with this size of eBPF's ring.
const monitorEnv = "QUARK_FIDELITY_MONITOR"

const printSuffix = "+print"

// Printer returns the environment variable, as NAME=value, of a program that prints the events of a
// backend.
func Printer(backend string) string { return monitorEnv + "=" + backend + printSuffix }

// Main runs the monitor if this process was started as one, and then does not return. A program
// that uses this package calls it first.
func Main() {
	v := os.Getenv(monitorEnv)
	if v == "" {
		return
	}
	v, bytes, _ := strings.Cut(v, ":")
	ring, _ := strconv.Atoi(bytes)
	backend, prints := strings.CutSuffix(v, printSuffix)
	set, err := backends.Parse(backend)
	switch {
	case err != nil:
	case prints:
		err = printEvents(backend, set)
	default:
		err = countEvents(set, ring)
	}
	if err == nil {
		os.Exit(0)
	}
	if prints {
		fmt.Fprintln(os.Stderr, err)
	} else {
		json.NewEncoder(os.Stdout).Encode(Usage{Error: err.Error()})
	}
	os.Exit(1)
}

// Usage is the cost of a monitor since it was ready, and its peak memory.
type Usage struct {
	CPU    time.Duration `json:"cpu"`
	RSS    int64         `json:"rss_kib"`
	Raw    uint64        `json:"raw"` // events of the source
	Lost   uint64        `json:"lost"`
	Silent bool          `json:"-"` // set if the monitor does not count lost events
	// Open is the time to open a backend.
	Open  time.Duration `json:"open"`
	Error string        `json:"error,omitempty"`
}

// countEvents counts events until standard input ends. It prints its usage when it is ready and at
// its end.
func countEvents(set backends.Set, ring int) error {
	before := time.Now()
	q, err := quark.Open(quark.Options{Backends: set, Strict: true, EBPF: quark.EBPFOptions{RingSize: ring}})
	if err != nil {
		return err
	}
	open := time.Since(before)
	debug.FreeOSMemory()
	err = count(q, open)
	return errors.Join(err, q.Close())
}

func count(q *quark.Queue, open time.Duration) error {
	if err := printUsage(q, open); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	if err := skipEvents(ctx, q); err != nil {
		return err
	}
	if err := q.Drain(); err != nil {
		return err
	}
	// A drained queue ends when all events are delivered.
	if err := skipEvents(context.Background(), q); err != nil {
		return err
	}
	return printUsage(q, open)
}

func skipEvents(ctx context.Context, q *quark.Queue) error {
	for _, err := range q.Events(ctx) {
		if err != nil {
			return err
		}
	}
	return nil
}

// printUsage prints the usage so far as a line of JSON.
func printUsage(q *quark.Queue, open time.Duration) error {
	var ru unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &ru); err != nil {
		return err
	}
	s, err := q.Stats()
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(Usage{
		CPU: time.Duration(ru.Utime.Nano() + ru.Stime.Nano()), RSS: Peak(os.Getpid()), Raw: s.Insertions, Lost: s.Lost(), Open: open,
	})
}

// Peak returns the peak memory of a process in KiB. It does not use ru_maxrss, which includes the
// memory of the process from before its exec.
func Peak(pid int) (kib int64) {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, after, _ := strings.Cut(string(b), "VmHWM:")
	fmt.Sscan(after, &kib)
	return kib
}

// Counter is a running process that counts the events of a backend.
type Counter struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	first Usage
}

// Start starts a process that counts the events of a backend, and waits until it is ready. ring is
// the size of eBPF's ring in bytes, or 0 for the default.
func Start(backend string, ring int) (*Counter, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &Counter{cmd: exec.Command(self)}
	c.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s:%d", monitorEnv, backend, ring))
	c.cmd.Stderr = os.Stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewReader(out)
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a monitor: %w", err)
	}
	if c.first, err = c.read(); err != nil {
		c.in.Close()
		c.cmd.Wait() // err already has the reason
		return nil, err
	}
	return c, nil
}

func (c *Counter) read() (u Usage, err error) {
	line, err := c.out.ReadBytes('\n')
	if err != nil {
		return u, fmt.Errorf("read the monitor's report: %w", err)
	}
	if err = json.Unmarshal(line, &u); err == nil && u.Error != "" {
		err = errors.New(u.Error)
	}
	return u, err
}

// Pause stops the process until Resume.
func (c *Counter) Pause() error { return c.cmd.Process.Signal(unix.SIGSTOP) }

// Resume continues the process.
func (c *Counter) Resume() error { return c.cmd.Process.Signal(unix.SIGCONT) }

// Stop ends the process and returns its usage.
func (c *Counter) Stop() (Usage, error) {
	c.in.Close()
	u, err := c.read()
	u.CPU -= c.first.CPU
	u.Raw -= c.first.Raw
	return u, errors.Join(err, c.cmd.Wait())
}
