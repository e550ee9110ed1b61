//go:build amd64 || arm64

package quark_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/proctext"
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

// grow makes a file so old that its next change has another ctime. That is no whole second: some
// file systems have nothing smaller, so that such a file is young for seconds.
func grow(t *testing.T, path string) {
	t.Helper()
	for {
		time.Sleep(50 * time.Millisecond)
		if executable(t, path).Ctime%1e9 != 0 {
			return
		}
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// running starts a program, and returns what /proc says of its process, and how to end it.
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
	// Start may return while /proc shows this test's program: in newer kernels, such as
	// Debian's 6.1.192, an execve closes its descriptors before it takes the new image.
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	proc := fmt.Sprintf("/proc/%d/", cmd.Process.Pid)
	st, err := proctext.ReadStat(proc + "stat")
	if err != nil {
		t.Fatal(err)
	}
	p = &quark.Process{PID: uint32(cmd.Process.Pid), Filename: path}
	p.Known = quark.SetOf(quark.FieldStart, quark.FieldFilename, quark.FieldExecutable)
	p.Start, p.StartUnit = st.Start, engine.ProcStartUnit
	p.Executable = executable(t, proc+"exe")
	return p, end
}

// watching returns Files that know that the file system of a directory is mounted from now on.
func watching(t *testing.T, dir string) *quark.Files {
	t.Helper()
	files := new(quark.Files)
	path := filepath.Join(dir, "first")
	writeProgram(t, path, "first")
	grow(t, path)
	p, _ := running(t, path)
	if _, err := files.Read(p); err != nil {
		t.Fatal(err)
	}
	return files
}

func executable(t *testing.T, path string) (x quark.Executable) {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return quark.Executable{Device: uint32(st.Dev), Inode: st.Ino, Ctime: st.Ctim.Nano(), Mode: uint16(st.Mode)}
}

// tells reports whether the file system of a directory sets the ctime at each change.
func tells(t *testing.T, dir string) bool {
	t.Helper()
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		t.Fatal(err)
	}
	return fs.Type == unix.EXT4_SUPER_MAGIC || fs.Type == unix.XFS_SUPER_MAGIC
}

