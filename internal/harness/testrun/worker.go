package testrun

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// worker is a child process that runs tests, one after the other.
type worker struct {
	r        *runner
	backends []string
	child    *os.Process
	orders   *os.File
	reports  chan report // closed when all who could report are gone
	log      *output
	pipes    []*os.File
	ended    chan struct{} // closed when the child has ended; state is set then
	state    *os.ProcessState
	waiting  string // for what, as last reported
	left     []string

	// The residue before the child was started, and after that before its first test.
	bare, ready residue
}

// killAfter is how long a child may take after its deadline to report what it waits for.
const killAfter = 2 * time.Second

// hire starts a worker for tests on backends, with the fixture of a name, if any. The
// verdicts say why if it could not be started or is not ready for orders.
func (r *runner) hire(backends []string, share string) (w *worker, list verdicts, ready bool) {
	w = &worker{r: r, backends: backends, bare: readResidue(), reports: make(chan report), ended: make(chan struct{})}
	if err := w.start(share); err != nil {
		return nil, w.all(fmt.Sprintf("start a child process: %v", err)), false
	}
	w.waiting = "the child to be ready"
	list, alive := w.await()
	switch {
	case alive && list == nil:
		w.ready = readResidue()
		return w, nil, true
	case alive:
		list = w.end(list)
	}
	return w, list, false
}

// all returns a failure with the same reason for each backend.
func (w *worker) all(reason string) verdicts { return each(len(w.backends), verdict{Fail, reason}) }

func (w *worker) start(share string) (err error) {
	var theirs []*os.File
	defer func() {
		for _, f := range theirs {
			f.Close()
		}
		if err != nil {
			w.close()
		}
	}()
	pipe := func() (r, wr *os.File) {
		if err == nil {
			if r, wr, err = os.Pipe(); err == nil {
				w.pipes = append(w.pipes, r, wr)
			}
		}
		return r, wr
	}
	outR, outW := pipe()
	repR, repW := pipe()
	ordR, ordW := pipe()
	if err != nil {
		return err
	}
	w.pipes, theirs = []*os.File{outR, repR, ordW}, []*os.File{outW, repW, ordR}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	theirs = append(theirs, null)
	argv := []string{w.r.suite.Program, childMark, strings.Join(w.backends, ","),
		strconv.FormatInt(int64(w.r.deadline), 10), strconv.Itoa(w.r.verbose), share}
	w.child, err = os.StartProcess("/proc/self/exe", argv, &os.ProcAttr{
		Env:   append(os.Environ(), w.r.suite.Env...),
		Files: []*os.File{null, outW, outW, reportFD: repW, orderFD: ordR},
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return err
	}
	w.orders, w.log = ordW, collect(outR)
	go func() {
		defer close(w.reports)
		for dec := json.NewDecoder(repR); ; {
			var rep report
			if dec.Decode(&rep) != nil {
				return
			}
			w.reports <- rep
		}
	}()
	go func() {
		w.state, _ = w.child.Wait() // only fails for a process that is not our child
		close(w.ended)
	}()
	return nil
}

func (w *worker) close() {
	for _, f := range w.pipes {
		f.Close()
	}
}

// run lets the worker run a test, and returns whether it can run another.
func (w *worker) run(j Job, dir string) (list verdicts, more bool) {
	w.waiting = ""
	line, _ := json.Marshal(order{j.Test.Name, dir}) // strings are no error
	w.orders.Write(append(line, '\n'))               // a dead child is found next
	if list, more = w.await(); more {
		w.blame(list, orphansExcept(w.child.Pid))
	}
	return list, more
}

// dismiss ends the worker, and returns the verdicts on its end.
func (w *worker) dismiss() verdicts {
	w.orders.Close()
	w.waiting = "the child to end"
	list, alive := w.await()
	if alive {
		list = w.end(list)
	}
	return list
}

// end waits for the end of a child that has sent its last report.
func (w *worker) end(list verdicts) verdicts {
	select {
	case <-w.ended:
	case <-time.After(killAfter):
		w.child.Kill()
		<-w.ended
	}
	return w.cleanUp(list)
}

// await waits until the child is ready, which has no verdicts, or sends verdicts. alive
// is false if the child has ended instead; it is cleaned up then.
func (w *worker) await() (list verdicts, alive bool) {
	timer := time.NewTimer(w.r.deadline + killAfter)
	defer timer.Stop()
	died := func() verdicts { return w.cleanUp(w.all(fmt.Sprintf("died: %v", w.state))) }
	for {
		select {
		case rep, open := <-w.reports:
			switch {
			case !open: // the child has ended, or closed its descriptors
				w.child.Kill()
				<-w.ended
				return died(), false
			case rep.Ready:
				return nil, true
			case rep.Verdicts != nil:
				return rep.Verdicts, true
			default:
				w.waiting = rep.Waiting
			}
		case <-w.ended:
			return died(), false
		case <-timer.C:
			return w.kill(fmt.Sprintf("hang: deadline of %v passed while waiting for %s", w.r.deadline, orNothing(w.waiting))), false
		case <-w.r.ctx.Done():
			return w.kill("interrupted"), false
		}
	}
}

func orNothing(what string) string {
	if what == "" {
		return "nothing that it has named"
	}
	return what
}

func (w *worker) kill(why string) verdicts {
	unix.Kill(-w.child.Pid, unix.SIGKILL)
	w.child.Kill()
	<-w.ended
	return w.cleanUp(w.all(why))
}

// cleanUp ends the processes that a child, which has ended, left behind, and returns
// the verdicts of its last report.
func (w *worker) cleanUp(list verdicts) verdicts {
	left := reapOrphans(w.child.Pid)
	for rep := range w.reports {
		if rep.Verdicts != nil {
			list = rep.Verdicts
		}
	}
	w.close()
	w.blame(list, left)
	return list
}

// blame fails the test for the processes it left behind.
func (w *worker) blame(list verdicts, left []string) {
	w.left = append(w.left, left...)
	if len(left) > 0 {
		list.blame("left behind: " + left[0])
	}
}
