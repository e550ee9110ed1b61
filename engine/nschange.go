package engine

import (
	"fmt"
	"iter"
	"strings"
)

// NSSet is a set of kinds of namespace.
type NSSet uint8

// The kinds of namespace, in the order of [Namespaces].
const (
	ChangedUTS NSSet = 1 << iota
	ChangedIPC
	ChangedMnt
	ChangedNet
	ChangedPID // the pid namespace of future children
	ChangedUser
	ChangedCgroup
	ChangedTime
)

// NSNames are the names of the bits of an NSSet.
var NSNames = [...]string{"uts", "ipc", "mnt", "net", "pid_for_children", "user", "cgroup", "time"}

func (s NSSet) String() string { return strings.Join(s.Names(), ",") }

// Names returns the names of the members.
func (s NSSet) Names() (names []string) {
	for i, n := range NSNames {
		if s&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	return names
}

// NSChange is a change of namespaces by setns(2) or unshare(2). Process.NS has the new inode
// numbers, except of the pid namespace of future children.
type NSChange struct {
	Changed NSSet
	Old     Namespaces // inode numbers of the changed ones before; PID is of future children
	NewPID  uint32     // the new pid namespace of future children, if it changed
}

// SetChange sets the payload of an NS_CHANGE, and the new numbers in the state of the process. The
// numbers are in the order of NSNames. A kernel without a kind of namespace has 0 for it.
func (r *RawEvent) SetChange(changed NSSet, old, now *[len(NSNames)]uint32) {
	c := &r.NSChange
	*c = NSChange{Changed: changed}
	before, after := c.Old.members(), r.Task.NS.members()
	after[4] = &c.NewPID
	for i := range NSNames {
		if changed&(1<<i) != 0 {
			*before[i], *after[i] = old[i], now[i]
		}
	}
}

// members returns the numbers in the order of NSNames.
func (n *Namespaces) members() [len(NSNames)]*uint32 {
	return [...]*uint32{&n.UTS, &n.IPC, &n.Mnt, &n.Net, &n.PID, &n.User, &n.Cgroup, &n.Time}
}

// nsFields are the fields of the namespaces of a process in the order of NSNames. A process never
// changes its own pid namespace.
var nsFields = [len(NSNames)]Fields{
	1 << FieldUTSNS, 1 << FieldIPCNS, 1 << FieldMntNS, 1 << FieldNetNS, 0, 1<<FieldUserNS | 1<<FieldCaps, 1 << FieldCgroupNS, 1 << FieldTimeNS,
}

// fields returns the fields that changes of s affect. A new user namespace comes with capabilities.
func (s NSSet) fields() (f Fields) {
	for i, field := range nsFields {
		if s&(1<<i) != 0 {
			f |= field
		}
	}
	return f
}

// Numbers yields the name and the value of each inode number: "ns_change_old_" with the name of a
// changed namespace, and "ns_change_new_pid_for_children" if it changed.
func (c *NSChange) Numbers() iter.Seq2[string, uint32] {
	return func(yield func(string, uint32) bool) {
		for i, old := range c.Old.members() {
			if c.Changed&(1<<i) != 0 && !yield("ns_change_old_"+NSNames[i], *old) {
				return
			}
		}
		if c.Changed&ChangedPID != 0 {
			yield("ns_change_new_pid_for_children", c.NewPID)
		}
	}
}

func (c *NSChange) appendDump(b []byte) []byte {
	b = fmt.Appendf(b, "  NSCH\tns_change=%s", c.Changed)
	for name, n := range c.Numbers() {
		b = fmt.Appendf(b, " %s=%d", name, n)
	}
	return append(b, '\n')
}

func (o *object) nsChange(c *NSChange) {
	o.words("ns_change", c.Changed.Names())
	for name, n := range c.Numbers() {
		o.uint(name, uint64(n))
	}
}
