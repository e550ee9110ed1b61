// Package selfcost measures what this process takes: CPU time and resident memory. A change of the
// root directory, after which there is no /proc, does not end that.
package selfcost

import (
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Meter measures. Its methods may be called from any goroutine.
type Meter struct{ statm *os.File }

// Open returns a meter.
func Open() (*Meter, error) {
	f, err := os.Open("/proc/self/statm")
	if err != nil {
		return nil, err
	}
	return &Meter{f}, nil
}

// CPU returns the time that all threads took so far, in user mode and in the kernel.
func (m *Meter) CPU() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u) // can't fail for this process
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Resident returns the bytes of memory that are resident; 0 is not known.
func (m *Meter) Resident() uint64 {
	var text [128]byte
	n, _ := m.statm.ReadAt(text[:], 0)
	fields := strings.Fields(string(text[:n]))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseUint(fields[1], 10, 64)
	return pages * uint64(os.Getpagesize())
}

// Close ends the measuring of memory.
func (m *Meter) Close() error { return m.statm.Close() }
