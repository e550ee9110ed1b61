package testrun

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// worker is a child process that runs tests, one after the other.
type worker struct {
	r        *runner
	backends []string
	cmd      *exec.Cmd
	alive    bool
	orders   *os.File
	reports  chan report   // closed when every process that holds its descriptor has ended
	ended    chan struct{} // closed when the child has ended
	waiting  string        // what the child waits for, as last reported

	output *os.File // of the child
	copied int64    // the bytes of output that are in the log of a test
	left   []string // processes it left behind that are not in a log

	// The residue before the child was started, and after that before its first test.
	bare, ready residue
}

// killAfter is how long a child may take after its deadline to report what it waits for.
const killAfter = 2 * time.Second

// startWorker starts a worker for tests on backends, with the fixture of a name, if any.
func (r *runner) startWorker(backends []string, share string) (w *worker, err error) {
	w = &worker{r: r, backends: backends, alive: true, bare: readResidue(), reports: make(chan report), ended: make(chan struct{})}
	if w.output, err = os.CreateTemp("", "quark-test-output-"); err != nil {
		return nil, err
	}
	os.Remove(w.output.Name())
	reports, itsReports, err1 := os.Pipe()
	itsOrders, orders, err2 := os.Pipe()
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	w.orders = orders
	task, _ := json.Marshal(task{backends, share, r.deadline, r.verbose}) // can't fail
	w.cmd = exec.Command("/proc/self/exe", childMark, string(task))
	w.cmd.Args[0] = r.suite.Program
	w.cmd.Env = append(os.Environ(), r.suite.Env...)
	w.cmd.Stdout, w.cmd.Stderr = w.output, w.output
	w.cmd.ExtraFiles = []*os.File{itsReports, itsOrders} // reportFD, orderFD
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	err = w.cmd.Start()
	itsReports.Close()
	itsOrders.Close()
	if err != nil {
		reports.Close()
		orders.Close()
		w.output.Close()
		return nil, err
	}
	go func() {
		defer close(w.reports)
		defer reports.Close()
		for dec := json.NewDecoder(reports); ; {
			var rep report
			if dec.Decode(&rep) != nil {
				return
			}
			w.reports <- rep
		}
	}()
	go func() {
		w.cmd.Wait() // its ProcessState says how it ended
		close(w.ended)
	}()
	return w, nil
}

// all returns a failure with the same reason for each backend.
func (w *worker) all(reason string) verdicts { return each(len(w.backends), verdict{Fail, reason}) }

// awaitReady waits until the worker reads orders. The verdicts say why it does not.
func (w *worker) awaitReady() verdicts {
	w.waiting = "the child to be ready"
	list := w.await()
	if list != nil && w.alive {
		return w.end(killAfter, list)
	}
	w.ready = readResidue()
	return list
}

// run runs a test in the worker, which is not alive afterwards if it cannot run another one.
func (w *worker) run(test, dir string) verdicts {
	w.waiting = ""
	json.NewEncoder(w.orders).Encode(order{test, dir}) // await finds a child that has ended
	return w.await()
}

// stop closes the fixture, ends the worker, and returns the verdicts on that.
func (w *worker) stop() verdicts {
	w.orders.Close()
	w.waiting = "the child to end"
	list := w.await()
	if w.alive {
		list = w.end(killAfter, list)
	}
	return list
}

// await waits until the child is ready, for which it returns nil, sends verdicts, or has ended.
func (w *worker) await() verdicts {
	timer := time.After(w.r.deadline + killAfter)
	for {
		select {
		case rep, open := <-w.reports:
			switch {
			case !open: // the child has ended, or closed its descriptors
				return w.end(killAfter, nil)
			case rep.Ready || rep.Verdicts != nil:
				return rep.Verdicts
			}
			w.waiting = rep.Waiting
		case <-w.ended:
			return w.end(0, nil)
		case <-timer:
			if w.waiting == "" {
				w.waiting = "nothing that it has named"
			}
			w.cmd.Process.Signal(unix.SIGQUIT) // Go says where each goroutine is
			return w.end(killAfter, w.all(fmt.Sprintf(hangs, w.r.deadline, w.waiting)))
		case <-w.r.ctx.Done():
			return w.end(0, w.all("interrupted"))
		}
	}
}

// end waits for the end of the child, kills it when patience is over, and ends processes that it
// left behind. It returns the verdicts of the child's last report, or list if there is none.
func (w *worker) end(patience time.Duration, list verdicts) verdicts {
	select {
	case <-w.ended:
	case <-time.After(patience):
		unix.Kill(-w.cmd.Process.Pid, unix.SIGKILL)
		w.cmd.Process.Kill()
		<-w.ended
	}
	w.alive = false
	w.orders.Close()
	w.left = endChildren(nil)
	for rep := range w.reports {
		if rep.Verdicts != nil {
			list = rep.Verdicts
		}
	}
	if list == nil {
		list = w.all(fmt.Sprintf("died: %v", w.cmd.ProcessState))
	}
	if len(w.left) > 0 {
		list.blame("left behind: " + w.left[0])
	}
	return list
}

// maxOutput limits the bytes of a log; its end is kept.
const maxOutput = 16 << 20

// copyLog appends to the log what the child has written since the last call. The child writes it
// before it reports the end of a test.
func (w *worker) copyLog(log io.Writer) {
	if st, err := w.output.Stat(); err == nil {
		w.copied = max(w.copied, st.Size()-maxOutput)
		n, _ := io.Copy(log, io.NewSectionReader(w.output, w.copied, st.Size()-w.copied))
		w.copied += n
	}
	for _, l := range w.left {
		fmt.Fprintf(log, "  left behind: %s\n", l)
	}
	w.left = nil
	if !w.alive {
		w.output.Close()
	}
}
