package tracefs

import (
	"slices"
	"testing"
)

func TestParseProbes(t *testing.T) {
	got := parseProbes("p:quark_1_2_3_4/fork wake_up_new_task f0=+1(%di):u32\nr8:kprobes/x do_exit\np bad\np:/\np:a\n\nr:g/n\n")
	if want := []string{"quark_1_2_3_4/fork", "kprobes/x", "g/n"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLastError(t *testing.T) {
	const log = `[    1.1] trace_kprobe: error: Failed to register probe event
  Command: p:g/n nothing
              ^
[    1.2] trace_kprobe: error: Argument expression is too long
  Command: p:g/n f a=+0(%di)
`
	if got := lastError(log); got != "Argument expression is too long" {
		t.Errorf("got %q", got)
	}
	if got := lastError("nothing"); got != "" {
		t.Errorf("got %q, want none", got)
	}
}

func FuzzParseProbes(f *testing.F) {
	f.Add("p:quark_1_2_3_4/fork wake_up_new_task f0=+1(%di):u32\n")
	f.Fuzz(func(t *testing.T, s string) { parseProbes(s); lastError(s) })
}
