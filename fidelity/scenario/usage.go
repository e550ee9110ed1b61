package scenario

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/fidelity/truth"
)

// usage executes this program, which uses something in several threads and tells how much.
func usage(d *director) {
	for _, threads := range []int{1, 3, 8} {
		d.do(d.light().image(d.self, []string{"usage"}, role("use", 0, threads)))
	}
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
