package monitor

import (
	"os"
	"strings"
	"testing"
)

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
