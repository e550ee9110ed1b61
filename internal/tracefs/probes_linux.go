package tracefs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// KprobeEvents is the file that lists the probes of kernel functions. Lines written to it add and
// remove probes.
const KprobeEvents = "kprobe_events"

// Probes is the open file of kernel probes. While it is open, probes can be removed even after the
// process has dropped its privileges.
type Probes struct {
	fd  int
	log int // error_log, -1 if the kernel has none
}

// Probes opens the file of kernel probes for writing.
func (fs *FS) Probes() (*Probes, error) {
	// Without O_APPEND the kernel would remove all probes of all processes.
	fd, err := unix.Openat(fs.dir, KprobeEvents, unix.O_WRONLY|unix.O_APPEND|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil, errors.New("no " + KprobeEvents + " in tracefs: the kernel needs CONFIG_KPROBE_EVENTS")
	case errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM):
		return nil, fmt.Errorf("open %s: %w: needs root, and a kernel that is not locked down", KprobeEvents, err)
	case err != nil:
		return nil, fmt.Errorf("open %s: %w", KprobeEvents, err)
	}
	log, err := unix.Openat(fs.dir, "error_log", unix.O_RDONLY|unix.O_CLOEXEC, 0) // Linux 5.2
	if err != nil {
		log = -1
	}
	return &Probes{fd, log}, nil
}

// Write writes one definition or removal of a probe.
func (p *Probes) Write(line string) error {
	if p.fd < 0 {
		return os.ErrClosed
	}
	n, err := unix.Write(p.fd, []byte(line+"\n"))
	if err == nil && n != len(line)+1 {
		err = fmt.Errorf("wrote %d of %d bytes", n, len(line)+1)
	}
	return err
}

// Why returns the kernel's log message about the last rejected line, or "".
func (p *Probes) Why() string {
	if p.log < 0 {
		return ""
	}
	// The log has up to eight entries of one definition each. A read may return only some of
	// them.
	b := make([]byte, 1<<16)
	n := 0
	for n < len(b) {
		m, err := unix.Pread(p.log, b[n:], int64(n))
		if err != nil || m <= 0 {
			break
		}
		n += m
	}
	return lastError(string(b[:n]))
}

// lastError returns the message of the last entry of error_log, which looks like this:
//
//	[  123.456789] trace_kprobe: error: Failed to register probe event
//	  Command: p:g/n symbol
//	           ^
func lastError(log string) string {
	const mark = ": error: "
	i := strings.LastIndex(log, mark)
	if i < 0 {
		return ""
	}
	message, _, _ := strings.Cut(log[i+len(mark):], "\n")
	return strings.TrimSpace(message)
}

// RemoveProbe disables and removes a probe, named GROUP/NAME in one of the files of ProbeNames. The
// error is unix.EBUSY while a perf event has the probe open.
func (fs *FS) RemoveProbe(file, name string) error {
	fs.write("events/"+name+"/enable", "0") // the removal reports whether this was enough
	return fs.write(file, "-:"+name+"\n")
}

// write appends text to a file.
func (fs *FS) write(name, text string) error {
	fd, err := unix.Openat(fs.dir, name, unix.O_WRONLY|unix.O_APPEND|unix.O_CLOEXEC, 0)
	if err == nil {
		_, err = unix.Write(fd, []byte(text))
		unix.Close(fd)
	}
	if err != nil {
		return &os.PathError{Op: "write", Path: "tracefs/" + name, Err: err}
	}
	return nil
}

// ProbeNames returns the GROUP/NAME of all probes in a file, such as kprobe_events.
func (fs *FS) ProbeNames(file string) ([]string, error) {
	b, err := fs.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return parseProbes(string(b)), nil
}

// parseProbes returns the names in the text of kprobe_events, whose lines look like
//
//	p:GROUP/NAME SYMBOL ARGUMENT...
func parseProbes(text string) (names []string) {
	for line := range strings.Lines(text) {
		head, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		_, name, ok := strings.Cut(head, ":")
		if ok && fs.ValidPath(name) && strings.Count(name, "/") == 1 {
			names = append(names, name)
		}
	}
	return names
}

// Close closes the file. The probes remain.
func (p *Probes) Close() error {
	if p.fd < 0 {
		return os.ErrClosed
	}
	err := unix.Close(p.fd)
	if p.log >= 0 {
		unix.Close(p.log)
	}
	p.fd = -1
	return err
}
