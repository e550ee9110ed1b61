package ebpf

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/conform"
	"github.com/quark-linux/quark/internal/kernelversion"
	"github.com/quark-linux/quark/internal/retry"
)

// pin restricts the calling thread to one of the CPUs that it may use.
func pin(cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	return unix.SchedSetaffinity(0, &set)
}

// readMapEndlessly reads a map until it is killed. Any other task preempts it.
func readMapEndlessly() {
	runtime.LockOSThread()
	cpu, err := strconv.Atoi(os.Args[1])
	conform.Try("CPU", err)
	conform.Try("pin", pin(cpu))
	conform.Try("be idle", unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}, 0))
	value := make([]byte, 1<<20)
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: uint32(len(value)), MaxEntries: 1})
	conform.Try("map", err)
	fmt.Println()
	for {
		conform.Try("read", m.Lookup(uint32(0), &value))
	}
}

// While a task that uses a map is preempted, the kernel skips programs on its CPU. A gap reports
// the failed execs that are missing. No failed exec has the path of another call.
func TestSkippedFailedExecs(t *testing.T) {
	s := openShared(t, source.Options{Kinds: source.DefaultKinds | engine.EventExecFailed}, Options{})
	if k := s.Capabilities().Kinds[engine.KindExecFailed]; k.Origin == engine.OriginNone {
		t.Skip(k.Via)
	}
	runtime.LockOSThread() // never unlocked, so the thread exits with the test
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		t.Fatal(err)
	}
	cpu := 0
	for !allowed.IsSet(cpu) {
		cpu++
	}
	reader := conform.Child("reads-map", strconv.Itoa(cpu))
	out, err := reader.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := reader.Start(); err != nil {
		t.Fatal(err)
	}
	defer reader.Wait()
	defer reader.Process.Kill()
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := pin(cpu); err != nil {
		t.Fatal(err)
	}
	// Kernels with lazy preemption preempt at once for this policy.
	if err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}, 0); err != nil {
		t.Log(err)
	}

	const rounds, batch = 300, 10
	paths := make([][]byte, rounds*batch) // unique, as programs compare pointers
	for i := range paths {
		paths[i] = fmt.Appendf(nil, "/no/%d\x00", i)
	}
	argv := []*byte{nil}
	reported, next, gaps := 0, 0, uint64(0)
	look := func() {
		see := recorder{engine.NewBuffer(1 << 12), func(r *engine.RawEvent) {
			switch {
			case r.Kind == engine.KindGap:
				gaps += r.Gap.Count
			case r.Kind == engine.KindExecFailed && r.TID == uint32(unix.Gettid()):
				n, err := strconv.Atoi(strings.TrimPrefix(string(r.Bytes(engine.FieldExe)), "/no/"))
				if err != nil || n < next {
					t.Errorf("got path %q after number %d: %v", r.Bytes(engine.FieldExe), next-1, err)
				}
				reported, next = reported+1, n+1
			}
		}}
		if err := s.Populate(see); err != nil {
			t.Fatal(err)
		}
	}
	for i, path := range paths {
		if i%batch == 0 {
			unix.Nanosleep(&unix.Timespec{Nsec: 1e6}, nil) // runs the reader of the map
			look()
		}
		unix.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(&path[0])), uintptr(unsafe.Pointer(&argv[0])), 0)
	}
	missing := uint64(len(paths)) // upper bound, as some are reported
	for range retry.For(10 * time.Second) {
		look()
		if missing = uint64(len(paths) - reported); gaps >= missing {
			break
		}
	}
	t.Logf("%d failed execs, %d reported, %d in gaps", len(paths), reported, gaps)
	var counted uint64
	for _, p := range s.alone {
		st, err := p.Stats()
		if err != nil {
			t.Fatal(err)
		}
		counted += st.RecursionMisses
	}
	if n := countSkips(s.alone); n < counted {
		t.Errorf("got %d skipped programs, want at least the earlier count %d", n, counted)
	}
	if gaps < missing && kernelversion.AtLeast(skipsCounted) {
		t.Errorf("%d failed execs are missing, but gaps report only %d", missing, gaps)
	}
	if other := uint64(len(paths) / 20); gaps > missing+other { // calls of other tasks
		t.Errorf("%d failed execs are missing, but gaps report %d", missing, gaps)
	}
}
