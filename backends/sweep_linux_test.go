//go:build amd64 || arm64

package backends

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/proctext"
	"github.com/quark-linux/quark/internal/tracefs"
)

// Open of any backend removes the probes of processes that have exited: of a zombie, and of an
// earlier process with the same pid. Open removes no other probes.
func TestSweep(t *testing.T) {
	fs, probes := openProbes(t)
	// ended returns the probe group of a child that has exited and is a zombie.
	ended := func() (group string, c *exec.Cmd) {
		c = exec.Command("/proc/self/exe", "-test.run=^$")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		group = groupOf(t, c.Process.Pid, 0)
		if err := unix.Waitid(unix.P_PID, c.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
			t.Fatal(err)
		}
		return group, c
	}
	dead, c := ended()
	c.Wait()
	zombie, c := ended()
	defer c.Wait()
	me := os.Getpid()
	own := []string{groupOf(t, me, 0) + "/a", "quarktest/a"}
	for _, b := range []Set{EBPF, KProbe, CNProc} {
		for _, name := range append([]string{dead + "/a", dead + "/b", zombie + "/a", groupOf(t, me, 1) + "/a"}, own...) {
			if err := probes.Write("p:" + name + " wake_up_new_task"); err != nil {
				t.Fatal(err)
			}
		}
		s, _, err := Open(Options{Allowed: b})
		if err == nil {
			err = s.Close()
		}
		names, _ := fs.ProbeNames(tracefs.KprobeEvents)
		if slices.Sort(names); err != nil || !slices.Equal(names, slices.Sorted(slices.Values(own))) {
			t.Errorf("%s: probes left: %q, error %v", b, names, err)
		}
		for _, name := range names {
			fs.RemoveProbe(tracefs.KprobeEvents, name)
		}
	}
}

// The sweep waits until a killed process has exited.
func TestSweepWaits(t *testing.T) {
	if os.Getenv("QUARK_TEST_IDLE") != "" {
		os.Stdin.Read(make([]byte, 1))
		return
	}
	fs, probes := openProbes(t)
	for range 20 {
		c := exec.Command("/proc/self/exe", "-test.run=^TestSweepWaits$")
		c.Env = append(os.Environ(), "QUARK_TEST_IDLE=1")
		input, _ := c.StdinPipe() // the child runs until its input is closed
		defer input.Close()
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		name := groupOf(t, c.Process.Pid, 0) + "/a"
		if err := probes.Write("p:" + name + " wake_up_new_task"); err != nil {
			t.Fatal(err)
		}
		c.Process.Kill()
		sweep()
		if names, _ := fs.ProbeNames(tracefs.KprobeEvents); slices.Contains(names, name) {
			t.Errorf("got probes %q, want none of the child", names)
			fs.RemoveProbe(tracefs.KprobeEvents, name)
		}
		c.Wait()
	}
}

// openProbes opens tracefs and its list of kprobes, or skips the test.
func openProbes(t *testing.T) (*tracefs.FS, *tracefs.Probes) {
	t.Helper()
	fs, err := tracefs.Open()
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { fs.Close() })
	probes, err := fs.Probes()
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { probes.Close() })
	return fs, probes
}

// groupOf returns the probe group of a process that started the given number of ticks before
// process pid.
func groupOf(t *testing.T, pid int, before uint64) string {
	t.Helper()
	st, err := proctext.ReadStat(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("quark_%d_%d_1", pid, st.Start/proctext.Tick-before)
}
