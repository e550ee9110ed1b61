package testrun

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
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
		for _, c := range children(os.Getpid()) {
			note(c.pid, "("+c.comm+") still running")
			unix.Kill(c.pid, unix.SIGKILL)
		}
		unix.Kill(-group, unix.SIGKILL)
		if time.Now().After(end) {
			return append(left, "processes that SIGKILL does not end")
		}
		time.Sleep(time.Millisecond) // for the killed ones to end; there is no event to wait for
	}
}

// orphansExcept kills and reaps the children of this process but for one, which
// is at rest, and returns their descriptions.
func orphansExcept(one int) (left []string) {
	for _, c := range children(os.Getpid()) {
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

// children returns the children of a process as /proc shows them.
func children(parent int) []child {
	pids, err := listedChildren(parent)
	if err != nil { // the kernel has no such list: CONFIG_PROC_CHILDREN
		pids, err = listDir("/proc")
	}
	if err != nil {
		return nil
	}
	return childrenAmong(pids, parent)
}

func childrenAmong(pids []string, parent int) (list []child) {
	for _, pid := range pids {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil {
			continue
		}
		open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
		if open < 0 || end < open {
			continue
		}
		fields := bytes.Fields(stat[end+1:])
		n, err := strconv.Atoi(pid)
		if err == nil && len(fields) > 1 && string(fields[1]) == strconv.Itoa(parent) {
			list = append(list, child{n, string(stat[open+1 : end])})
		}
	}
	return list
}

// listedChildren returns the pids that the kernel lists for each thread of a process,
// which spares looking at all processes.
func listedChildren(parent int) (pids []string, err error) {
	tasks := fmt.Sprintf("/proc/%d/task/", parent)
	tids, err := listDir(tasks)
	if err != nil {
		return nil, err
	}
	for _, tid := range tids {
		b, err := os.ReadFile(tasks + tid + "/children")
		if err != nil {
			return nil, err
		}
		pids = append(pids, strings.Fields(string(b))...)
	}
	return pids, nil
}

// listDir returns the names in a directory that are numbers.
func listDir(dir string) (numbers []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err == nil {
			numbers = append(numbers, e.Name())
		}
	}
	return numbers, err
}
