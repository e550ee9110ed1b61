package tracefs

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// places are the usual mount points of tracefs. The second dates from when tracefs was part of
// debugfs.
var places = []string{"/sys/kernel/tracing", "/sys/kernel/debug/tracing"}

// FS is an open tracing file system.
type FS struct{ dir int }

// Open opens a mounted tracefs, which usually needs root. If this fails, it opens a private mount,
// which needs CAP_SYS_ADMIN.
func Open() (*FS, error) {
	for _, p := range places {
		if dir, err := openMounted(p); err == nil {
			return &FS{dir}, nil
		}
	}
	dir, err := mountDetached()
	if err != nil {
		return nil, fmt.Errorf("open tracefs: not mounted at %s, and mounting it privately: %w", places[0], err)
	}
	return &FS{dir}, nil
}

func openMounted(path string) (int, error) {
	dir, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	var st unix.Statfs_t
	err = unix.Fstatfs(dir, &st)
	if err == nil && st.Type != unix.TRACEFS_MAGIC {
		err = errors.New("not a tracefs")
	}
	if err != nil {
		unix.Close(dir)
		return -1, err
	}
	return dir, nil
}

func mountDetached() (int, error) {
	ctx, err := unix.Fsopen("tracefs", unix.FSOPEN_CLOEXEC)
	switch {
	case errors.Is(err, unix.ENODEV):
		return -1, errors.New("the kernel has no tracefs (CONFIG_TRACING)")
	case errors.Is(err, unix.ENOSYS):
		return -1, fmt.Errorf("needs Linux 5.2 (fsopen: %w): mount -t tracefs tracefs %s", err, places[0])
	case errors.Is(err, unix.EPERM):
		return -1, fmt.Errorf("%w: needs CAP_SYS_ADMIN", err)
	case err != nil:
		return -1, fmt.Errorf("fsopen: %w", err)
	}
	defer unix.Close(ctx)
	if err := unix.FsconfigCreate(ctx); err != nil {
		return -1, fmt.Errorf("fsconfig: %w", err)
	}
	dir, err := unix.Fsmount(ctx, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return -1, fmt.Errorf("fsmount: %w", err)
	}
	return dir, nil
}

// ReadFile returns the content of a file. The name is relative to the root of tracefs.
func (fs *FS) ReadFile(name string) ([]byte, error) {
	fd, err := unix.Openat(fs.dir, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: "tracefs/" + name, Err: err}
	}
	f := os.NewFile(uintptr(fd), "tracefs/"+name)
	defer f.Close()
	return io.ReadAll(f)
}

// Event returns the description of a tracepoint.
func (fs *FS) Event(group, name string) (*Event, error) {
	b, err := fs.ReadFile("events/" + group + "/" + name + "/format")
	if err != nil {
		return nil, err
	}
	e, err := ParseFormat(b)
	if err != nil {
		return nil, fmt.Errorf("tracepoint %s/%s: %w", group, name, err)
	}
	return e, nil
}

// Open opens the tracepoint as a perf event for a program, which runs for hits on every CPU.
func (e *Event) Open() (fd int, err error) {
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_TRACEPOINT, Config: e.ID, Size: unix.PERF_ATTR_SIZE_VER1, Sample: 1}
	fd, err = unix.PerfEventOpen(&attr, -1, 0, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("perf_event_open: %w", err)
	}
	return fd, nil
}

// Close closes tracefs.
func (fs *FS) Close() error {
	if fs.dir < 0 {
		return os.ErrClosed
	}
	err := unix.Close(fs.dir)
	fs.dir = -1
	return err
}
