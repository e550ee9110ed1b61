package truth

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Used is what a process has used, as getrusage(2) or wait4(2) and /proc/PID/io say.
type Used struct {
	CPU, User, System uint64 // ns
	PeakRSS           uint64 // bytes
	IO                *IO    // nil where it can't be read
}

// IO has the counters of /proc/PID/io.
type IO struct{ RChar, WChar, ReadBytes, WriteBytes uint64 }

// Add adds the figures of getrusage(2) or wait4(2).
func (u *Used) Add(ru *unix.Rusage) {
	u.User, u.System = uint64(ru.Utime.Nano()), uint64(ru.Stime.Nano())
	u.CPU, u.PeakRSS = u.User+u.System, uint64(ru.Maxrss)<<10
}

// ReadIO reads the counters of a process, also of one that has ended and was not waited for.
func (u *Used) ReadIO(name string) {
	b, err := os.ReadFile("/proc/" + name + "/io")
	if err != nil || len(b) == 0 {
		return // without CONFIG_TASK_IO_ACCOUNTING, or not for this user
	}
	var io IO
	at := map[string]*uint64{"rchar": &io.RChar, "wchar": &io.WChar, "read_bytes": &io.ReadBytes, "write_bytes": &io.WriteBytes}
	for line := range strings.Lines(string(b)) {
		key, value, _ := strings.Cut(line, ": ")
		if n := at[key]; n != nil {
			if _, err := fmt.Sscan(value, n); err != nil {
				return
			}
			delete(at, key)
		}
	}
	if len(at) == 0 {
		u.IO = &io
	}
}

// OwnUse returns what this process has used.
func OwnUse() (u Used, err error) {
	u.ReadIO("self")
	var ru unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &ru); err != nil {
		return u, fmt.Errorf("getrusage: %w", err)
	}
	u.Add(&ru)
	return u, nil
}
