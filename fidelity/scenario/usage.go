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

// usage executes this program, which uses something in several threads and tells how much. One
// process has a single thread, and works in the kernel.
func usage(d *director) {
	const odd = 10_000_001 // not whole KiB
	from, to := d.create("from"), d.create("to")
	d.must(from.Truncate(odd))
	d.do(d.script().call("sendfile", unix.SYS_SENDFILE, int(to.Fd()), int(from.Fd()), nil, odd).end(0))
	d.must(errors.Join(from.Close(), to.Close()))
	for _, threads := range []int{1, 3, 8} {
		d.do(d.light().image(d.self, []string{"usage"}, role("use", 0, threads)))
	}
}

// create makes a file.
func (d *director) create(name string) *os.File {
	f, err := os.Create(filepath.Join(d.dir, name))
	d.must(err)
	return f
}

// use uses CPU time, memory and files in n threads, of which every other one ends before the
// process, and records what the process has used.
func use(n int) error {
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
	u, err := truth.OwnUse()
	if err != nil {
		return err
	}
	return write(truth.Record{Op: truth.HasUsed, PID: os.Getpid(), Latest: truth.Clock(), Own: true, Used: &u})
}

// useSome uses something in the calling thread, of each thread another amount.
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
