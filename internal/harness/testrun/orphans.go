package testrun

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/children"
	"github.com/quark-linux/quark/internal/proctext"
)

// adoptOrphans makes this process the parent of all descendants that lose
// theirs, so that what a test leaves running is found here.
func adoptOrphans() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the reaper of orphans: %w", err)
	}
	return nil
}

// reapOrphans kills and reaps the processes that the child of that pid left and
// returns their descriptions. It has to be called while no child is wanted.
func reapOrphans(group int) (left []string) {
	seen := make(map[int]bool)
	note := func(pid int, what string) {
		if !seen[pid] {
			seen[pid] = true
			left = append(left, fmt.Sprintf("process %d %s", pid, what))
		}
	}
	for end := time.Now().Add(10 * time.Second); ; {
		var status unix.WaitStatus
		switch pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil); {
		case err == unix.EINTR:
			continue
		case err != nil: // ECHILD: nobody is left
			return left
		case pid > 0:
			note(pid, "that nobody waited for")
			continue
		}
		for _, c := range childrenOf(os.Getpid()) {
			note(c.pid, "("+c.comm+") still running")
			unix.Kill(c.pid, unix.SIGKILL)
		}
		unix.Kill(-group, unix.SIGKILL)
		if time.Now().After(end) {
			return append(left, "processes that SIGKILL does not end")
		}
		// for the killed ones to end; there is no event to wait for
		time.Sleep(time.Millisecond)
	}
}

// orphansExcept kills and reaps the children of this process but for one, which
// is at rest, and returns their descriptions.
func orphansExcept(one int) (left []string) {
	for _, c := range childrenOf(os.Getpid()) {
		if c.pid == one {
			continue
		}
		left = append(left, fmt.Sprintf("process %d (%s) still running", c.pid, c.comm))
		unix.Kill(c.pid, unix.SIGKILL)
		unix.Wait4(c.pid, nil, unix.WALL, nil)
	}
	return left
}

type child struct {
	pid  int
	comm string
}

// childrenOf returns the children of a process as /proc shows them.
func childrenOf(parent int) []child {
	pids, err := children.Of(parent)
	if err != nil {
		pids, err = allProcesses()
	}
	if err != nil {
		return nil
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

func allProcesses() (pids []int, err error) {
	entries, err := os.ReadDir("/proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, err
}
