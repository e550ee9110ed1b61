package scenario

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/fidelity/truth"
)

// oddBytes is the number of bytes that a child transfers. It is not a multiple of 1 KiB.
const oddBytes = 10_000_001

// usage executes this program, which uses resources in several threads and records the usage. One
// process has a single thread and works in the kernel. Others wait for such a child, and the kernel
// adds the child's I/O to the parent's.
func usage(d *director) {
	d.do(d.mover())
	d.doWaiting(d.script().child(0, d.mover()).call("wait4", unix.SYS_WAIT4, -1, nil, 0, nil).end(0))
	for _, threads := range []int{1, 3, 8} {
		d.do(d.light().image(d.self, []string{"usage"}, role("use", 0, threads)))
	}
	d.do(d.light().image(d.self, []string{"usage"}, role("use-wait", 0, 3)))
}

// mover returns a process that transfers oddBytes bytes.
func (d *director) mover() *process {
	var fds [2]int
	for i, name := range []string{"from", "to"} {
		fds[i] = d.keep(unix.Open(filepath.Join(d.dir, name), unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o600))
	}
	d.must(unix.Ftruncate(fds[0], oddBytes))
	return d.script().call("sendfile", unix.SYS_SENDFILE, fds[1], fds[0], nil, oddBytes).end(0)
}

// doWaiting runs p, which waits for its children; they exit with 0.
func (d *director) doWaiting(p *process) {
	e := d.reap(d.start(p).pid)
	d.check(p)
	p.readIDs()
	d.recordHistory(p, e, func(*process) ended { return ended{at: e.at} })
	p.run.Free()
}

// use uses CPU time, memory and files in n threads, half of which end before the process. If wait
// is set, it also waits for a child that uses files. It records the usage of the process.
func use(n int, wait bool) error {
	done := make(chan error)
	for i := range n {
		go func() {
			runtime.LockOSThread() // the thread ends with the function
			done <- useSome(i)
			if i%2 == 0 {
				select {}
			}
		}()
	}
	for range n {
		if err := <-done; err != nil {
			return err
		}
	}
	var waited truth.IO
	if wait {
		dir, err := os.MkdirTemp("", "usage")
		if err != nil {
			return err
		}
		d := &director{proc: truth.Proc{FD: procFD}, pid: os.Getpid(), dir: dir}
		code := d.guard(func() { d.do(d.mover()) })
		if err := os.RemoveAll(dir); err != nil || code != 0 {
			return errors.Join(errors.New("the child failed"), err)
		}
		waited = d.waited
	}
	u, err := truth.OwnUse(waited)
	if err != nil {
		return err
	}
	return write(truth.Record{Op: truth.HasUsed, PID: os.Getpid(), Latest: truth.Clock(), Own: true, Used: &u})
}

// useSome uses resources in the calling thread, a different amount in each thread.
func useSome(i int) error {
	f, err := os.CreateTemp("", "usage")
	if err != nil {
		return err
	}
	defer f.Close()
	if err := os.Remove(f.Name()); err != nil {
		return err
	}
	b := make([]byte, (i+1)<<20)
	for at := range b {
		b[at] = byte(at)
	}
	if _, err := f.Write(b); err != nil {
		return err
	}
	if _, err := f.ReadAt(b[:len(b)/2], 0); err != nil {
		return err
	}
	for from := int64(0); ; {
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
			return fmt.Errorf("read the CPU time of a thread: %w", err)
		}
		if from == 0 {
			from = now.Nano()
		}
		if now.Nano()-from > 10e6 {
			return nil
		}
	}
}
