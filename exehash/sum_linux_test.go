//go:build amd64 || arm64

package exehash

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/proctext"
	"github.com/quark-linux/quark/internal/retry"
	"github.com/quark-linux/quark/internal/tinyelf"
)

// writeProgram writes the program of tinyelf.Waiter with a tail that has no effect, and returns its
// digest.
func writeProgram(t *testing.T, path, tail string) [sha256.Size]byte {
	t.Helper()
	b, err := tinyelf.Waiter(0)
	if err != nil {
		t.Fatal(err)
	}
	b = append(b, tail...)
	if err := os.WriteFile(path, b, 0o755); err != nil {
		t.Fatal(err)
	}
	return sha256.Sum256(b)
}

// age waits until a change of the file would set another ctime, and a new process would have a
// later start time in /proc.
func age(t *testing.T, path string) {
	t.Helper()
	for range retry.For(time.Minute) {
		if ctime := executable(t, path).Ctime; changesCtime(ctime, time.Now().UnixNano()-2*engine.ProcStartUnit) {
			return
		} else if ctime%1e9 == 0 {
			if err := os.Chmod(path, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Skip("the file system stores no ctime with a fraction")
}

func executable(t *testing.T, path string) quark.ExeFile {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return quark.ExeFile{Device: uint32(st.Dev), Inode: st.Ino, Ctime: st.Ctim.Nano(), Mode: uint16(st.Mode)}
}

// running starts a program, and returns its process from /proc, and a function that ends it.
func running(t *testing.T, path string) (p *quark.Process, end func()) {
	t.Helper()
	cmd := exec.Command(path)
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	end = func() { in.Close(); cmd.Wait() }
	t.Cleanup(end)
	// Some kernels, such as 6.1.192, close the descriptors of Start before /proc shows the new
	// image.
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	proc := fmt.Sprintf("/proc/%d/", cmd.Process.Pid)
	st, err := proctext.ReadStat(proc + "stat")
	if err != nil {
		t.Fatal(err)
	}
	p = &quark.Process{PID: uint32(cmd.Process.Pid), Image: quark.Image{Exe: path}}
	p.Known = quark.SetOf(quark.FieldStart, quark.FieldExe, quark.FieldExeFile)
	p.Start, p.StartUnit = st.Start, engine.ProcStartUnit
	p.ExeFile = executable(t, proc+"exe")
	return p, end
}

// exactIn reports whether the file system of dir sets the ctime at each change.
func exactIn(t *testing.T, dir string) bool {
	t.Helper()
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		t.Fatal(err)
	}
	return fileSystems[uint32(fs.Type)]
}

// canOpenCached reports whether the kernel opens a path without asking a file system.
func canOpenCached(path string) bool {
	fd, err := openCached(path)
	if err == nil {
		unix.Close(fd)
	}
	return err == nil
}

func TestSum(t *testing.T) {
	path := filepath.Join(t.TempDir(), "program")
	digest := writeProgram(t, path, "")
	age(t, path)
	inexact := !exactIn(t, filepath.Dir(path))
	var p *quark.Process
	check := func(c *Cache, name string, cached bool) {
		t.Helper()
		if got, err := c.Sum(p); err != nil || got != (Sum{digest, cached}) {
			t.Errorf("%s: got sum %x, cached %v, error %v", name, got.SHA256[:4], got.Cached, err)
		}
	}
	fails := func(c *Cache, name string, want error) {
		t.Helper()
		if got, err := c.Sum(p); !errors.Is(err, want) || got != (Sum{}) {
			t.Errorf("%s: got sum %x, error %v", name, got.SHA256[:4], err)
		}
	}
	p, end := running(t, path)
	end()
	byPath := canOpenCached(path)
	if byPath {
		check(new(Cache), "by its path", inexact)
	} else {
		fails(new(Cache), "before Linux 5.12", ErrGone)
	}
	p, end = running(t, path)
	fails(&Cache{MaxSize: 10}, "a large file", ErrTooLarge)
	var c Cache
	check(&c, "a running process", inexact)
	check(&c, "again", inexact)

	p.Cached = quark.SetOf(quark.FieldExeFile)
	check(&c, "an EXEC may have been missed", true)
	p.Known = p.Known.With(quark.FieldArgs)
	check(&c, "a later event", inexact)
	p.Cached = p.Cached.With(quark.FieldArgs)
	check(&c, "a later event, an EXEC may have been missed", true)
	p.Cached = 0

	p.ExeFile.Device++ // as on btrfs
	check(new(Cache), "another device, same ctime", inexact)
	p.Start += 1e9
	fails(new(Cache), "another process and device", ErrGone)
	p.Start -= 1e9
	p.ExeFile.Ctime++
	fails(&c, "another device and ctime", ErrGone)
	p.ExeFile.Device--
	p.ExeFile.Ctime--
	p.ExeFile.Inode++
	fails(&c, "another inode", ErrGone)
	p.ExeFile.Inode--

	if err := os.Remove(path); err != nil { // sets another ctime
		t.Fatal(err)
	}
	age(t, fmt.Sprintf("/proc/%d/exe", p.PID))
	check(&c, "removed, in the cache", inexact)
	check(new(Cache), "removed while it runs", true)
	p.ExeFile = executable(t, fmt.Sprintf("/proc/%d/exe", p.PID))
	check(&c, "changed since the process was born", true)
	writeProgram(t, path, "other")
	end()
	fails(new(Cache), "removed, process ended", ErrGone)
	if byPath {
		p.ExeFile = executable(t, path)
		p.ExeFile.Ctime--
		fails(&c, "changed, process ended", ErrChanged)
	}
	p.ExeFile, p.Image.Exe = executable(t, "/proc/1/stat"), "/proc/1/stat"
	if canOpenCached(p.Image.Exe) {
		fails(&c, "another kind of file system", ErrFileSystem)
	}
	p.Known = 0
	fails(&c, "unknown file", ErrUnknown)
	p = nil
	fails(&c, "no process", ErrUnknown)
}

// A file that was written just before an EXEC may be written again with the same ctime.
func TestNewFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "program")
	digest := writeProgram(t, path, "")
	p, _ := running(t, path)
	p.Start = min(p.Start, p.Start/1e9*1e9)
	if got, err := new(Cache).Sum(p); err != nil || got != (Sum{digest, true}) {
		t.Errorf("got sum %x, cached %v, error %v", got.SHA256[:4], got.Cached, err)
	}
}

// A write to a mapping does not set the ctime of a file in memory.
func TestMemfd(t *testing.T) {
	fd, err := unix.MemfdCreate("program", unix.MFD_CLOEXEC)
	if err != nil {
		t.Skip(err)
	}
	path := fmt.Sprintf("/proc/self/fd/%d", fd)
	digest := writeProgram(t, path, "")
	ro, err := os.Open(path) // an EXEC fails while a descriptor can write
	if err != nil {
		t.Fatal(err)
	}
	defer ro.Close()
	if err := unix.Close(fd); err != nil {
		t.Fatal(err)
	}
	p, _ := running(t, fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), ro.Fd()))
	if got, err := new(Cache).Sum(p); err != nil || got != (Sum{digest, true}) {
		t.Errorf("got sum %x, cached %v, error %v", got.SHA256[:4], got.Cached, err)
	}
}

func TestBound(t *testing.T) {
	var c Cache
	for i := range uint64(maxSums + 100) {
		c.store(file{inode: i}, sum{})
		if _, ok := c.lookup(file{inode: i}); !ok || len(c.sums) > maxSums {
			t.Fatalf("inode %d: stored %v, %d sums", i, ok, len(c.sums))
		}
	}
}
