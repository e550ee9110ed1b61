package matrix

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/quark-linux/quark/internal/harness/record"
)

func job(test string) record.Job { return record.Job{Test: test, Backend: "ebpf"} }

func result(test string, s record.State) record.Result {
	r := record.Result{Test: test, Backend: "ebpf", State: s}
	if s != record.Pass {
		r.Reason = "because"
	}
	return r
}

// TestScore scores all combinations of records and console lines.
func TestScore(t *testing.T) {
	hello, end := &record.Hello{}, &record.End{}
	plan := []record.Job{job("a"), job("b")}
	joint := []record.Job{job("a"), job("b"), {Test: "b", Backend: "kprobe"}, job("c")}
	for _, tt := range []struct {
		name   string
		e      evidence
		state  record.State
		reason string
		cells  string
	}{
		{"all pass", evidence{hello: hello, plan: plan, started: plan, end: end,
			results: []record.Result{result("a", record.Pass), result("b", record.Pass)}}, record.Pass, "", "pass pass"},
		{"one skipped", evidence{hello: hello, plan: plan, started: plan, end: end,
			results: []record.Result{result("a", record.Skip), result("b", record.Pass)}}, record.Pass, "", "skip pass"},
		{"all skipped", evidence{hello: hello, plan: plan, started: plan, end: end,
			results: []record.Result{result("a", record.Skip), result("b", record.Skip)}}, record.Skip, "because", "skip skip"},
		{"one fails", evidence{hello: hello, plan: plan, started: plan, end: &record.End{Status: 1},
			results: []record.Result{result("a", record.Pass), result("b", record.Fail)}}, record.Fail, "1 of 2 tests, the first: b @ ebpf: because", "pass fail"},
		{"a status that no test explains", evidence{hello: hello, plan: plan, started: plan, end: &record.End{Status: 3},
			results: []record.Result{result("a", record.Pass), result("b", record.Pass)}}, record.Fail, "exit status is 3", "pass pass"},
		{"warning though all pass", evidence{hello: hello, plan: plan, started: plan, end: end, console: []string{"WARNING: x"},
			results: []record.Result{result("a", record.Pass), result("b", record.Pass)}}, record.Crash, "WARNING: x", "pass pass"},
		{"a panic before an oops", evidence{hello: hello, plan: plan, started: plan[:1], console: []string{"BUG: x", "Kernel panic - y"}},
			record.Crash, "Kernel panic - y in a @ ebpf", "crash lost"},
		{"a panic in a test on two backends at once", evidence{hello: hello, plan: joint, started: joint[:3], console: []string{"Kernel panic - y"},
			results: []record.Result{result("a", record.Pass)}}, record.Crash, "Kernel panic - y in b @ ebpf, kprobe", "pass crash crash lost"},
		{"a panic before the hello", evidence{console: []string{"Kernel panic - z"}}, record.Crash, "Kernel panic - z", ""},
		{"hang in a test", evidence{hello: hello, plan: plan, started: plan, late: "too late",
			results: []record.Result{result("a", record.Pass)}}, record.Hang, "too late in b @ ebpf", "pass hang"},
		{"hang between tests", evidence{hello: hello, plan: plan, started: plan[:1], late: "too late", waiting: "between tests",
			results: []record.Result{result("a", record.Pass)}}, record.Hang, "too late between tests", "pass lost"},
		{"no hello in time", evidence{late: "too late"}, record.BootFail, "no hello: too late", ""},
		{"no hello", evidence{}, record.BootFail, "without a hello", ""},
		{"not started", evidence{refused: "no qemu"}, record.BootFail, "no qemu", ""},
		{"no end", evidence{hello: hello, plan: plan, started: plan[:1]}, record.Lost, "ended in a @ ebpf without an end", "lost lost"},
		{"a result is missing", evidence{hello: hello, plan: plan, started: plan, end: end,
			results: []record.Result{result("b", record.Pass)}}, record.Lost, "1 of 2 tests have no result", "lost pass"},
		{"init could not", evidence{hello: hello, end: &record.End{Status: 125, Error: "unknown knob"}}, record.Fail, "unknown knob", ""},
		{"a false claim", evidence{hello: &record.Hello{Features: map[string]bool{"btf": true, "bpf": false}}, plan: plan[:1], started: plan[:1], end: end,
			claims: []string{"btf", "bpf", "ringbuf"}, results: []record.Result{result("a", record.Pass)}}, record.Fail, "claims: bpf, ringbuf", "pass"},
		{"not odd enough", evidence{hello: &record.Hello{Features: map[string]bool{"bpf": true}}, plan: plan[:1], started: plan[:1], end: end,
			lacks: []string{"connector", "bpf"}, results: []record.Result{result("a", record.Pass)}}, record.Fail, "differs from the catalogue: it has bpf", "pass"},
		{"another number of CPUs", evidence{hello: &record.Hello{CPUs: 2}, plan: plan[:1], started: plan[:1], end: end,
			cpus: 4, results: []record.Result{result("a", record.Pass)}}, record.Fail, "got 2 CPUs, want 4", "pass"},
		{"odd as it must be", evidence{hello: &record.Hello{CPUs: 4}, plan: plan[:1], started: plan[:1], end: end,
			cpus: 4, lacks: []string{"bpf"}, results: []record.Result{result("a", record.Pass)}}, record.Pass, "", "pass"},
		{"no test", evidence{hello: hello, end: end}, record.Fail, "no test ran", ""},
		{"a state that no test has", evidence{hello: hello, plan: plan[:1], started: plan[:1], end: end,
			results: []record.Result{result("a", "great")}}, record.Fail, "1 of 1", "lost"},
		{"a result that no plan has", evidence{hello: hello, plan: plan[:1], started: plan, end: end,
			results: []record.Result{result("a", record.Pass), result("b", record.Pass)}}, record.Pass, "", "pass pass"},
		{"garbage", evidence{hello: hello, plan: plan, started: plan, end: end, nDamaged: 1, damaged: []string{"x"},
			results: []record.Result{result("a", record.Pass), result("b", record.Pass)}}, record.Lost, "garbage on the result port: 1 lines", "pass pass"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			state, reason, cells := tt.e.score()
			var states []string
			for _, c := range cells {
				states = append(states, string(c.State))
			}
			if state != tt.state || !strings.Contains(reason, tt.reason) || strings.Join(states, " ") != tt.cells {
				t.Errorf("%s: got %s; cells %s; want %s: %q; %s", state, reason, states, tt.state, tt.reason, tt.cells)
			}
			if (state == record.Pass) != (reason == "") {
				t.Errorf("got state %s with reason %q", state, reason)
			}
		})
	}
}

