package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/proctext"
)

// watchResidue fails the test for what is left at its end: processes, descriptors, mounts, probes.
func watchResidue(t *testing.T) {
	// Go opens descriptors of its own when a pipe is first waited for.
	if r, w, err := os.Pipe(); err == nil {
		r.SetReadDeadline(time.Unix(1, 0))
		r.Read(make([]byte, 1))
		r.Close()
		w.Close()
	}
	before, children := readResidue(t), childrenOf(os.Getpid())
	t.Cleanup(func() {
		for _, l := range append(endChildren(children), before.left(t)...) {
			t.Errorf("left behind: %s", l)
		}
	})
}

// residue counts what a test could leave, by a text with its kind in front. A descriptor has the
// text of its file: one that was closed and opened again may have another number.
type residue map[string]int

// tracefs has the files of probes. The rest of their lines may change: the kernel shows another
// address of a probe once it has random numbers.
const tracefs = "/sys/kernel/tracing/"

func readResidue(t *testing.T) residue {
	r := make(residue)
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		to, _ := os.Readlink("/proc/self/fd/" + fd.Name())
		// A shared source may hold a pidfd for each process of the machine.
		if to != "" && (shared.kind == "" || !strings.Contains(to, "[pidfd]")) {
			r["descriptor "+to]++
		}
	}
	for kind, path := range map[string]string{
		"mount": "/proc/self/mountinfo", "kernel probe": tracefs + "kprobe_events", "user probe": tracefs + "uprobe_events",
	} {
		b, _ := os.ReadFile(path) // a kernel without such probes has no file
		for line := range strings.Lines(string(b)) {
			if kind != "mount" {
				line, _, _ = strings.Cut(line, " ")
			}
			r[kind+" "+strings.TrimSpace(line)]++
		}
	}
	return r
}

// left returns the additions that remain: the kernel may take a while to remove something.
func (r residue) left(t *testing.T) (left []string) {
	const patience = 2 * time.Second
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		left = left[:0]
		for what, n := range readResidue(t) {
			if n > r[what] {
				left = append(left, what)
			}
		}
		if len(left) == 0 || time.Now().After(end) {
			slices.Sort(left)
			return left
		}
	}
}

// adoptOrphans makes this process the parent of all descendants that lose theirs, so that it finds
// what a test leaves running.
func adoptOrphans() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the reaper of orphans: %w", err)
	}
	return nil
}

// endChildren kills and reaps the children of this process except for some, and the orphans that
// it gets by that, and returns their descriptions.
func endChildren(except []int) (left []string) {
	seen := make(map[int]bool)
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		rest := slices.DeleteFunc(childrenOf(os.Getpid()), func(pid int) bool { return slices.Contains(except, pid) })
		if len(rest) == 0 {
			return left
		}
		if time.Now().After(end) {
			return append(left, "processes that SIGKILL does not end")
		}
		for _, pid := range rest {
			comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
			what := fmt.Sprintf("process %d (%s) that nobody waited for", pid, strings.TrimSpace(string(comm)))
			if ended, _ := unix.Wait4(pid, nil, unix.WNOHANG|unix.WALL, nil); ended != pid {
				what = strings.Replace(what, "that nobody waited for", "still running", 1)
				unix.Kill(pid, unix.SIGKILL)
			}
			if !seen[pid] {
				seen[pid] = true
				left = append(left, what)
			}
		}
	}
}

// childrenOf returns the children of a process. Not every kernel has a list of them.
func childrenOf(parent int) (pids []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			stat, err := proctext.ReadStat("/proc/" + e.Name() + "/stat")
			if err == nil && int(stat.PPID) == parent {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// watchTrace logs what the kernel's trace_pipe has from a test that fails.
func watchTrace(t *testing.T) {
	// The full path: opening the directory would not mount tracefs on some kernels.
	fd, err := unix.Open(tracefs+"trace_pipe", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Logf("open trace_pipe: %v", err)
		return
	}
	read := func() (text []byte) {
		for b := make([]byte, 16<<10); len(text) < 4<<20; text = append(text, b...) {
			n, err := unix.Read(fd, b[:cap(b)])
			if b = b[:max(n, 0)]; err != nil || n == 0 {
				break
			}
		}
		return text
	}
	read() // from before
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("trace_pipe: %q", read())
		}
		unix.Close(fd)
	})
}
