package matrix

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quark-linux/quark/internal/harness/machine"
	"github.com/quark-linux/quark/internal/harness/record"
	"github.com/quark-linux/quark/internal/retry"
	"github.com/quark-linux/quark/internal/thorough"
)

// TestFaults boots guests that fail in every way, and a kernel that does not boot. The matrix names
// the fault of each.
func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("boots guests")
	}
	kernel := filepath.Join("..", "..", "..", "kernel_images", runtime.GOARCH, "6.1-cloud")
	if _, err := os.Stat(kernel); err != nil {
		t.Skip("no kernel: make kernel-images fetches it")
	}
	if _, err := machine.Describe(machine.Config{Kernel: kernel}); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	image := filepath.Join(dir, "initramfs.gz")
	for _, args := range [][]string{
		{"build", "-buildvcs=false", "-o", filepath.Join(dir, "init"), "../../../initramfs/init"},
		{"test", "-c", "-o", filepath.Join(dir, "guest"), "../../../initramfs/testdata/guest"},
		{"run", "../../../initramfs", "-o", image, "-init", filepath.Join(dir, "init"), filepath.Join(dir, "guest")},
	} {
		cmd := exec.Command("go", args...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %q: %v\n%s", args, err, out)
		}
	}
	// The damage is in the compressed kernel, which then does not unpack.
	whole, err := os.ReadFile(kernel)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4096 {
		whole[len(whole)/2+i] ^= 0x55
	}
	broken := filepath.Join(dir, "broken")
	if err := os.WriteFile(broken, whole, 0o644); err != nil {
		t.Fatal(err)
	}

	// These deadlines are long enough for a guest on a loaded machine, and short enough for the
	// test of a hanging guest.
	patient := Machine{Mem: 256}
	hasty := patient
	hasty.Test = 15 * time.Second
	early := patient
	early.Boot = 12 * time.Second

	// The other faults differ in the records only, which TestScore has, too.
	usual := []string{"panic", "hang", "exits early", "does not boot", "no kernel"}
	slots := make(chan bool, runtime.NumCPU())
	for _, tt := range []struct {
		name    string
		machine Machine
		kernel  string
		command []string
		state   record.State
		reason  string // in the guest's reason
		bad     string // in the reason of t_bad, for commands with a test
		console string // in the console's log
	}{
		{"good", patient, kernel, []string{"guest", "exit", "0"}, record.Fail, "no test ran", "", ""},
		{"panic", patient, kernel, []string{"guest", "test", "panic"}, record.Crash,
			"Kernel panic - not syncing: sysrq triggered crash in t_bad @ ebpf", "Kernel panic", "Call Trace"},
		{"hang", hasty, kernel, []string{"guest", "test", "hang"}, record.Hang,
			"deadline of 15s for a test passed in t_bad @ ebpf", "deadline of 15s", "task:guest"},
		{"exits early", patient, kernel, []string{"guest", "test", "exit", "0"}, record.Lost, "2 of 3 tests have no result", "no result", ""},
		{"powers off", patient, kernel, []string{"guest", "test", "poweroff"}, record.Lost,
			"the guest ended in t_bad @ ebpf without an end record", "without an end", ""},
		{"is killed", patient, kernel, []string{"guest", "kill", "9"}, record.Fail, "killed by signal 9", "", ""},
		{"no such command", patient, kernel, []string{"nothing"}, record.Fail, "no such file", "", ""},
		{"garbage on the port", patient, kernel, []string{"guest", "garbage"}, record.Lost, "garbage on the result port: 2 lines", "", ""},
		{"out of memory", patient, kernel, []string{"guest", "test", "oom"}, record.Crash, "ut of memory: Killed process", "Killed process", ""},
		{"does not boot", early, broken, []string{"guest", "exit", "0"}, record.BootFail, "no hello: deadline of 12s to boot passed", "", ""},
		{"no kernel", patient, filepath.Join(dir, "init.go"), []string{"guest"}, record.BootFail, "no kernel image", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if !slices.Contains(usual, tt.name) {
				thorough.Skip(t, "boots a guest")
			}
			t.Parallel()
			slots <- true
			defer func() { <-slots }()
			out := t.TempDir()
			g := Guest{Part: PartTests, Kernel: Kernel{Name: "k", Arch: runtime.GOARCH, Path: tt.kernel}, BTF: BTFPresent, Command: tt.command, Image: image}
			o, err := tt.machine.Run(context.Background(), g, out)
			if err != nil {
				t.Fatal(err)
			}
			log, err := os.ReadFile(filepath.Join(out, ConsoleFile))
			if err != nil {
				t.Fatal(err)
			}
			if o.State != tt.state || !strings.Contains(o.Reason, tt.reason) || !strings.Contains(string(log), tt.console) {
				t.Errorf("%s: %s, want %s: %q, and %q on the console:\n%s", o.State, o.Reason, tt.state, tt.reason, tt.console, log)
			}
			if tt.bad == "" {
				return
			}
			want := []record.Result{
				{Test: "t_first", Backend: "ebpf", State: record.Pass, DurationMS: 1},
				{Test: "t_bad", Backend: "ebpf", State: tt.state},
				{Test: "t_never", Backend: "ebpf", State: record.Lost},
			}
			if len(o.Cells) != len(want) {
				t.Fatalf("got cells %+v", o.Cells)
			}
			for i, c := range o.Cells {
				if c.Test != want[i].Test || c.State != want[i].State {
					t.Errorf("cell %+v, want %+v", c, want[i])
				}
			}
			if !strings.Contains(o.Cells[1].Reason, tt.bad) || !strings.HasPrefix(o.Cells[2].Reason, "not run: ") {
				t.Errorf("got reasons %q and %q", o.Cells[1].Reason, o.Cells[2].Reason)
			}
		})
	}
}

