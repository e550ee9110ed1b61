package monitor

import (
	"encoding/binary"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// rule is a message with a rule that has a path and a key.
func rule(path, key string) []byte {
	b := make([]byte, auditHead)
	put := func(at, v int) { binary.NativeEndian.PutUint32(b[at:], uint32(v)) }
	put(8, 3)
	const fields, values = 12 + 4*auditMask, 12 + 4*auditMask + 4*auditFields
	put(fields, 11) // arch
	put(values, 0x3e)
	put(fields+4, 105) // watch
	put(values+4, len(path))
	put(fields+8, auditKey)
	put(values+8, len(key))
	b = append(append(b, path...), key...)
	m := make([]byte, unix.NLMSG_HDRLEN)
	binary.NativeEndian.PutUint32(m, uint32(len(m)+len(b)))
	binary.NativeEndian.PutUint16(m[4:], auditListRules)
	return append(m, b...)
}

func TestParseAuditRules(t *testing.T) {
	done := make([]byte, unix.NLMSG_HDRLEN)
	binary.NativeEndian.PutUint32(done, uint32(len(done)))
	binary.NativeEndian.PutUint16(done[4:], unix.NLMSG_DONE)
	first := rule("/etc/", "some key")
	first = append(first, make([]byte, -len(first)&3)...) // messages begin at multiples of 4
	names, over := parseAuditRules(append(first, done...))
	if len(names) != 1 || !strings.HasPrefix(names[0], `"some key" (`) || !over {
		t.Errorf("%q, over %v", names, over)
	}
	if other, _ := parseAuditRules(rule("/tmp/", "some key")); other[0] == names[0] {
		t.Errorf("two rules are %s", names[0])
	}
}

func FuzzParseAuditRules(f *testing.F) {
	f.Add(rule("/etc/", "key"))
	f.Add(rule("", "")[:100])
	f.Fuzz(func(t *testing.T, b []byte) { parseAuditRules(b) })
}

// What is there before a monitor is not told, and what has its pid in its name is its own.
func TestLeftovers(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	l := findLeftovers()
	l.pins, l.rules = nil, append(l.rules, "gone since")
	for _, note := range l.removeNew(1) {
		if !strings.HasPrefix(note, "new since it was started: an eBPF object, /sys/fs/bpf/") {
			t.Log(note) // of others that run meanwhile
		}
	}
	if !hasNumber("kprobes/p_do_exit_bcc_123", 123) || hasNumber("kprobes/p_do_exit_bcc_1234", 123) || hasNumber("x", 0) {
		t.Error("a pid in a name is not found, or one that is not there")
	}
}
