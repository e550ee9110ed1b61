// Package children waits for child processes. It lists the children of a process from the kernel's
// own list, without a scan of all processes.
package children

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Wait waits until a child of the caller exits or, if it is traced, stops.
func Wait(pid int) (status unix.WaitStatus, err error) {
	for {
		_, err = unix.Wait4(pid, &status, unix.WALL, nil)
		if err != unix.EINTR {
			return status, err
		}
	}
}

// Of returns the children of all threads of a process. It returns an error if the children of a
// thread are unknown, because the thread has exited or the kernel has no list of children
// (CONFIG_PROC_CHILDREN).
func Of(pid int) (pids []int, err error) {
	tasks := fmt.Sprintf("/proc/%d/task/", pid)
	threads, err := os.ReadDir(tasks)
	for _, t := range threads {
		b, e := os.ReadFile(tasks + t.Name() + "/children")
		if e != nil {
			err = e
		}
		for _, word := range strings.Fields(string(b)) {
			if child, e := strconv.Atoi(word); e == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids, err
}
