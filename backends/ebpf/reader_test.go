package ebpf

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/conform"
	"github.com/quark-linux/quark/internal/retry"
	"golang.org/x/sys/unix"
)

// If a ring of one page is full, every lost event is counted.
func TestLoss(t *testing.T) {
	s := open(t, Options{RingSize: 1})
	stats := func() engine.SourceStats {
		st, err := s.Stats()
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	processRunner(t)(30)
	if stats().Lost[engine.LossRingFull] == 0 {
		t.Error("got no lost events")
	}
	var received uint64
	eventually(t, "produced = received + lost", func() bool {
		before := stats()
		received += uint64(len(conform.Drain(t, s)))
		after := stats() // includes events of other processes
		return before == after && after.Produced == received+after.LostTotal()
	})
	eventually(t, "events after the loss", func() bool {
		c := conform.Child("exit")
		evs := conform.Run(t, s, c)
		return len(evs.Of(c.Process.Pid, engine.KindExit)) == 1
	})
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range retry.For(time.Second) {
		if ok() {
			return
		}
	}
	t.Errorf("timed out waiting for: %s", what)
}

// After Arm, an event wakes a reader that polls the descriptor.
func TestArm(t *testing.T) {
	s := open(t, Options{})
	run := processRunner(t)
	for range 20 {
		for !s.Arm(true) {
			conform.Drain(t, s)
		}
		done := make(chan error, 1)
		go func() {
			for {
				n, err := conform.Poll(s, 2*time.Second)
				if errors.Is(err, unix.EINTR) {
					continue
				}
				if n == 0 {
					err = errors.New("the reader was not woken")
				}
				done <- err
				return
			}
		}()
		time.Sleep(time.Millisecond)
		run(1)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

// Without Arm(true), the reader sleeps until a quarter of the ring is full, whichever program
// writes the events.
func TestFillingRingWakes(t *testing.T) {
	const size = 64 << 10
	s := open(t, Options{RingSize: size})
	run := processRunner(t)
	woken := sleepingReader(t, s)
	run(1)
	select {
	case <-woken:
		// A perf buffer counts the bytes since it woke the reader.
		if queued := queuedIn(s.buffer); queued <= size/4 && forcedBuffer != source.BufferPerf {
			t.Fatalf("the reader was woken by %d bytes, want more than a quarter of the ring", queued)
		}
		t.Skip("other programs filled a quarter of the ring")
	case <-time.After(100 * time.Millisecond):
	}
	run(60)
	if n := <-woken; n != 1 {
		t.Error("the reader was not woken")
	}
}

// sleepingReader drains the ring and polls the descriptor. It tries again if another program's
// event arrives before the poll, which then does not sleep.
func sleepingReader(t *testing.T, s *Source) (woken chan int) {
	for range 10 {
		conform.Drain(t, s)
		woken = make(chan int, 1)
		reader := make(chan int)
		go func() {
			runtime.LockOSThread()
			var all unix.Sigset_t // a signal such as SIGCHLD would interrupt the poll
			for i := range all.Val {
				all.Val[i] = ^all.Val[i]
			}
			err := unix.PthreadSigmask(unix.SIG_BLOCK, &all, nil)
			reader <- unix.Gettid()
			n := 0
			if err == nil {
				n, err = unix.Ppoll([]unix.PollFd{{Fd: int32(s.FD()), Events: unix.POLLIN}}, &unix.Timespec{Sec: 10}, nil)
			}
			if err != nil {
				t.Error(err)
			}
			woken <- n
		}()
		call := fmt.Sprintf("/proc/self/task/%d/syscall", <-reader)
		for range retry.For(time.Minute) {
			if len(woken) != 0 {
				break
			}
			if text, _ := os.ReadFile(call); strings.HasPrefix(string(text), fmt.Sprint(unix.SYS_PPOLL, " ")) {
				return woken // the thread sleeps in the poll
			}
		}
	}
	t.Skip("events of other programs keep the reader from sleeping")
	return nil
}

// After a reader drops its privileges and changes its root, it still reads events. When it is
// killed, the kernel unloads its programs.
func TestPrivilegesDropped(t *testing.T) {
	open(t, Options{}).Close()
	c, programs := conform.WantDropped(t, "dropped")
	ids := strings.Fields(programs)
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	c.Wait()
	for _, id := range ids {
		n, _ := strconv.Atoi(id)
		var err error
		for range retry.For(10 * time.Second) {
			var p *ebpf.Program
			if p, err = ebpf.NewProgramFromID(ebpf.ProgramID(n)); errors.Is(err, os.ErrNotExist) {
				break
			} else if err == nil {
				p.Close()
			}
		}
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("program %d is still loaded after its process was killed: error %v", n, err)
		}
	}
	want := 2 // the handlers of two hooks
	if preemptible() {
		want += 2 * len(requiredHooks)
	}
	if len(ids) < want {
		t.Errorf("got %d programs, want at least %d", len(ids), want)
	}
}

func TestNothingLeft(t *testing.T) {
	open(t, Options{}).Close() // the first Open opens descriptors that are never closed
	before := descriptors(t)
	for range 3 {
		s := open(t, Options{})
		if err := errors.Join(s.Close(), s.Close()); err != nil {
			t.Error(err)
		}
		if err := s.Populate(engine.NewBuffer(1)); !errors.Is(err, os.ErrClosed) {
			t.Errorf("Populate after Close: got %v, want os.ErrClosed", err)
		}
		if _, err := s.Stats(); !errors.Is(err, os.ErrClosed) || s.FD() != -1 || s.Arm(true) {
			t.Errorf("after Close: Stats returned %v, or FD or Arm works", err)
		}
	}
	if after := descriptors(t); after != before {
		t.Errorf("got %d descriptors, want %d", after, before)
	}
}

func descriptors(t *testing.T) int {
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(d)
}

// Populate stops when the engine's buffer is full. The next call continues.
func TestPopulate(t *testing.T) {
	s := open(t, Options{})
	b := engine.NewBuffer(1)
	processRunner(t)(3)
	if err := s.Populate(b); err != nil || b.Len() != 1 {
		t.Errorf("got %d events in a buffer for 1, error %v", b.Len(), err)
	}
	big := engine.NewBuffer(1000)
	if err := s.Populate(big); err != nil || big.Len() < 8 {
		t.Errorf("got %d events, want at least 8; error %v", big.Len(), err)
	}
}
