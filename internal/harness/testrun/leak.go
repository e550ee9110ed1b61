package testrun

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// descriptors is the set of descriptors that were open at a time.
type descriptors struct {
	// dir is /proc/self/fd, kept open because the test may change its root and
	// its ids.
	dir  int
	open map[string]string
}

func openDescriptors() (*descriptors, error) {
	// Go opens descriptors of its own when a pipe is first waited for.
	if r, w, err := os.Pipe(); err == nil {
		r.SetReadDeadline(time.Unix(1, 0))
		r.Read(make([]byte, 1))
		r.Close()
		w.Close()
	}
	dir, err := unix.Open("/proc/self/fd", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open /proc/self/fd, for which /proc must be mounted: %w", err)
	}
	d := &descriptors{dir: dir}
	if d.open, err = d.list(); err != nil {
		unix.Close(dir)
		return nil, err
	}
	return d, nil
}

func (d *descriptors) close() { unix.Close(d.dir) }

// list returns what is open, by number.
func (d *descriptors) list() (map[string]string, error) {
	if _, err := unix.Seek(d.dir, 0, 0); err != nil {
		return nil, fmt.Errorf("rewind /proc/self/fd: %w", err)
	}
	open := make(map[string]string)
	var names []string
	for buf := make([]byte, 8192); ; {
		n, err := unix.Getdents(d.dir, buf)
		if err != nil {
			return nil, fmt.Errorf("read /proc/self/fd: %w", err)
		}
		if n == 0 {
			break
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
	for _, n := range names {
		b := make([]byte, unix.PathMax)
		k, err := unix.Readlinkat(d.dir, n, b)
		if err != nil {
			b, k = []byte("?"), 1
		}
		open[n] = string(b[:k])
	}
	return open, nil
}

// left returns the descriptors that are open now and were not. One that was closed and
// opened again, as those of a CPU that goes and comes back, may have another number.
func (d *descriptors) left() (left []string, err error) {
	now, err := d.list()
	closed := make(map[string]int) // by what they are of
	for n, to := range d.open {
		if now[n] != to {
			closed[to]++
		}
	}
	for n, to := range now {
		switch {
		case d.open[n] == to:
		case closed[to] > 0:
			closed[to]--
		default:
			left = append(left, n+" ("+to+")")
		}
	}
	slices.Sort(left)
	return left, err
}

// residue is what a test could leave in the kernel, by kind: lines of files, or
// what they begin with.
type residue map[string][]string

// residueFiles are the files whose lines must be the same after a test; of each
// row the first that exists.
var residueFiles = []struct {
	kind  string
	paths []string
	// named is for lines that begin with a name, as the rest may change: the address
	// of a probe is shown as another one once the kernel has random numbers.
	named bool
}{
	{"mount", []string{"/proc/self/mountinfo"}, false},
	{"kernel probe", []string{"/sys/kernel/tracing/kprobe_events", "/sys/kernel/debug/tracing/kprobe_events"}, true},
	{"user probe", []string{"/sys/kernel/tracing/uprobe_events", "/sys/kernel/debug/tracing/uprobe_events"}, true},
}

// ownMounts gives this process, which has to be its main thread, a mount namespace
// in which no one else mounts: what changes there is of its tests.
func ownMounts() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("make a mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts from other namespaces: %w", err)
	}
	return nil
}

func readResidue() residue {
	r := make(residue)
	for _, f := range residueFiles {
		for _, path := range f.paths {
			lines, err := readLines(path)
			if err == nil {
				for i, l := range lines {
					if name, _, ok := strings.Cut(l, " "); ok && f.named {
						lines[i] = name
					}
				}
				r[f.kind] = lines
			}
			if !errors.Is(err, fs.ErrNotExist) {
				break
			}
		}
	}
	return r
}

func readLines(path string) (lines []string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		lines = append(lines, s.Text())
	}
	return lines, s.Err()
}

// left returns what has come to the kernel since and stays. Others may come and
// go on the same machine meanwhile, so only what is still there after a while counts.
func (r residue) left(patience time.Duration) (left []string) {
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		left = left[:0]
		for kind, lines := range readResidue() {
			for _, l := range lines {
				if !slices.Contains(r[kind], l) {
					left = append(left, kind+" "+strings.TrimSpace(l))
				}
			}
		}
		if len(left) == 0 || time.Now().After(end) {
			slices.Sort(left)
			return left
		}
	}
}
