package source

import "strconv"

// atCwd is AT_FDCWD of Linux.
const atCwd = -100

// PathBelow returns a path passed to execveat(2), in the form of engine.FailedExec.
func PathBelow(dir int32, path []byte) []byte {
	if dir == atCwd || len(path) > 0 && path[0] == '/' {
		return path
	}
	named := strconv.AppendInt([]byte("/dev/fd/"), int64(dir), 10)
	if len(path) > 0 {
		named = append(append(named, '/'), path...)
	}
	return named
}
