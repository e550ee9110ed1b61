package quark_test

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/engine/enginetest"
)

// A Wake ends exactly one wait: the next one, even after a Get. It also ends a wait on the
// descriptor.
func TestWakeIsKept(t *testing.T) {
	q, err := quark.New(enginetest.NewMachine(), quark.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	fds := []unix.PollFd{{Fd: int32(q.FD()), Events: unix.POLLIN}}
	nothing := func() {
		t.Helper()
		if _, err := q.Get(); !errors.Is(err, quark.ErrNothing) {
			t.Fatal(err)
		}
	}
	ready := func() int {
		t.Helper()
		n, err := unix.Poll(fds, 0)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for range 3 {
		q.Wake()
		nothing()
		if ready() != 1 {
			t.Error("after Wake and Get: the descriptor is not ready")
		}
		nothing()
		if ready() != 0 {
			t.Error("the descriptor is ready without an event or Wake")
		}
		q.Wake()
		nothing()
		start := time.Now()
		if err := q.Block(deadline); err != nil || time.Since(start) >= deadline {
			t.Errorf("Block after Wake and Get: got error %v after %v", err, time.Since(start))
		}
		nothing()
		if ready() != 0 {
			t.Error("the descriptor is ready after Block returned")
		}
	}
}

// A wait works in a process that may not open more descriptors.
func TestWaitWithoutDescriptors(t *testing.T) {
	q, err := quark.New(new(enginetest.Source), quark.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	var old unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: old.Max}, nil); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	err = q.Block(50 * time.Millisecond)
	time.AfterFunc(50*time.Millisecond, q.Wake)
	if again := q.Block(time.Minute); err == nil {
		err = again
	}
	took := time.Since(start)
	if back := unix.Prlimit(0, unix.RLIMIT_NOFILE, &old, nil); back != nil {
		t.Fatal(back)
	}
	if err != nil || took > deadline {
		t.Errorf("after %v: got error %v", took, err)
	}
}

// watcher is a source without events that must be called often.
type watcher struct {
	*enginetest.Machine
	fd    int
	asked int
}

func (w *watcher) FD() int                    { return w.fd }
func (w *watcher) Interval() time.Duration    { return time.Millisecond }
func (w *watcher) Populate(engine.Sink) error { w.asked++; return nil }

// TestWatcher: Block and the descriptor wake at the source's interval, even without events.
func TestWatcher(t *testing.T) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	w := &watcher{Machine: enginetest.NewMachine(), fd: fd}
	q, err := quark.New(w, quark.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	for range 3 {
		asked := w.asked
		if err := q.Block(deadline); err != nil {
			t.Fatal(err)
		}
		if _, err := q.Get(); !errors.Is(err, quark.ErrNothing) || w.asked == asked {
			t.Fatalf("got error %v, Populate called %d times", err, w.asked)
		}
	}
	fds := []unix.PollFd{{Fd: int32(q.FD()), Events: unix.POLLIN}}
	if _, err := q.Get(); !errors.Is(err, quark.ErrNothing) {
		t.Fatal(err)
	}
	if n, err := unix.Poll(fds, int(deadline.Milliseconds())); n != 1 {
		t.Errorf("the descriptor does not wake: %v", err)
	}
}
