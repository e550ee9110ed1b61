package monitor

import (
	"slices"
	"testing"
)

func TestExecsnoop(t *testing.T) { sample(t, execsnoop(), 0) }
func TestExitsnoop(t *testing.T) { sample(t, exitsnoop(), 0) }

func TestBpftrace(t *testing.T) { sample(t, bpftrace(), 0) }
func TestPerf(t *testing.T)     { sample(t, perf(), 0) }

func TestStrace(t *testing.T) { sample(t, strace(), 0) }
func TestAcct(t *testing.T)   { sample(t, acct(), 0) }

// The sample is from auditd 3.0.9 in a guest with 6.12, without some similar events.
func TestAudit(t *testing.T) { sample(t, audit(), 0) }

func FuzzStrace(f *testing.F)    { fuzz(f, strace(), "strace.sample") }
func FuzzAcct(f *testing.F)      { fuzz(f, acct(), "acct.sample") }
func FuzzAudit(f *testing.F)     { fuzz(f, audit(), "audit.sample") }
func FuzzExecsnoop(f *testing.F) { fuzz(f, execsnoop(), "execsnoop.sample") }
func FuzzExitsnoop(f *testing.F) { fuzz(f, exitsnoop(), "exitsnoop.sample") }
func FuzzBpftrace(f *testing.F)  { fuzz(f, bpftrace(), "bpftrace.sample") }
func FuzzPerf(f *testing.F)      { fuzz(f, perf(), "perf.sample") }

func TestSnoopArgs(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
		cut  bool
	}{
		{`"/bin/echo" "a b" "c\"d" `, []string{"/bin/echo", "a b", `c"d`}, false},
		{`"x" "" "y"  ...`, []string{"x", "", "y"}, true},
		{`"back\slash"`, []string{`back\slash`}, false},
		{`"no end`, []string{"no end"}, false},
		{``, nil, false},
	} {
		if got, cut := snoopArgs(c.text); !slices.Equal(got, c.want) || cut != c.cut {
			t.Errorf("%s: got %q, %v", c.text, got, cut)
		}
	}
}

// A long duration makes its column wider.
func TestForkstatColumns(t *testing.T) {
	const ids = "   root    root      ? "
	for rest, want := range map[string]string{
		ids + "   768   0.001s sh -c exit 3 ":     "768 sh -c exit 3 ",
		ids + "     0 19466998s sh -c x ":         "0 sh -c x ",
		"                   0   0.000s <unknown>": "0 <unknown>",
		"              child           tiny":      "child tiny",
	} {
		if c, ok := forkstatColumns("exit", rest); !ok || c.info+" "+c.process != want {
			t.Errorf("%q: got %+v, %v", rest, c, ok)
		}
	}
}

func TestLostLine(t *testing.T) {
	for text, want := range map[string]uint64{"Lost 12 events on CPU #1!": 12, "lost 3 events on CPU #0": 3, "Lost 7 events": 7} {
		var out Output
		if err, ok := lostLine(text, &out); err != nil || !ok || out.Lost != want {
			t.Errorf("%s: %d, %v, %v", text, out.Lost, ok, err)
		}
	}
	if err, ok := lostLine("Lost many", new(Output)); err == nil || !ok {
		t.Error("an invalid number is accepted")
	}
}
