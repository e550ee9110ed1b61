package procfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/clock"
	"github.com/quark-linux/quark/internal/proctext"
)

// Scan calls f for every process, in the order of pids, with all that can be read of it. ev is
// valid during the call. A process that vanishes is left out. An error of f ends the scan and is
// returned. f must not use r.
//
// Goroutines read some batches of processes each, as most of the time is the kernel's. None is left
// when Scan returns.
func (r *Reader) Scan(f func(ev *engine.RawEvent) error) error {
	pids, err := r.PIDs()
	if err != nil {
		return err
	}
	batches := slices.Collect(slices.Chunk(pids, scanBatch))
	read := make([]chan []engine.RawEvent, min(len(batches), maxReaders, runtime.GOMAXPROCS(0)))
	var running sync.WaitGroup
	for i := range read {
		read[i] = make(chan []engine.RawEvent)
		running.Go(func() {
			r := r.another()
			defer unix.Close(r.own.fd)
			r.ownRoot, _ = placeOf(r.proc, pathOwnRoot)
			// f has one while the other is filled.
			var events [2][scanBatch]engine.RawEvent
			for n := i; n < len(batches); n += len(read) {
				to := &events[n/len(read)%2]
				read[i] <- to[:r.readBatch(batches[n], to)]
			}
		})
	}
	for n := range batches {
		events := <-read[n%len(read)]
		for i := range events {
			if err == nil {
				err = f(&events[i])
			}
		}
	}
	running.Wait()
	return err
}

const (
	maxReaders = 4
	scanBatch  = 32
)

// readBatch reads processes into to and returns how many were there.
func (r *Reader) readBatch(pids []uint32, to *[scanBatch]engine.RawEvent) (n int) {
	for _, pid := range pids {
		if r.Describe(pid, &to[n]) {
			n++
		}
	}
	return n
}

// Describe reads all that can be read of a process, and reports whether there is one. The time of
// ev is that of the end of the reading. The kind of a zombie is EXIT, as [engine.Engine.Learn]
// wants it.
func (r *Reader) Describe(pid uint32, ev *engine.RawEvent) bool {
	ev.Reset()
	ev.PID, ev.TID = pid, pid
	st, err := r.Read(pid, Readable, ev)
	if st.Ended {
		ev.Task.Known &^= Replaced
	}
	if st.Over() {
		ev.Kind = engine.KindExit
	}
	ev.Time = clock.Monotonic()
	return err == nil
}

// Cmdline reads the arguments of process ev.PID and reports whether it has any. It reads the
// environment too, if Read does, and leaves an empty one unknown.
func (r *Reader) Cmdline(ev *engine.RawEvent) bool {
	if r.environ != nil {
		r.readEnviron(r.proc, r.name(ev.PID, "/environ"), false, ev)
	}
	return r.readCmdline(r.proc, r.name(ev.PID, "/cmdline"), ev)
}

// PIDs returns the existing processes. The slice is valid until the next call of PIDs, Scan or
// Tasks.
func (r *Reader) PIDs() ([]uint32, error) { return r.numbers(r.proc, pathSelf) }

// Tasks returns the threads of process pid, including a leader that has ended. It is empty if the
// process is gone. The slice is valid until the next call of PIDs, Scan or Tasks.
func (r *Reader) Tasks(pid uint32) []uint32 {
	tasks, _ := r.numbers(r.proc, r.name(pid, "/task"))
	return tasks
}

// Threads returns how many threads are in process pid, including a leader that has ended, 0 if it
// is gone. It costs less than Status.
func (r *Reader) Threads(pid uint32) uint32 {
	st, _ := statx(r.proc, r.name(pid, "/task"), unix.STATX_NLINK)
	return max(st.Nlink, 2) - 2
}

// Status returns the status that Read would, and the start time, from stat alone.
func (r *Reader) Status(pid uint32) (st Status, start uint64, err error) {
	st, start, err = r.status(r.proc, r.name(pid, "/stat"))
	if err == nil && st.Fixed {
		st.Memory = r.fixedMemory(pid, start, st.Memory)
	}
	return st, start, err
}

// fixedMemory returns what identifies the image of process pid, of which stat has shown the
// addresses and the start time; 0 if it has become another one meanwhile.
func (r *Reader) fixedMemory(pid uint32, start, addresses uint64) uint64 {
	dir, errno := openat(r.proc, r.name(pid, ""), unix.O_PATH|unix.O_DIRECTORY)
	if errno != 0 {
		return 0
	}
	defer closeFD(dir)
	random, ok := r.random(dir)
	again, startAgain, err := r.status(dir, pathStat)
	if !ok || err != nil || startAgain != start || again.Memory != addresses {
		return 0
	}
	return addresses ^ random
}

// ThreadStatus returns the status and the start time of a thread of process pid.
func (r *Reader) ThreadStatus(pid, tid uint32) (st Status, start uint64, err error) {
	b := r.name(pid, "/task/")
	b = strconv.AppendUint(b[:len(b)-1], uint64(tid), 10)
	return r.status(r.proc, append(b, "/stat\x00"...))
}

func (r *Reader) status(dir int, pathNUL []byte) (st Status, start uint64, err error) {
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

// ExitStatus returns the wait status of process pid, which has ended and was not waited
// for yet, and its start time. It is that of the process, as its parent will get it, from
// Linux 6.1 on; before, the kernel shows that of the leader.
func (r *Reader) ExitStatus(pid uint32) (status int32, start uint64, ok bool) {
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
		// Who may not see it is shown 0. The link exe needs the same privilege.
		_, errno := readlinkat(dir, pathExe, r.buf)
		ok = errno == unix.ENOENT
	}
	return status, s.Start, ok
}

// numbers returns the entries of a directory whose names are numbers.
func (r *Reader) numbers(dir int, pathNUL []byte) ([]uint32, error) {
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
		// To parse a name that is no number costs the allocation of an error.
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