func TestConsole(t *testing.T) {
	console := `[    0.048000] tsc: Unable to calibrate against PIT
[    1.2] WARNING: no time stamp of the kernel's
WARNING: of a program
t_x @ ebpf: [    2.000001] BUG: kernel NULL pointer dereference, address: 0
[    2.000002] BUG: kernel NULL pointer dereference, address: 0
[    2.100000][  T123] WARNING: CPU: 0 PID: 1 at kernel/x.c:1 f+0x1/0x2
[    2.200000] rcu: INFO: rcu_preempt self-detected stall on CPU
[    2.300000] quark-test[12]: segfault at 0 ip 0
[    2.400000] Out of memory: Killed process 12 (guest) total-vm:1
[    2.500000] Kernel panic - not syncing: Attempted to kill init!
quark-matrix: the guest's stacks:
[    9.000000] BUG: asked for
[    9.100000] task:init            state:S stack:    0 pid:    1 ppid:     0
[    9.100000]  tty_wait_until_sent+0x1/0x2
[    9.200000] task:kthreadd        state:S stack:    0 pid:    2 ppid:     0
[    9.200000]  kthreadd+0x1/0x2
`
	text, err := readConsole(strings.NewReader(console))
	got := text.complaints
	want := []string{
		"BUG: kernel NULL pointer dereference, address: 0", "WARNING: CPU: 0 PID: 1 at kernel/x.c:1 f+0x1/0x2",
		"rcu: INFO: rcu_preempt self-detected stall on CPU", "Out of memory: Killed process 12 (guest) total-vm:1",
		"Kernel panic - not syncing: Attempted to kill init!",
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	if len(text.tail) != maxTail || !strings.HasSuffix(text.tail[maxTail-1], "Attempted to kill init!") {
		t.Errorf("got last lines %q", text.tail)
	}
	if len(text.stacks) != 2 || !strings.HasSuffix(text.stacks[1], "tty_wait_until_sent+0x1/0x2") {
		t.Errorf("got stacks of init %q", text.stacks)
	}
	var many strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&many, "[    1.000000] BUG: %d\n", i)
	}
	if text, _ := readConsole(strings.NewReader(many.String())); len(text.complaints) != maxComplaints {
		t.Errorf("got %d complaints", len(text.complaints))
	}
}
