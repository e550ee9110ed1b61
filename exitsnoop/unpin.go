package exitsnoop

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/kernelversion"
)

// unpin calls remove, which removes the pins of links at these paths. The directory dir is on the
// same BPF file system.
//
// The kernel drops a pin's reference in an RCU callback. If it is the last reference, a kernel with
// PREEMPT_RT before Linux 6.5 frees the link in the callback. That waits for RCU, which waits for
// the callback, so the machine hangs. On such a kernel unpin holds another reference until the
// pin's has been dropped.
func unpin(dir string, paths []string, remove func() error) error {
	if !kernelversion.Realtime() {
		return remove()
	}
	return unpinHolding(dir, paths, remove)
}

// unpinLink removes the pin of one link.
func (p *pinDir) unpinLink(path string) error {
	return unpin(p.dir, []string{path}, func() error { return os.Remove(path) })
}

func unpinHolding(dir string, paths []string, remove func() error) (err error) {
	var held []link.Link
	defer func() {
		for _, l := range held {
			err = errors.Join(err, l.Close())
		}
	}()
	for _, path := range paths {
		l, err := link.LoadPinnedLink(path, nil)
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			return fmt.Errorf("open %s: %w", path, err)
		default:
			held = append(held, l)
		}
	}
	last, err := pinLast(dir)
	if err != nil {
		return err
	}
	return onOneCPU(func() error { return errors.Join(remove(), last.remove()) })
}

// lastPin is the pin of a map that is removed after the pins of links on the same CPU. RCU
// callbacks of a CPU run in order, so when the map is gone, which is visible, the references of the
// links have been dropped.
type lastPin struct {
	path string
	id   ebpf.MapID
}

func pinLast(dir string) (*lastPin, error) {
	// Before 5.11 maps count against it.
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, kernelError("lift the limit on locked memory", err)
	}
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if err != nil {
		return nil, kernelError("create a map", err)
	}
	defer m.Close()
	info, err := m.Info()
	if err != nil {
		return nil, fmt.Errorf("read a map's info: %w", err)
	}
	last := &lastPin{path: filepath.Join(dir, "last")}
	last.id, _ = info.ID()
	if err := m.Pin(last.path); err != nil {
		return nil, kernelError("pin "+last.path, err)
	}
	return last, nil
}

// pinsGoneWithin is the longest time for RCU to run the callbacks.
const pinsGoneWithin = 10 * time.Second

// remove removes the pin and waits until the map is gone.
func (l *lastPin) remove() error {
	if err := os.Remove(l.path); err != nil {
		return err
	}
	for end := time.Now().Add(pinsGoneWithin); ; time.Sleep(2 * time.Millisecond) {
		m, err := ebpf.NewMapFromID(l.id)
		switch {
		case errors.Is(err, os.ErrNotExist):
			return nil
		case err == nil:
			m.Close()
		default:
			return kernelError("look for a map", err)
		}
		if time.Now().After(end) {
			return fmt.Errorf("removed pins of links still exist after %v", pinsGoneWithin)
		}
	}
}

// onOneCPU calls f on a thread that stays on one CPU.
func onOneCPU(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return fmt.Errorf("read the CPU affinity of this thread: %w", err)
	}
	for cpu := range len(all) * 64 {
		if all.IsSet(cpu) {
			one.Set(cpu)
			break
		}
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return fmt.Errorf("bind this thread to a CPU: %w", err)
	}
	err := f()
	if back := unix.SchedSetaffinity(0, &all); back != nil {
		err = errors.Join(err, fmt.Errorf("restore the CPU affinity of this thread: %w", back))
	}
	return err
}
