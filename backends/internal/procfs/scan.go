package procfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/proctext"
)

// PIDs returns the existing processes. The slice is valid until the next call of PIDs, Scan or
// Tasks.
func (r *reader) PIDs() ([]uint32, error) { return r.numbers(r.proc, pathSelf) }

// Tasks returns the threads of process pid, including a leader that has ended. It is empty if the
// process is gone. The slice is valid until the next call of PIDs, Scan or Tasks.
func (r *reader) Tasks(pid uint32) []uint32 {
	tasks, _ := r.numbers(r.proc, r.name(pid, "/task"))
	return tasks
}

func (r *reader) readStatus(pid uint32) (st Status, start uint64, err error) {
	return r.status(r.proc, r.name(pid, "/stat"))
}

func (r *reader) readThreadStatus(pid, tid uint32) (st Status, start uint64, err error) {
	b := r.name(pid, "/task/")
	b = strconv.AppendUint(b[:len(b)-1], uint64(tid), 10)
	return r.status(r.proc, append(b, "/stat\x00"...))
}

func (r *reader) status(dir int, pathNUL []byte) (st Status, start uint64, err error) {
	b, ok := r.readFile(dir, pathNUL)
	if !ok {
		return Status{}, 0, ErrVanished
	}
	s, ok := proctext.ParseStat(b)
	if !ok {
		return Status{}, 0, errMalformed
	}
	return status(&s), s.Start, nil
}

func (r *reader) readExitStatus(pid uint32) (status int32, start uint64, ok bool) {
	dir, errno := openat(r.proc, r.name(pid, ""), unix.O_PATH|unix.O_DIRECTORY)
	if errno != 0 {
		return 0, 0, false
	}
	defer closeFD(dir)
	b, ok := r.readFile(dir, pathStat)
	if !ok {
		return 0, 0, false
	}
	s, ok := proctext.ParseStat(b)
	if !ok || s.State != 'Z' || s.Threads > 1 {
		return 0, 0, false
	}
	status, ok = proctext.ParseExitStatus(b)
	if ok && status == 0 {
		// The kernel shows 0 to readers that may not see the status. The link exe needs the
		// same privilege.
		_, errno := readlinkat(dir, pathExe, r.buf)
		ok = errno == unix.ENOENT
	}
	return status, s.Start, ok
}

// numbers returns the entries of a directory that have numbers as names.
func (r *reader) numbers(dir int, pathNUL []byte) ([]uint32, error) {
	fd, errno := openat(dir, pathNUL, unix.O_RDONLY|unix.O_DIRECTORY)
	if errno != 0 {
		return nil, fmt.Errorf("open directory of /proc: %w", errno)
	}
	defer closeFD(fd)
	r.pids = r.pids[:0]
	for {
		n, err := unix.Getdents(fd, r.dirs)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read directory of /proc: %w", err)
		}
		if n <= 0 {
			return r.pids, nil
		}
		r.pids = appendNumbers(r.pids, r.dirs[:n])
	}
}

// appendNumbers appends the names that are numbers from a buffer of struct
// linux_dirent64: ino u64, off i64, reclen u16, type u8, name.
func appendNumbers(pids []uint32, b []byte) []uint32 {
	const nameOff = 19
	for len(b) > nameOff {
		reclen := int(binary.NativeEndian.Uint16(b[16:]))
		if reclen <= nameOff || reclen > len(b) {
			break
		}
		// Parsing a name that is no number would allocate an error.
		if first := b[nameOff]; '1' <= first && first <= '9' {
			name, _, _ := proctext.Cut(b[nameOff:reclen], 0)
			if pid, ok := proctext.Uint32(name); ok {
				pids = append(pids, pid)
			}
		}
		b = b[reclen:]
	}
	return pids
}

// readArguments implements [Reader.Cmdline].
func (r *reader) readArguments(ev *engine.RawEvent) bool {
	if r.withoutMemory {
		return false
	}
	if r.environ != nil {
		r.readEnviron(r.proc, r.name(ev.PID, "/environ"), false, ev)
	}
	return r.readCmdline(r.proc, r.name(ev.PID, "/cmdline"), ev)
}
