package soak

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/quark-linux/quark/internal/tracefs"
)

// Sample is what was in use at one time, while nothing happened.
type Sample struct {
	After   time.Duration // since the begin
	Figures []Figure      // in the same order in all samples
	// Busy is set if other processes had so many events that these are in the memory.
	Busy bool
}

// Figure is one thing that must not grow.
type Figure struct {
	Name  string
	Value int64
	// Slack is 0 where one more is too many. Of memory, which is never quite the same, it is
	// how many bytes more are none, whatever part of all that is.
	Slack int64
}

// String returns the figure as it is printed.
func (f Figure) String() string {
	if f.Slack == 0 {
		return fmt.Sprintf("%s %d", f.Name, f.Value)
	}
	return fmt.Sprintf("%s %s", f.Name, mebibytes(f.Value))
}

func mebibytes(n int64) string { return fmt.Sprintf("%.2f MiB", float64(n)/(1<<20)) }

const (
	heapSlack   = 512 << 10 // what this program has kept after a collection
	memorySlack = 2 << 20   // pages: of them the allocator keeps some or other
)

// ownFigures returns those of this process, after a collection of garbage.
func ownFigures() ([]Figure, error) {
	// What finalizers let go of is collected the second time.
	runtime.GC()
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	pid := os.Getpid()
	list, err := figuresOf("", pid)
	if err != nil {
		return nil, err
	}
	// The runtime's own records are as large as the largest heap so far made them, for good.
	// That was the judge's, which keeps all events of a batch, also of other processes.
	list[0].Value -= int64(m.MSpanSys + m.MCacheSys + m.BuckHashSys + m.GCSys + m.OtherSys)
	list = append([]Figure{{"heap", int64(m.HeapAlloc), heapSlack}}, list...)
	list = append(list, Figure{Name: "goroutines", Value: int64(runtime.NumGoroutine())})
	if n, ok := probesOf(pid); ok {
		list = append(list, Figure{Name: "probes", Value: n})
	}
	return list, nil
}

// figuresOf returns those of a process, with a prefix before their names.
func figuresOf(prefix string, pid int) ([]Figure, error) {
	dir := fmt.Sprintf("/proc/%d/", pid)
	status, err := os.ReadFile(dir + "status")
	if err != nil {
		return nil, err
	}
	memory, ok := statusKB(status, "RssAnon:")
	if !ok {
		return nil, fmt.Errorf("%sstatus has no RssAnon: Linux 4.5 or later is needed", dir)
	}
	fds, err := descriptors(dir)
	if err != nil {
		return nil, err
	}
	maps, err := os.ReadFile(dir + "maps")
	if err != nil {
		return nil, err
	}
	return []Figure{
		{prefix + "memory", memory << 10, memorySlack},
		{prefix + "descriptors", fds, 0},
		{prefix + "mapped files", int64(mappedFiles(maps)), 0},
	}, nil
}

// unread is how many descriptors there may be of processes that have just ended: a source that
// reads /proc closes them when it reads the next time.
const unread = 64

// descriptors counts the descriptors of the process with that directory in /proc. Those of living
// processes do not count, as there are more when there are more processes.
func descriptors(dir string) (n int64, err error) {
	list, err := os.ReadDir(dir + "fd")
	var over int64 // of processes that have ended
	for _, e := range list {
		to, err := os.Readlink(dir + "fd/" + e.Name())
		if err != nil {
			continue // that of this directory
		}
		if strings.Contains(to, "[pidfd]") {
			if info, err := os.ReadFile(dir + "fdinfo/" + e.Name()); err == nil && bytes.Contains(info, []byte("\nPid:\t-1\n")) {
				over++
			}
			continue
		}
		n++
	}
	return n + max(0, over-unread), err
}

// statusKB returns a line of /proc/PID/status.
func statusKB(status []byte, name string) (kb int64, ok bool) {
	for line := range bytes.Lines(status) {
		if words := strings.Fields(string(line)); len(words) > 1 && words[0] == name {
			kb, err := strconv.ParseInt(words[1], 10, 64)
			return kb, err == nil
		}
	}
	return 0, false
}

// mappedFiles counts the mappings of files, such as rings. The others are memory, which the runtime
// maps in pieces of its own choice.
func mappedFiles(maps []byte) (n int) {
	for line := range bytes.Lines(maps) {
		if words := strings.Fields(string(line)); len(words) >= 6 && !strings.HasPrefix(words[5], "[") {
			n++
		}
	}
	return n
}

// probesOf counts the probes of the kernel whose name has the pid of their maker. ok is false
// where the kernel has none.
func probesOf(pid int) (n int64, ok bool) {
	fs, err := tracefs.Open()
	if err != nil {
		return 0, false
	}
	defer fs.Close()
	names, err := fs.ProbeNames("kprobe_events")
	if err != nil {
		return 0, false
	}
	for _, name := range names {
		for _, word := range strings.FieldsFunc(name, func(c rune) bool { return c < '0' || c > '9' }) {
			if word == strconv.Itoa(pid) {
				n++
				break
			}
		}
	}
	return n, true
}
