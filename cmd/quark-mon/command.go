package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/cmd/quark-mon/internal/line"
	"github.com/quark-linux/quark/internal/shellstatus"
)

// statusError is the exit status of the command of quark-mon -- COMMAND.
type statusError int

func (s statusError) Error() string { return fmt.Sprintf("the command exited with %d", int(s)) }

// child is a monitored command.
type child struct {
	*exec.Cmd
	running *atomic.Pointer[child] // set to this child when it runs
	began   time.Time
	took    time.Duration // run time, set before ended is closed
	ended   chan struct{}
	own     map[quark.Identity]bool // the command's processes

	screen    *screen
	failed    []byte // lines for the processes that failed
	processes uint64 // number of ended processes
	failures  int
	cpu       time.Duration
	peak      uint64 // largest memory of a process, in bytes
	least     uint64 // largest memory of quark-mon at the start, in bytes
	unknown   bool   // the resource usage of a process is unknown
}

// maxFailures limits the printed lines about failed processes.
const maxFailures = 20

func newChild(command []string, running *atomic.Pointer[child]) *child {
	c := &child{Cmd: exec.Command(command[0], command[1:]...), running: running, ended: make(chan struct{}), own: make(map[quark.Identity]bool)}
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	os.FindProcess(os.Getpid()) // forks once to test pidfds: not a process of the command
	return c
}

// start starts the command, and calls done when its process has ended.
func (c *child) start(clock *quark.Clock, done func()) error {
	columns, err := line.Parse("pid,status,duration,cpu_time,peak_rss,args")
	if err != nil {
		return err
	}
	c.screen = &screen{fd: terminal(os.Stderr), Printer: line.New(line.Options{Columns: columns, Clock: clock})}
	c.screen.fit()
	c.began = time.Now()
	if err := c.Start(); err != nil {
		fmt.Fprintf(os.Stderr, "quark-mon: %v\n", err)
		return statusError(shellstatus.OfStart(err))
	}
	c.least = ownPeakRSS()
	c.running.Store(c)
	go func() {
		c.Wait()
		c.took = time.Since(c.began)
		close(c.ended)
		done()
	}()
	return nil
}

// signal passes a signal on. On Ctrl-C the terminal signals the command itself.
func (c *child) signal(s os.Signal) {
	if s != os.Interrupt {
		c.Process.Signal(s)
	}
}

// owns reports whether an event belongs to the command. quark-mon gets the FORK of each process of
// the command. A check is necessary, because the filter also passes events of processes with
// unknown ancestors.
func (c *child) owns(ev *quark.Event) bool {
	p := ev.Process
	if p == nil {
		return true
	}
	id, _ := p.Identity()
	if parent := p.Birth.Parent; int(parent.PID) == os.Getpid() || c.own[parent] {
		c.own[id] = true
	}
	return c.own[id]
}

// count adds the end of a process.
func (c *child) count(ev *quark.Event) {
	if ev.Thread || ev.Process == nil || ev.Events&(quark.EventExit|quark.EventGone) == 0 {
		return
	}
	p := ev.Process
	c.processes++
	if u := &p.Usage; p.Known.Has(quark.FieldCPUTime) && p.Known.Has(quark.FieldPeakRSS) {
		c.cpu += time.Duration(u.UserTime + u.SystemTime)
		c.peak = max(c.peak, u.PeakRSS)
	} else {
		c.unknown = true
	}
	if p.Known.Has(quark.FieldExit) && (p.Exit.Signal() != 0 || p.Exit.Code() != 0) {
		if c.failures++; c.failures <= maxFailures {
			c.failed = c.screen.Append(c.failed, ev)
		}
	}
}

// report prints the failed processes, and the resources that all processes used together.
func (c *child) report(w io.Writer) {
	var b bytes.Buffer
	if c.failures > 0 {
		fmt.Fprintf(&b, "\nfailed:\n%s", c.failed)
	}
	if more := c.failures - maxFailures; more > 0 {
		fmt.Fprintf(&b, "and %d more\n", more)
	}
	fmt.Fprintf(&b, "\n%s: %s, ", c.name(), countNoun(uint64(len(c.own)), "process", "processes"))
	if running := uint64(len(c.own)) - c.processes; running > 0 {
		fmt.Fprintf(&b, "%d still running, ", running)
	}
	fmt.Fprintf(&b, "%d failed, %.2f s", c.failures, c.took.Seconds())
	if !c.unknown {
		limit := ""
		if c.peak <= c.least { // until its execve a child has quark-mon's memory
			limit = "at most "
		}
		fmt.Fprintf(&b, ", CPU %.2f s, peak memory %s%.1f MiB", c.cpu.Seconds(), limit, float64(c.peak)/(1<<20))
	}
	b.WriteByte('\n')
	w.Write(b.Bytes())
}

// name returns the command in shell syntax, cut to half the width of a terminal.
func (c *child) name() string {
	var words []string
	for room := 40; room > 0 && len(words) < len(c.Args); {
		word, taken := line.Fit(c.Args[len(words)], room)
		words = append(words, word)
		room -= taken + 1
	}
	if text := strings.Join(words, " "); len(words) < len(c.Args) && !strings.HasSuffix(text, ">") {
		return text + " >"
	}
	return strings.Join(words, " ")
}

// status returns the exit status of the command as an error, nil for 0.
func (c *child) status() error {
	if s := shellstatus.OfWait(c.ProcessState.Sys().(syscall.WaitStatus)); s != 0 {
		return statusError(s)
	}
	return nil
}
