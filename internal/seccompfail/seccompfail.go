package seccompfail

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Env is the environment variable with the names for [FromEnv], separated by commas.
const Env = "QUARK_SECCOMPFAIL"

// failure describes a system call that fails.
type failure struct {
	call  uint32
	above uint32 // the call fails if its second argument is larger; 0 means always
	errno unix.Errno
}

var failures = map[string]failure{
	"clone3":         {call: unix.SYS_CLONE3, errno: unix.ENOSYS},               // before 5.3
	"clone3-flags":   {call: unix.SYS_CLONE3, errno: unix.EINVAL},               // see Calls
	"clone3-set-tid": {call: unix.SYS_CLONE3, above: 8 * 8, errno: unix.E2BIG},  // before 5.5
	"clone3-cgroup":  {call: unix.SYS_CLONE3, above: 10 * 8, errno: unix.E2BIG}, // before 5.7
	"fsopen":         {call: unix.SYS_FSOPEN, errno: unix.ENOSYS},               // before 5.2
}

// FromEnv installs the filter for the calls that the environment variable names.
func FromEnv() error {
	names := os.Getenv(Env)
	if names == "" {
		return nil
	}
	if err := Calls(strings.Split(names, ",")...); err != nil {
		return fmt.Errorf("%s=%s: %w", Env, names, err)
	}
	return nil
}

// Calls makes system calls fail. A name is the name of a system call, or "clone3-" and a later
// feature of clone3(2). A filter cannot read flags, so "clone3-flags" makes each clone3 fail as
// with an unknown flag before Linux 5.5. Without root, Calls disables set-user-ID bits for this
// process.
func Calls(names ...string) error {
	var filter []unix.SockFilter
	statement := func(code uint16, k uint32) { filter = append(filter, unix.SockFilter{Code: code, K: k}) }
	unless := func(code uint16, k uint32, skip uint8) {
		filter = append(filter, unix.SockFilter{Code: unix.BPF_JMP | code | unix.BPF_K, K: k, Jf: skip})
	}
	// Offsets in struct seccomp_data. The filter compares the lower 32 bits of the second
	// argument.
	const number, second = 0, 16 + 8
	for _, name := range names {
		r, ok := failures[name]
		if !ok {
			return fmt.Errorf("unknown call %q: use one of %s", name, strings.Join(slices.Sorted(maps.Keys(failures)), ", "))
		}
		statement(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, number)
		if r.above == 0 {
			unless(unix.BPF_JEQ, r.call, 1)
		} else {
			unless(unix.BPF_JEQ, r.call, 3)
			statement(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, second)
			unless(unix.BPF_JGT, r.above, 1)
		}
		statement(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ERRNO|uint32(r.errno))
	}
	statement(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ALLOW)
	if unix.Geteuid() != 0 {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("set no_new_privs: %w", err)
		}
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program))); errno != 0 {
		return fmt.Errorf("install seccomp filter: %w", errno)
	}
	return nil
}
