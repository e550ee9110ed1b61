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

// watchResidue fails the test if it leaves processes, descriptors, mounts or probes behind.
func watchResidue(t *testing.T) {
	// The Go runtime opens descriptors at the first wait for a pipe.
	if r, w, err := os.Pipe(); err == nil {
		r.SetReadDeadline(time.Unix(1, 0))
		r.Read(make([]byte, 1))
		r.Close()
		w.Close()
	}
	before, children := readResidue(t), childrenOf(os.Getpid())
	t.Cleanup(func() {
		for _, l := range append(endChildren(children), before.remaining(t)...) {
			t.Errorf("left behind: %s", l)
		}
	})
}

// residue counts the objects that a test could leave, by description, which begins with the kind of
// object. The description of a descriptor is its file, because the number can change.
type residue map[string]int

// tracefs has the lists of probes. Only the start of a line is stable: the kernel may later print
// another address for a probe.
const tracefs = "/sys/kernel/tracing/"

func readResidue(t *testing.T) residue {
	r := make(residue)
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		to, _ := os.Readlink("/proc/self/fd/" + fd.Name())
		// A shared source of events may hold a pidfd for each process.
		if to != "" && (shared.kind == "" || !strings.Contains(to, "[pidfd]")) {
			r["descriptor "+to]++
		}
	}
	for kind, path := range map[string]string{
		"mount": "/proc/self/mountinfo", "kernel probe": tracefs + "kprobe_events", "user probe": tracefs + "uprobe_events",
	} {
		b, _ := os.ReadFile(path) // the file is missing if the kernel has no such probes
		for line := range strings.Lines(string(b)) {
			if kind != "mount" {
				line, _, _ = strings.Cut(line, " ")
			}
			r[kind+" "+strings.TrimSpace(line)]++
		}
	}
	return r
}

// remaining returns the objects that are still left after some time, because the kernel removes
// some objects late.
func (r residue) remaining(t *testing.T) (left []string) {
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

// adoptOrphans makes this process the parent of orphaned descendants, so that it finds processes
// that a test leaves running.
func adoptOrphans() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the reaper of orphans: %w", err)
	}
	return nil
}

// endChildren kills and reaps the children of this process except those in except, and the orphans
// that this process then adopts. It returns their descriptions.
func endChildren(except []int) (left []string) {
	seen := make(map[int]bool)
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		rest := slices.DeleteFunc(childrenOf(os.Getpid()), func(pid int) bool { return slices.Contains(except, pid) })
		if len(rest) == 0 {
			return left
		}
		if time.Now().After(end) {
			return append(left, "processes that survive SIGKILL")
		}
		for _, pid := range rest {
			comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
			what := fmt.Sprintf("process %d (%s), not reaped", pid, strings.TrimSpace(string(comm)))
			if ended, _ := unix.Wait4(pid, nil, unix.WNOHANG|unix.WALL, nil); ended != pid {
				what = strings.Replace(what, "not reaped", "still running", 1)
				unix.Kill(pid, unix.SIGKILL)
			}
			if !seen[pid] {
				seen[pid] = true
				left = append(left, what)
			}
		}
	}
}

// childrenOf returns the children of a process. It reads all of /proc, because some kernels lack
// /proc/PID/task/TID/children.
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

// watchTrace logs the contents of the kernel's trace_pipe if the test fails.
func watchTrace(t *testing.T) {
	// The full path mounts tracefs on all kernels. Opening the directory does not.
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
	read() // discard earlier contents
	t.Cleanup(func() {
		// The last line of the log is the reason of the failure: print no empty trace.
		if text := read(); t.Failed() && len(text) > 0 {
			t.Logf("trace_pipe: %q", text)
		}
		unix.Close(fd)
	})
}
