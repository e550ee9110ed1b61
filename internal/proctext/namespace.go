package proctext

import (
	"bytes"
	"os"
)

// InitialPIDNamespace is the inode number of the initial pid namespace.
const InitialPIDNamespace = 0xeffffffc

// initialNamespaces have fixed inode numbers: include/linux/proc_ns.h in the kernel. Network and
// mount namespaces have none.
var initialNamespaces = map[string]uint32{
	"time": 0xeffffffa, "cgroup": 0xeffffffb, "pid": InitialPIDNamespace, "user": 0xeffffffd,
}

// ParseNamespace returns the inode number in a link such as "mnt:[4026531841]".
func ParseNamespace(link []byte) (inode uint32, ok bool) {
	open := bytes.IndexByte(link, '[')
	if open < 0 || link[len(link)-1] != ']' {
		return 0, false
	}
	return Uint32(link[open+1 : len(link)-1])
}

// OwnNamespace returns the inode number of this process's namespace of a kind: "pid", "user",
// "cgroup", "time" ... The error is os.ErrNotExist if the kernel has no such namespaces, or /proc
// is not mounted.
func OwnNamespace(kind string) (inode uint32, err error) {
	link, err := os.Readlink("/proc/self/ns/" + kind)
	if err != nil {
		return 0, err
	}
	inode, ok := ParseNamespace([]byte(link))
	if !ok {
		return 0, os.ErrInvalid
	}
	return inode, nil
}

// InInitialNamespace reports whether this process is in the initial namespace of a kind: "pid",
// "user", "cgroup" or "time". It returns true if the link cannot be read, as a kernel without such
// namespaces has only the initial one.
func InInitialNamespace(kind string) bool {
	inode, err := OwnNamespace(kind)
	return err != nil || inode == initialNamespaces[kind]
}
