package procpoll

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/conform"
)

// Where addresses are not random, images are told apart by a random number that a program can
// write to. Go's runtime does so when it begins: that is no exec. The next image is one.
func TestFixedAddresses(t *testing.T) {
	runtime.LockOSThread() // ends with the test
	const noRandomAddresses = 0x0040000
	if _, _, errno := unix.RawSyscall(unix.SYS_PERSONALITY, noRandomAddresses, 0, 0); errno != 0 {
		t.Skip(errno)
	}
	s := open(t, Options{Interval: time.Hour}, source.Options{})
	if s.fds == nil {
		t.Skip("Linux 5.3 is needed")
	}
	// Its arguments are of one length each time: where the stack begins depends on it.
	const script = `echo $1; read x; exec /bin/sh -c "$0" "$0" $((9-$1))`
	cmd := exec.Command("/bin/sh", "-c", script, script, "1")
	in, out := conform.Start(t, cmd)
	pid := cmd.Process.Pid
	read(t, s).One(t, pid, engine.KindExec)
	for image := range 3 {
		if _, err := out.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		for n := range 2 {
			writeRandom(t, pid, uint64(image*2+n+1))
			if evs := read(t, s).Kinds(pid); evs != "" {
				t.Fatalf("image %d has written to its random number: %s", image, evs)
			}
		}
		fmt.Fprintln(in)
		if _, err := out.Peek(1); err != nil {
			t.Fatal(err)
		}
		read(t, s).One(t, pid, engine.KindExec)
		if n := openMemories(t, pid); n != 1 {
			t.Errorf("image %d: %d descriptors of its memory", image+1, n)
		}
	}
	s.Close()
	if n := openMemories(t, pid); n != 0 {
		t.Errorf("%d descriptors of its memory after Close", n)
	}
}

// openMemories returns how many descriptors this process has of the memory of another one.
func openMemories(t *testing.T, pid int) (n int) {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if to, _ := os.Readlink("/proc/self/fd/" + e.Name()); to == fmt.Sprintf("/proc/%d/mem", pid) {
			n++
		}
	}
	return n
}

// writeRandom writes to the random number that the kernel has put on the stack of a process.
func writeRandom(t *testing.T, pid int, n uint64) {
	t.Helper()
	auxv, err := os.ReadFile(fmt.Sprintf("/proc/%d/auxv", pid))
	if err != nil {
		t.Fatal(err)
	}
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	for ; len(auxv) >= 16; auxv = auxv[16:] {
		const atRandom = 25 // linux/auxvec.h
		if binary.NativeEndian.Uint64(auxv) != atRandom {
			continue
		}
		if _, err := mem.WriteAt(binary.NativeEndian.AppendUint64(nil, n), int64(binary.NativeEndian.Uint64(auxv[8:]))); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatal("no random number")
}