// opensCached reports whether the kernel opens a path without asking a file system.
func opensCached(path string) bool {
	const cached = 0x20 // RESOLVE_CACHED
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: cached})
	if err == nil {
		unix.Close(fd)
	}
	return err == nil
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	carried := !tells(t, dir)
	path := filepath.Join(dir, "program")
	sum := writeProgram(t, path, "")
	grow(t, path)
	p, end := running(t, path)
	end()
	check := func(files *quark.Files, what string, want quark.File) {
		t.Helper()
		if got, err := files.Read(p); err != nil || got != want {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
	fails := func(files *quark.Files, what string, want error) {
		t.Helper()
		if got, err := files.Read(p); !errors.Is(err, want) || got != (quark.File{}) {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
	byPath := opensCached(path)
	if byPath {
		check(new(quark.Files), "by its path", quark.File{SHA256: sum, Carried: true})
		files := watching(t, dir)
		time.Sleep(20 * time.Millisecond) // start times of /proc are rounded down to 10 ms
		p, end = running(t, path)
		end()
		check(files, "by its path, of a file system that was mounted before", quark.File{SHA256: sum, Carried: carried})
	} else {
		fails(new(quark.Files), "before Linux 5.12", quark.ErrFileGone)
	}
	p, end = running(t, path)
	var files quark.Files
	check(&files, "of a process", quark.File{SHA256: sum, Carried: carried})
	check(&files, "again", quark.File{SHA256: sum, Carried: carried})
	check(&quark.Files{MaxSize: 10}, "a large one", quark.File{TooLarge: true, Carried: carried})

	p.Carried = quark.SetOf(quark.FieldExecutable)
	check(&files, "after an EXEC that may have been missed", quark.File{SHA256: sum, Carried: true})
	p.Known = p.Known.With(quark.FieldCmdline)
	check(&files, "of an earlier event", quark.File{SHA256: sum, Carried: carried})
	p.Carried = p.Carried.With(quark.FieldCmdline)
	check(&files, "and again if one may have been missed", quark.File{SHA256: sum, Carried: true})
	p.Carried = 0
	// Where stat(2) says another device than the inode has.
	p.Executable.Device++
	check(&files, "on another device", quark.File{SHA256: sum, Carried: true})
	p.Start += 1e9
	fails(&files, "of another process, on another device", quark.ErrFileGone)
	p.Start -= 1e9
	p.Executable.Ctime++
	fails(&files, "of another time and on another device", quark.ErrFileGone)
	p.Executable.Device--
	p.Executable.Ctime--
	p.Executable.Inode++
	fails(&files, "another file", quark.ErrFileGone)
	p.Executable.Inode--

	if err := os.Remove(path); err != nil { // which changes it, too
		t.Fatal(err)
	}
	grow(t, fmt.Sprintf("/proc/%d/exe", p.PID))
	check(&files, "what is remembered", quark.File{SHA256: sum, Carried: carried})
	check(new(quark.Files), "removed while it is executed", quark.File{SHA256: sum, Carried: true})
	p.Executable = executable(t, fmt.Sprintf("/proc/%d/exe", p.PID))
	check(&files, "a removed one", quark.File{SHA256: sum, Carried: true})
	writeProgram(t, path, "other")
	end()
	check(&files, "a removed one, again", quark.File{SHA256: sum, Carried: true})
	fails(new(quark.Files), "a removed one of a process that has ended", quark.ErrFileGone)

	p.Executable = executable(t, path)
	p.Executable.Ctime--
	if byPath {
		fails(&files, "a change of the file of a process that has ended", quark.ErrFileChanged)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(path, 0o755); err != nil {
		t.Fatal(err)
	}
	p.Executable = executable(t, path)
	fails(&files, "a FIFO", quark.ErrFileGone)
	p.Executable, p.Filename = executable(t, "/proc/1/stat"), "/proc/1/stat"
	if opensCached(p.Filename) {
		fails(&files, "a file of another kind of file system", quark.ErrFileRemote)
	}
	p.Known = 0
	if _, err := files.Read(p); err == nil {
		t.Error("an unknown file is known")
	}
	if _, err := files.Read(nil); err == nil {
		t.Error("the file of nobody is known")
	}
}

// A file that was written right before it was executed can be written again with the same ctime.
func TestFilesThatAreNew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "program")
	sum := writeProgram(t, path, "")
	p, _ := running(t, path)
	p.Start = min(p.Start, p.Start/1e9*1e9)
	if got, err := new(quark.Files).Read(p); err != nil || got != (quark.File{SHA256: sum, Carried: true}) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestFilesInMemory(t *testing.T) {
	fd, err := unix.MemfdCreate("program", unix.MFD_CLOEXEC)
	if err != nil {
		t.Skip(err)
	}
	path := fmt.Sprintf("/proc/self/fd/%d", fd)
	sum := writeProgram(t, path, "")
	// It can be executed when nobody has it open for writing.
	ro, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer ro.Close()
	if err := unix.Close(fd); err != nil {
		t.Fatal(err)
	}
	p, _ := running(t, fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), ro.Fd()))
	if got, err := new(quark.Files).Read(p); err != nil || got != (quark.File{SHA256: sum, Carried: true}) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestFileCaps(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("it gives a file capabilities: needs root")
	}
	path := filepath.Join(t.TempDir(), "program")
	sum := writeProgram(t, path, "")
	const chown2 = "\x01\x00\x00\x02\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	const raw3 = "\x00\x00\x00\x03\x00\x20\x00\x00\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x39\x30\x00\x00"
	for attribute, want := range map[string]quark.FileCaps{
		chown2: {Permitted: 1 << unix.CAP_CHOWN, Effective: true},
		raw3:   {Permitted: 1 << unix.CAP_NET_RAW, Inheritable: 1 << unix.CAP_NET_RAW, Root: 12345},
	} {
		if err := unix.Setxattr(path, "security.capability", []byte(attribute), 0); errors.Is(err, unix.EOPNOTSUPP) {
			t.Skip(err)
		} else if err != nil {
			t.Fatal(err)
		}
		grow(t, path)
		p, end := running(t, path)
		got, err := new(quark.Files).Read(p)
		if err != nil || got != (quark.File{SHA256: sum, Caps: want, HasCaps: true, Carried: got.Carried}) {
			t.Errorf("%+v, %v", got, err)
		}
		end()
	}
}

// Two images have a file of one inode and ctime, one after the other on the same device: neither is
// taken for the other.
func TestFilesOfOtherImage(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to mount")
	}
	for _, program := range []string{"mkfs.ext4", "losetup"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	dir := t.TempDir()
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Skipf("%s: %v: %s", cmd, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	for _, sub := range []string{"root", "mnt"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	writeProgram(t, filepath.Join(dir, "root", "program"), "the first image")
	run("truncate", "-s", "4M", "first")
	run("mkfs.ext4", "-q", "-d", "root", "first")
	time.Sleep(4 * time.Second) // what is so young is not remembered
	image, err := os.ReadFile(filepath.Join(dir, "first"))
	if err != nil {
		t.Fatal(err)
	}
	image = bytes.Replace(image, []byte("the first image"), []byte("the other image"), 1)
	if err := os.WriteFile(filepath.Join(dir, "other"), image, 0o644); err != nil {
		t.Fatal(err)
	}
	device := run("losetup", "-f")
	var files quark.Files
	var before *quark.Process
	for _, name := range []string{"first", "other"} {
		run("losetup", device, name)
		run("mount", "-r", device, "mnt")
		path := filepath.Join(dir, "mnt", "program")
		p, end := running(t, path)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
		}
		if got, err := files.Read(p); err != nil || got.SHA256 != sha256.Sum256(b) || got.Carried {
			t.Errorf("of the %s image: %+v, %v", name, got, err)
		}
		if before != nil {
			if before.Executable != p.Executable {
				t.Skipf("the images differ in more than the contents: %+v, %+v", before.Executable, p.Executable)
			}
			if got, err := files.Read(before); err == nil && !got.Carried {
				t.Errorf("of the first image, after it was unmounted: %+v", got)
			}
		}
		before = p
		end()
		run("umount", "mnt")
		run("losetup", "-d", device)
	}
}

// Each backend says which file is executed so that it can be read, and never another one.
func TestFilesOfEvents(t *testing.T) {
	onEach(t, func(t *testing.T, opts quark.Options) {
		q := open(t, opts)
		dir := t.TempDir()
		files := watching(t, dir)
		sums := make(map[uint32][sha256.Size]byte)
		paths := []string{filepath.Join(dir, "one"), filepath.Join(dir, "two")}
		var ends []func()
		for i := range 6 {
			path := paths[i%2]
			os.Remove(path)
			sum := writeProgram(t, path, fmt.Sprint(i))
			if i > 2 {
				grow(t, path)
			}
			p, end := running(t, path)
			sums[p.PID] = sum
			ends = append(ends, end)
		}
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		defer cancel()
		known, certain := 0, 0
		for ev, err := range q.Events(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			p := ev.Process
			if ev.Events.Has(quark.EventGap) {
				time.AfterFunc(3*time.Second, cancel) // an end may be lost
			}
			if ev.Events.Has(quark.EventGap) || !bytes.HasPrefix([]byte(p.Filename), []byte(dir)) {
				continue
			}
			want, ok := sums[p.PID]
			if !ok {
				continue
			}
			got, err := files.Read(p)
			switch {
			case err == nil && got.SHA256 != want:
				t.Errorf("%s of pid %d: %x, not %x", ev.Events, p.PID, got.SHA256, want)
			case err != nil && !errors.Is(err, quark.ErrFileGone) && !errors.Is(err, quark.ErrFileChanged):
				t.Errorf("%s of pid %d: %v", ev.Events, p.PID, err)
			case err == nil:
				known++
				if !got.Carried {
					certain++
				}
			}
			if !ev.Events.Has(quark.EventExit) && len(ends) > 0 {
				ends[0]()
				ends = ends[1:]
			}
			if ev.Events.Has(quark.EventExit) {
				delete(sums, p.PID)
			}
			if len(sums) == 0 {
				break
			}
		}
		if st, err := q.Stats(); err == nil && len(sums) > 0 && st.Lost() > 0 {
			t.Skipf("a storm of others: %d events were lost", st.Lost())
		}
		// The first four of them have lost their names while they ran.
		if len(sums) > 0 || known < 4 {
			t.Errorf("the files of %d events were known; %d processes without an end", known, len(sums))
		}
		if opts.Backends == quark.EBPF && tells(t, dir) && certain < 4 {
			t.Errorf("the files of %d events were certain", certain)
		}
	})
}

func BenchmarkFiles(b *testing.B) {
	p := &quark.Process{PID: uint32(os.Getpid())}
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/exe", &st); err != nil {
		b.Fatal(err)
	}
	p.Known = quark.SetOf(quark.FieldExecutable)
	p.Executable = quark.Executable{Device: uint32(st.Dev), Inode: st.Ino, Ctime: st.Ctim.Nano()}
	time.Sleep(time.Second)
	b.Run("remembered", func(b *testing.B) {
		var files quark.Files
		b.ReportAllocs()
		for b.Loop() {
			if _, err := files.Read(p); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		b.SetBytes(st.Size)
		for b.Loop() {
			if _, err := new(quark.Files).Read(p); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// A program in a lower layer of an overlayfs and one that was copied up look the same from user
// space, on one file system and on two: which layer it is in cannot be told honestly.
func TestOverlayShowsNoLayer(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("it mounts file systems: needs root")
	}
	mount := func(kind, at, data string) {
		t.Helper()
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount(kind, at, kind, 0, data); err != nil {
			t.Skipf("mount %s: %v", kind, err)
		}
		t.Cleanup(func() { unix.Unmount(at, unix.MNT_DETACH) })
	}
	for _, two := range []bool{false, true} {
		dir := t.TempDir()
		lower, upper, work, merged := dir+"/a/lower", dir+"/a/upper", dir+"/a/work", dir+"/merged"
		mount("tmpfs", dir+"/a", "")
		if two {
			upper, work = dir+"/b/upper", dir+"/b/work"
			mount("tmpfs", dir+"/b", "")
		}
		for _, d := range []string{lower, upper, work} {
			if err := os.MkdirAll(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		writeProgram(t, lower+"/below", "")
		writeProgram(t, lower+"/above", "")
		mount("overlay", merged, "lowerdir="+lower+",upperdir="+upper+",workdir="+work)
		f, err := os.OpenFile(merged+"/above", os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		f.WriteString("changed")
		f.Close()
		if _, err := os.Stat(upper + "/above"); err != nil {
			t.Fatal(err)
		}
		var below, above string
		for name, shown := range map[string]*string{"below": &below, "above": &above} {
			p, _ := running(t, merged+"/"+name)
			exe := fmt.Sprintf("/proc/%d/exe", p.PID)
			var st, origin unix.Stat_t
			var fs unix.Statfs_t
			list := make([]byte, 1000)
			n, err := unix.Listxattr(exe, list)
			_, hidden := unix.Getxattr(exe, "trusted.overlay.origin", list)
			if err := errors.Join(err, unix.Stat(exe, &st), unix.Stat(lower+"/"+name, &origin), unix.Statfs(exe, &fs)); err != nil {
				t.Fatal(err)
			}
			*shown = fmt.Sprintf("device %d, the inode of below %t, links %d, file system %+v, attributes %q, %v",
				st.Dev, st.Ino == origin.Ino, st.Nlink, fs, list[:n], hidden)
		}
		if below != above {
			t.Errorf("the layers are told apart:\n%s\n%s", below, above)
		}
	}
}