// TestCommandCell: a guest without tests has one cell for its command.
func TestCommandCell(t *testing.T) {
	for _, tt := range []struct {
		e     evidence
		state record.State
		want  record.Result
	}{
		{evidence{hello: new(record.Hello), end: &record.End{DurationMS: 7}}, record.Pass, record.Result{State: record.Pass, DurationMS: 7}},
		{evidence{hello: new(record.Hello), end: &record.End{Status: 3}}, record.Fail, record.Result{State: record.Fail, Reason: "the command's exit status is 3"}},
		{evidence{hello: new(record.Hello), late: "too late"}, record.Hang, record.Result{State: record.Hang, Reason: "too late "}},
		{evidence{}, record.BootFail, record.Result{State: record.BootFail, Reason: "the guest ended without a hello"}},
	} {
		tt.e.command, tt.want.Test, tt.want.Backend = "a b", "a b", NoBackend
		state, _, cells := tt.e.score()
		if state != tt.state || len(cells) != 1 || cells[0].Result != tt.want {
			t.Errorf("%s, cells %+v; want %s, %+v", state, cells, tt.state, tt.want)
		}
	}
}

// TestInterrupt: the end of the context ends the guest at once, and nothing of the guest remains.
func TestInterrupt(t *testing.T) {
	dir := t.TempDir()
	qemu, started := filepath.Join(dir, "qemu"), filepath.Join(dir, "pid")
	if err := os.WriteFile(qemu, []byte("#!/bin/sh\necho $$ >"+started+".new\nmv "+started+".new "+started+"\nexec sleep 1000\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	image := writeKernel(t, filepath.Join(dir, "kernel"))
	ctx, cancel := context.WithCancelCause(context.Background())
	pid := 0
	go func() {
		for range retry.For(time.Minute) {
			if b, err := os.ReadFile(started); err == nil {
				pid, _ = strconv.Atoi(strings.TrimSpace(string(b)))
				cancel(ErrInterrupted)
				return
			}
		}
	}()
	_, err := Machine{QEMU: qemu}.Run(ctx, Guest{Part: PartTests, Kernel: Kernel{Name: "k", Path: image}, Image: image}, dir)
	if err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("got error %v", err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d still exists: %v", pid, err)
	}
}
