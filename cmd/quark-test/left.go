package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/children"
	"github.com/quark-linux/quark/internal/proctext"
)

// descriptors is the set of descriptors that were open at a time.
type descriptors struct {
	// dir is /proc/self/fd, kept open because the test may change its root and
	// its ids.
	dir  *os.File
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
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return nil, fmt.Errorf("%w, for which /proc must be mounted", err)
	}
	d := &descriptors{dir: dir}
	if d.open, err = d.list(); err != nil {
		dir.Close()
		return nil, err
	}
	return d, nil
}

// list returns the open descriptors, by number.
func (d *descriptors) list() (map[string]string, error) {
	if _, err := d.dir.Seek(0, 0); err != nil {
		return nil, err
	}
	names, err := d.dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	open := make(map[string]string)
	for _, n := range names {
		b := make([]byte, unix.PathMax)
		k, err := unix.Readlinkat(int(d.dir.Fd()), n, b)
		if err != nil {
			k = copy(b, "?")
		}
		open[n] = string(b[:k])
	}
	return open, nil
}

// left returns the descriptors that are open now and were not before. One that was closed and
// opened again may have another number: a source does that for a CPU that goes offline and comes
// back.
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

// residue is the set of all mounts and probes, which a test could leave in the kernel: lines of
// files, with their kind in front.
type residue map[string]bool

// residueFiles are files that must have the same lines after a test. Of each row the first file
// that exists is read.
var residueFiles = []struct {
	kind  string
	paths []string
	// named means that only the first word of a line counts, a name. The rest may change: the
	// kernel shows another address of a probe once it has random numbers.
	named bool
}{
	{"mount", []string{"/proc/self/mountinfo"}, false},
	{"kernel probe", []string{"/sys/kernel/tracing/kprobe_events", "/sys/kernel/debug/tracing/kprobe_events"}, true},
	{"user probe", []string{"/sys/kernel/tracing/uprobe_events", "/sys/kernel/debug/tracing/uprobe_events"}, true},
}

func readResidue() residue {
	r := make(residue)
	for _, f := range residueFiles {
		for _, path := range f.paths {
			b, err := os.ReadFile(path)
			for line := range strings.Lines(string(b)) {
				if f.named {
					line, _, _ = strings.Cut(line, " ")
				}
				r[f.kind+" "+strings.TrimSpace(line)] = true
			}
			if !errors.Is(err, fs.ErrNotExist) {
				break
			}
		}
	}
	return r
}

// left returns the additions that remain when patience is over. Other programs of this machine
// mount and unmount meanwhile.
func (r residue) left(patience time.Duration) (left []string) {
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		left = left[:0]
		for line := range readResidue() {
			if !r[line] {
				left = append(left, line)
			}
		}
		if len(left) == 0 || time.Now().After(end) {
			slices.Sort(left)
			return left
		}
	}
}

// watchResidue fails the test for descriptors, mounts, probes and processes that are left at its
// end.
func watchResidue(t *testing.T) {
	before, err := openDescriptors()
	if err != nil {
		t.Fatal(err)
	}
	were, children := readResidue(), childrenOf(os.Getpid())
	t.Cleanup(func() {
		defer before.dir.Close()
		open, err := before.left()
		if err != nil {
			t.Errorf("look for descriptors left open: %v", err)
		}
		for _, l := range open {
			// A shared source may hold one for each process of the machine.
			if shared.kind == "" || !strings.Contains(l, "[pidfd]") {
				t.Errorf("left open: descriptor %s", l)
			}
		}
		for _, l := range append(endChildren(children), were.left(patience)...) {
			t.Errorf("left behind: %s", l)
		}
	})
}

// patience is how long the kernel may take to remove something.
const patience = 2 * time.Second

// adoptOrphans makes this process the parent of all descendants that lose
// theirs, so that what a test leaves running is found here.
func adoptOrphans() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the reaper of orphans: %w", err)
	}
	return nil
}

// endChildren kills and reaps the children of this process except for some, and the orphans that
// it gets by that, and returns their descriptions.
func endChildren(except []child) (left []string) {
	seen := make(map[int]bool)
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		rest := slices.DeleteFunc(childrenOf(os.Getpid()), func(c child) bool { return slices.Contains(except, c) })
		if len(rest) == 0 {
			return left
		}
		if time.Now().After(end) {
			return append(left, "processes that SIGKILL does not end")
		}
		for _, c := range rest {
			what := fmt.Sprintf("process %d that nobody waited for", c.pid)
			if pid, _ := unix.Wait4(c.pid, nil, unix.WNOHANG|unix.WALL, nil); pid != c.pid {
				what = fmt.Sprintf("process %d (%s) still running", c.pid, c.comm)
				unix.Kill(c.pid, unix.SIGKILL)
			}
			if !seen[c.pid] {
				seen[c.pid] = true
				left = append(left, what)
			}
		}
	}
}

type child struct {
	pid  int
	comm string
}

// childrenOf returns the children of a process as /proc shows them.
func childrenOf(parent int) []child {
	pids, err := children.Of(parent)
	if err != nil {
		pids = allProcesses()
	}
	return childrenAmong(pids, parent)
}

func childrenAmong(pids []int, parent int) (list []child) {
	for _, pid := range pids {
		stat, err := proctext.ReadStat(fmt.Sprintf("/proc/%d/stat", pid))
		if err == nil && int(stat.PPID) == parent {
			list = append(list, child{pid, string(stat.Comm)})
		}
	}
	return list
}

func allProcesses() (pids []int) {
	entries, _ := os.ReadDir("/proc") // without /proc no process is found
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
