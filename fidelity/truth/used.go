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

	// IO is with that of all children that were waited for, LeaderIO of the leader alone, as
	// /proc/PID/task/PID/io says. They are nil where they can't be read.
	IO, LeaderIO *IO
	// Waited is of children that it has waited for, as far as it tells.
	Waited IO
}

// IO has the counters of /proc/PID/io.
type IO struct{ RChar, WChar, ReadBytes, WriteBytes uint64 }

// Add adds the counters of another process.
func (io *IO) Add(o *IO) {
	io.RChar, io.WChar = io.RChar+o.RChar, io.WChar+o.WChar
	io.ReadBytes, io.WriteBytes = io.ReadBytes+o.ReadBytes, io.WriteBytes+o.WriteBytes
}

// Less returns io without the counters of others.
func (io IO) Less(o *IO) IO {
	return IO{io.RChar - o.RChar, io.WChar - o.WChar, io.ReadBytes - o.ReadBytes, io.WriteBytes - o.WriteBytes}
}

// Add adds the figures of getrusage(2) or wait4(2).
func (u *Used) Add(ru *unix.Rusage) {
	u.User, u.System = uint64(ru.Utime.Nano()), uint64(ru.Stime.Nano())
	u.CPU, u.PeakRSS = u.User+u.System, uint64(ru.Maxrss)<<10
}

// ReadIO reads the counters of a process, also of one that has ended and was not waited for.
func (u *Used) ReadIO(pid string) { u.IO, u.LeaderIO = readIO(pid), readIO(pid+"/task/"+pid) }

func readIO(name string) *IO {
	b, err := os.ReadFile("/proc/" + name + "/io")
	if err != nil || len(b) == 0 {
		return nil // without CONFIG_TASK_IO_ACCOUNTING, or not for this user
	}
	var io IO
	at := map[string]*uint64{"rchar": &io.RChar, "wchar": &io.WChar, "read_bytes": &io.ReadBytes, "write_bytes": &io.WriteBytes}
	for line := range strings.Lines(string(b)) {
		key, value, _ := strings.Cut(line, ": ")
		if n := at[key]; n != nil {
			if _, err := fmt.Sscan(value, n); err != nil {
				return nil
			}
			delete(at, key)
		}
	}
	if len(at) != 0 {
		return nil
	}
	return &io
}

// OwnUse returns what this process has used, of which children that it has waited for moved waited.
func OwnUse(waited IO) (u Used, err error) {
	u.IO, u.Waited = readIO("self"), waited
	var ru unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &ru); err != nil {
		return u, fmt.Errorf("getrusage: %w", err)
	}
	u.Add(&ru)
	return u, nil
}
