package engine

import "strconv"

// FailedExec is an execve(2) or execveat(2) that failed and returned. A call that fails after the
// point of no return ends the process instead, and is reported as its EXIT.
type FailedExec struct {
	Errno uint16 // as errno(3) has it; 0 is unknown
	// Path is the path argument of the call, if PathKnown is set. For execveat(2) with a
	// descriptor it is /dev/fd/N, or /dev/fd/N/PATH if the path is not empty, as in the
	// kernel's messages. Other relative paths begin at the working directory.
	Path      string
	PathKnown bool
	// PathCached is set if the path was read from the memory of the process after the call:
	// another thread may have overwritten it.
	PathCached    bool
	PathTruncated bool // its end is missing
}

// failed returns the failed exec of a KindExecFailed, and leaves the fields of the process in r.
func (t *table) failed(r *RawEvent) FailedExec {
	f := FailedExec{Errno: r.Errno, PathKnown: r.Task.Known.Has(FieldExe)}
	if f.PathKnown {
		f.Path = t.names.get(r.Bytes(FieldExe))
		f.PathCached, f.PathTruncated = r.Task.Cached.Has(FieldExe), r.Task.Truncated.Has(FieldExe)
	}
	for _, s := range []*Fields{&r.Task.Known, &r.Task.Cached, &r.Task.Truncated} {
		*s &^= FieldExe.Set()
	}
	return f
}

// errnoNames has the known errors of an exec, from asm-generic/errno.h.
var errnoNames = map[uint16]string{
	1: "EPERM", 2: "ENOENT", 4: "EINTR", 5: "EIO", 7: "E2BIG", 8: "ENOEXEC", 9: "EBADF", 11: "EAGAIN", 12: "ENOMEM", 13: "EACCES",
	14: "EFAULT", 20: "ENOTDIR", 21: "EISDIR", 22: "EINVAL", 23: "ENFILE", 24: "EMFILE", 26: "ETXTBSY", 36: "ENAMETOOLONG", 40: "ELOOP",
	80: "ELIBBAD", 116: "ESTALE",
}

// ErrnoName returns the name of the error, such as ENOENT, or its number, or "?".
func (f *FailedExec) ErrnoName() string {
	if name, ok := errnoNames[f.Errno]; ok {
		return name
	}
	if f.Errno == 0 {
		return "?"
	}
	return strconv.Itoa(int(f.Errno))
}

func (f *FailedExec) appendDump(b []byte) []byte {
	b = append(append(append(b, "  FAIL\texec_failed_errno="...), f.ErrnoName()...), " exec_failed_path="...)
	if !f.PathKnown {
		return append(b, "?\n"...)
	}
	b = appendEscaped(b, f.Path)
	if f.PathTruncated {
		b = append(b, "..."...)
	}
	if f.PathCached {
		b = append(b, " exec_failed_path_cached=1"...)
	}
	return append(b, '\n')
}

func (o *object) failed(f *FailedExec) {
	o.textIf(f.Errno != 0, "exec_failed_errno", f.ErrnoName())
	o.textIf(f.PathKnown, "exec_failed_path", f.Path)
	o.trueIf(f.PathCached, "exec_failed_path_cached")
	o.trueIf(f.PathTruncated, "exec_failed_path_truncated")
}
