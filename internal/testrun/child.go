package testrun

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// childMark is the first argument of a child process.
const childMark = "__run"

// report is a line that the child sends on descriptor 3: what it waits for, or
// how the test ended.
type report struct {
	Waiting string   `json:"waiting,omitempty"`
	Verdict *verdict `json:"verdict,omitempty"`
}

// Child runs a test if this process was started for one, and does not return
// then. A program that uses this package calls it first.
func (s *Suite) Child() {
	if len(os.Args) != 7 || os.Args[1] != childMark {
		return
	}
	limit, err1 := strconv.ParseInt(os.Args[4], 10, 64)
	verbose, err2 := strconv.Atoi(os.Args[5])
	test := s.find(os.Args[2])
	if err1 != nil || err2 != nil || test == nil {
		fmt.Fprintf(os.Stderr, "%s: bad arguments of a child: %q\n", s.Program, os.Args)
		os.Exit(2)
	}
	pipe := os.NewFile(3, "report")
	unix.CloseOnExec(3)
	send := func(r report) {
		line, _ := json.Marshal(r) // strings are no error
		pipe.Write(append(line, '\n'))
	}
	t := &T{
		Name: test.Name, Backend: os.Args[3], Verbose: verbose, Limit: time.Duration(limit), out: os.Stdout, tmp: os.Args[6],
		progress: func(what string) { send(report{Waiting: what}) },
	}
	v := t.run(test)
	send(report{Verdict: &v})
	os.Exit(0)
}

// output collects what a child writes.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// maxOutput bounds the memory for the output of a test gone wild.
const maxOutput = 16 << 20

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.buf.Len() < maxOutput {
		o.buf.Write(b)
	}
	return len(b), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// killAfter is how long a child has beyond its deadline to say itself what it
// was waiting for.
const killAfter = 2 * time.Second

// supervise runs a job in a child process of its own group.
func (r *runner) supervise(j Job, tmp string, log io.Writer) (v verdict) {
	outR, outW, err := os.Pipe()
	if err != nil {
		return verdict{Fail, fmt.Sprintf("make a pipe: %v", err)}
	}
	repR, repW, err := os.Pipe()
	if err != nil {
		outR.Close()
		outW.Close()
		return verdict{Fail, fmt.Sprintf("make a pipe: %v", err)}
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return verdict{Fail, err.Error()}
	}
	defer null.Close()
	limit := j.Test.limit(r.deadline)
	argv := []string{r.suite.Program, childMark, j.Test.Name, j.Backend,
		strconv.FormatInt(int64(limit), 10), strconv.Itoa(r.verbose), tmp}
	child, err := os.StartProcess("/proc/self/exe", argv, &os.ProcAttr{
		Env:   append(os.Environ(), "TMPDIR="+tmp),
		Files: []*os.File{null, outW, outW, repW},
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
	outW.Close()
	repW.Close()
	if err != nil {
		outR.Close()
		repR.Close()
		return verdict{Fail, fmt.Sprintf("start a child process: %v", err)}
	}

	var group sync.WaitGroup
	var said report
	group.Go(func() { io.Copy(log, outR) })
	group.Go(func() { said = readReports(repR) })
	status, late := r.wait(child, limit)
	left := reapOrphans(child.Pid)
	group.Wait() // all who held the other ends of the pipes are gone
	outR.Close()
	repR.Close()

	switch {
	case late && r.ctx.Err() != nil:
		v = verdict{Fail, "interrupted"}
	case late:
		v = verdict{Fail, fmt.Sprintf("hang: deadline of %v passed while waiting for %s", limit, orNothing(said.Waiting))}
	case said.Verdict == nil:
		v = verdict{Fail, fmt.Sprintf("died: %v", status)}
	default:
		v = *said.Verdict
	}
	for _, l := range left {
		fmt.Fprintf(log, "  left behind: %s\n", l)
		if v.State != Fail {
			v = verdict{Fail, "left behind: " + l}
		}
	}
	return v
}

func orNothing(what string) string {
	if what == "" {
		return "nothing that it has named"
	}
	return what
}

// wait waits for the child and kills its group when the deadline passes or the
// run is interrupted, which is late.
func (r *runner) wait(child *os.Process, limit time.Duration) (status *os.ProcessState, late bool) {
	done := make(chan struct{})
	killed := make(chan bool)
	go func() {
		timer := time.NewTimer(limit + killAfter)
		defer timer.Stop()
		select {
		case <-done:
			killed <- false
			return
		case <-timer.C:
		case <-r.ctx.Done():
		}
		unix.Kill(-child.Pid, unix.SIGKILL)
		child.Kill()
		killed <- true
	}()
	status, _ = child.Wait() // only fails for a process that is not our child
	close(done)
	return status, <-killed
}

// readReports returns the verdict, and what was last waited for, until the
// child closes its end.
func readReports(f *os.File) (last report) {
	dec := json.NewDecoder(f)
	for {
		var r report
		if dec.Decode(&r) != nil {
			return last
		}
		if r.Waiting != "" {
			last.Waiting = r.Waiting
		}
		if r.Verdict != nil {
			last.Verdict = r.Verdict
		}
	}
}
