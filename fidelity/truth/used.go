package truth

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Used is the resource usage of a process, from getrusage(2) or wait4(2) and /proc/PID/io.
type Used struct {
	CPU, User, System uint64 // ns
	PeakRSS           uint64 // bytes

	// IO includes all children that were waited for, LeaderIO only the leader, as in
	// /proc/PID/task/PID/io. They are nil if unreadable.
	IO, LeaderIO *IO
	// Waited is the I/O of the recorded children for which the process has waited.
	Waited IO
}

// IO has the counters of /proc/PID/io.
type IO struct{ RChar, WChar, ReadBytes, WriteBytes uint64 }

// Add adds the counters of another process.
func (io *IO) Add(o *IO) {
	io.RChar, io.WChar = io.RChar+o.RChar, io.WChar+o.WChar
	io.ReadBytes, io.WriteBytes = io.ReadBytes+o.ReadBytes, io.WriteBytes+o.WriteBytes
}

// Less returns io minus o.
func (io IO) Less(o *IO) IO {
	return IO{io.RChar - o.RChar, io.WChar - o.WChar, io.ReadBytes - o.ReadBytes, io.WriteBytes - o.WriteBytes}
}

// Add adds the figures of getrusage(2) or wait4(2).
func (u *Used) Add(ru *unix.Rusage) {
	u.User, u.System = uint64(ru.Utime.Nano()), uint64(ru.Stime.Nano())
	u.CPU, u.PeakRSS = u.User+u.System, uint64(ru.Maxrss)<<10
}

// ReadIO reads the counters of a process, which may be a zombie.
func (u *Used) ReadIO(pid string) { u.IO, u.LeaderIO = readIO(pid), readIO(pid+"/task/"+pid) }

func readIO(name string) *IO {
	b, err := os.ReadFile("/proc/" + name + "/io")
	if err != nil || len(b) == 0 {
		return nil // without CONFIG_TASK_IO_ACCOUNTING, or not permitted
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

// OwnUse returns the usage of this process. waited is the I/O of the children that it has waited
// for.
func OwnUse(waited IO) (u Used, err error) {
	u.IO, u.Waited = readIO("self"), waited
	var ru unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &ru); err != nil {
		return u, fmt.Errorf("getrusage: %w", err)
	}
	u.Add(&ru)
	return u, nil
}
