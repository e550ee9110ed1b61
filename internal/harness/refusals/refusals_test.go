package refusals

import (
	"maps"
	"strings"
	"testing"
)

func TestEncode(t *testing.T) {
	for _, words := range []map[string]string{
		{},
		{"ebpf": "no bpf(): CONFIG_BPF_SYSCALL=y, \"quoted\" & 100%", "kprobe": "-- /sys/kernel/tracing"},
	} {
		value := Encode(words)
		if strings.ContainsAny(value, " \"\n\t'\\") {
			t.Errorf("%q is no word of a command line", value)
		}
		if got, err := Decode(value); err != nil || !maps.Equal(got, words) {
			t.Errorf("%q: %q, %v; want %q", value, got, err, words)
		}
	}
	if _, err := Decode("ebpf=%zz"); err == nil {
		t.Error("a value that is not encoded is no error")
	}
}
