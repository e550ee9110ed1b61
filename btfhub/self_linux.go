package btfhub

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Self is what a thread knows of itself, or what was read of it from the
// kernel's memory by way of types that may be wrong.
//
// The self-test of types that are a guess, for a backend:
//
//	runtime.LockOSThread()
//	truth, err := btfhub.ReadSelf()
//	err = truth.Provoke() // the probe on task_rename or __set_task_comm fires
//	// take the record that it left; none after a second is a failure too
//	err = truth.Check(btfhub.Self{TID: record.tid, PID: record.pid, ...})
type Self struct {
	TID  uint32 // task_struct.pid
	PID  uint32 // task_struct.tgid
	PPID uint32 // task_struct.real_parent -> tgid
	UID  uint32 // task_struct.cred -> uid
	Comm string // task_struct.comm

	// StartBoottime is in nanoseconds. Truth is known to a clock tick, 10 ms.
	StartBoottime uint64
}

// tick is the unit of start times in /proc.
const tick = 10_000_000

// ErrNamespaced says that a process cannot know itself as the kernel does,
// because it is in a pid or user namespace of its own.
var ErrNamespaced = errors.New("in a pid or user namespace: the kernel's own numbers of this process are not known here")

// ReadSelf returns the truth about the calling thread. The caller has locked
// its goroutine to it, see [runtime.LockOSThread].
func ReadSelf() (Self, error) { return readTask(uint32(unix.Gettid())) }

// ReadLeader returns the truth about the leader of the calling process's
// threads, for backends that see only leaders.
func ReadLeader() (Self, error) { return readTask(uint32(os.Getpid())) }

func readTask(tid uint32) (Self, error) {
	s := Self{
		TID:  tid,
		PID:  uint32(os.Getpid()),
		PPID: uint32(os.Getppid()),
		UID:  uint32(os.Getuid()),
	}
	for _, ns := range initialNamespaces {
		if link, err := os.Readlink("/proc/self/ns/" + ns.kind); err == nil && link != fmt.Sprintf("%s:[%d]", ns.kind, ns.inode) {
			return s, fmt.Errorf("read self: %w", ErrNamespaced)
		}
	}
	stat, err := os.ReadFile(s.proc("stat"))
	if err != nil {
		return s, fmt.Errorf("read self: %w", err)
	}
	if s.Comm, s.StartBoottime, err = parseStat(string(stat)); err != nil {
		return s, fmt.Errorf("read self: %w", err)
	}
	return s, nil
}

// proc is the path of a file of the thread.
func (truth *Self) proc(name string) string {
	return fmt.Sprintf("/proc/self/task/%d/%s", truth.TID, name)
}

// Provoke sets the thread's name to what it is, which changes nothing
// but makes the kernel go through __set_task_comm() and the tracepoint
// task_rename.
func (truth Self) Provoke() error {
	f, err := os.OpenFile(truth.proc("comm"), os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("set thread's name: %w", err)
	}
	_, err = f.WriteString(truth.Comm)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("set thread's name: %w", err)
	}
	return nil
}

// initialNamespaces have fixed inodes; include/linux/proc_ns.h in the kernel.
var initialNamespaces = []struct {
	kind  string
	inode uint32
}{
	{"pid", 0xeffffffc},
	{"user", 0xeffffffd},
}

// parseStat takes comm and start time from a line as proc_pid_stat(5) has it.
func parseStat(line string) (comm string, start uint64, err error) {
	open, end := strings.IndexByte(line, '('), strings.LastIndexByte(line, ')')
	if open < 0 || end < open {
		return "", 0, errors.New("no name in /proc/self/task/TID/stat")
	}
	const startField = 22 - 3 // of those behind the name
	fields := strings.Fields(line[end+1:])
	if len(fields) <= startField {
		return "", 0, errors.New("no start time in /proc/self/task/TID/stat")
	}
	ticks, err := strconv.ParseUint(fields[startField], 10, 64)
	if err != nil || ticks > 1<<63/tick {
		return "", 0, errors.New("no start time in /proc/self/task/TID/stat")
	}
	return line[open+1 : end], ticks * tick, nil
}

// Check compares what was read of a thread with the truth about it. An error
// says what differs: then the types are not those of the running kernel.
func (truth Self) Check(read Self) error {
	var wrong []string
	differ := func(name string, read, truth any) {
		if read != truth {
			wrong = append(wrong, fmt.Sprintf("%s is %v and reads as %v", name, truth, read))
		}
	}
	differ("tid", read.TID, truth.TID)
	differ("pid", read.PID, truth.PID)
	differ("ppid", read.PPID, truth.PPID)
	differ("uid", read.UID, truth.UID)
	differ("comm", strconv.Quote(read.Comm), strconv.Quote(truth.Comm))
	if read.StartBoottime/tick != truth.StartBoottime/tick {
		wrong = append(wrong, fmt.Sprintf("start time is %d ns and reads as %d ns", truth.StartBoottime, read.StartBoottime))
	}
	if wrong == nil {
		return nil
	}
	return fmt.Errorf("the types are not this kernel's: %s", strings.Join(wrong, ", "))
}
