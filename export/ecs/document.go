package ecs

import (
	"encoding/base64"
	"strconv"
	"time"

	"github.com/quark-linux/quark"
)

// object appends the members of a JSON object and of nested objects.
type object struct {
	b    []byte
	some bool // the innermost object has members
}

func (o *object) key(name string) {
	if o.some {
		o.b = append(o.b, ',')
	}
	o.some = true
	o.b = append(append(append(o.b, '"'), name...), '"', ':')
}

func (o *object) open(name string) {
	o.key(name)
	o.b, o.some = append(o.b, '{'), false
}

func (o *object) end() { o.b, o.some = append(o.b, '}'), true }

func (o *object) text(name, v string) {
	o.key(name)
	o.b, _ = quark.AppendJSONString(o.b, v)
}

// textIf appends a text that is not empty.
func (o *object) textIf(name, v string) {
	if v != "" {
		o.text(name, v)
	}
}

func (o *object) date(name string, t time.Time) {
	if !t.IsZero() {
		o.text(name, t.UTC().Format("2006-01-02T15:04:05.000000000Z"))
	}
}

func (o *object) number(name string, n uint64) {
	o.key(name)
	o.b = strconv.AppendUint(o.b, n, 10)
}

func (o *object) flag(name string, v bool) {
	o.key(name)
	o.b = strconv.AppendBool(o.b, v)
}

// list appends a list that is not empty.
func (o *object) list(name string, texts []string) {
	for i, v := range texts {
		if i == 0 {
			o.key(name)
		}
		o.b = append(o.b, "[,"[min(i, 1)])
		o.b, _ = quark.AppendJSONString(o.b, v)
	}
	if len(texts) > 0 {
		o.b = append(o.b, ']')
	}
}

func (o *object) base64(name, v string) {
	o.key(name)
	o.b = append(base64.StdEncoding.AppendEncode(append(o.b, '"'), []byte(v)), '"')
}

// capNames lists the capabilities of capabilities(7) in the order of their numbers.
var capNames = [...]string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_SETGID",
	"CAP_SETUID", "CAP_SETPCAP", "CAP_LINUX_IMMUTABLE", "CAP_NET_BIND_SERVICE", "CAP_NET_BROADCAST", "CAP_NET_ADMIN",
	"CAP_NET_RAW", "CAP_IPC_LOCK", "CAP_IPC_OWNER", "CAP_SYS_MODULE", "CAP_SYS_RAWIO", "CAP_SYS_CHROOT",
	"CAP_SYS_PTRACE", "CAP_SYS_PACCT", "CAP_SYS_ADMIN", "CAP_SYS_BOOT", "CAP_SYS_NICE", "CAP_SYS_RESOURCE",
	"CAP_SYS_TIME", "CAP_SYS_TTY_CONFIG", "CAP_MKNOD", "CAP_LEASE", "CAP_AUDIT_WRITE", "CAP_AUDIT_CONTROL",
	"CAP_SETFCAP", "CAP_MAC_OVERRIDE", "CAP_MAC_ADMIN", "CAP_SYSLOG", "CAP_WAKE_ALARM", "CAP_BLOCK_SUSPEND",
	"CAP_AUDIT_READ", "CAP_PERFMON", "CAP_BPF", "CAP_CHECKPOINT_RESTORE",
}

// names returns the names of a set of capabilities.
func names(set uint64) (out []string) {
	for n := range 64 {
		switch {
		case set>>n&1 == 0:
		case n < len(capNames):
			out = append(out, capNames[n])
		default:
			out = append(out, "CAP_"+strconv.Itoa(n))
		}
	}
	return out
}
