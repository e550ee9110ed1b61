package barefork

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/seccompfail"
)

func TestMain(m *testing.M) {
	if err := seccompfail.FromEnv(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// All tests pass on kernels without clone3(2), and on kernels with older versions of clone3(2).
func TestOlderKernels(t *testing.T) {
	if os.Getenv(seccompfail.Env) != "" {
		t.Skip("this process already runs with a filter")
	}
	for calls, tests := range map[string]string{"clone3": ".", "clone3-set-tid": ".", "clone3-cgroup": ".", "clone3-flags": "Signals|Thread|Leader"} {
		t.Run(calls, func(t *testing.T) {
			c := exec.Command("/proc/self/exe", "-test.run="+tests)
			c.Env = append(os.Environ(), seccompfail.Env+"="+calls)
			out, err := c.CombinedOutput()
			if strings.Contains(string(out), "install seccomp filter") {
				t.Skip(string(out)) // built without seccomp
			}
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// Lacks names the missing feature. Start does not fall back to another call.
func TestLacks(t *testing.T) {
	refused := os.Getenv(seccompfail.Env)
	for _, tt := range []struct {
		c    Clone
		want map[string]string // by failing call
	}{
		{Clone{Flags: unix.CLONE_NEWUTS}, nil},
		{Clone{SetTID: []uint32{5}}, map[string]string{"clone3": "clone3(2) (Linux 5.3)", "clone3-set-tid": "set_tid of clone3(2) (Linux 5.5)"}},
		{Clone{Cgroup: 5}, map[string]string{
			"clone3": "clone3(2) (Linux 5.3)", "clone3-set-tid": "CLONE_INTO_CGROUP of clone3(2) (Linux 5.7)",
			"clone3-cgroup": "CLONE_INTO_CGROUP of clone3(2) (Linux 5.7)",
		}},
		{Clone{Flags: unix.CLONE_NEWTIME}, map[string]string{"clone3": "clone3(2) (Linux 5.3)"}},
	} {
		err := tt.c.Lacks()
		if want := tt.want[refused]; want == "" && err != nil && refused != "" || want != "" &&
			(!errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "kernel lacks "+want)) {
			t.Errorf("%+v: got error %v, want %q", tt.c, err, want)
		}
	}
	if refused != "clone3" {
		return
	}
	if p, err := Start(new(Script), Options{PID: 5}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Start with a pid: got %v, error %v", p, err)
	}
	s := new(Script)
	p, _ := run(t, s.Clone(new(Script), &Clone{SetTID: []uint32{5}}))
	if err := p.Check(); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("script that starts a process with a pid: got error %v", err)
	}
}

// A process does not run this program's signal handlers, however it was started. It does not block
// the signals that this program receives.
func TestSignals(t *testing.T) {
	signal.Notify(make(chan os.Signal, 1), unix.SIGUSR1)
	defer signal.Reset(unix.SIGUSR1)
	r, w := pipe(t)
	p, err := Start(new(Script).Notify(w).Stop(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Free()
	unix.Read(r, make([]byte, 1))
	unix.Kill(p.PID, unix.SIGUSR1)
	var status unix.WaitStatus
	if _, err := unix.Wait4(p.PID, &status, 0, nil); err != nil || status.Signal() != unix.SIGUSR1 {
		t.Errorf("got wait status %#x, error %v, want SIGUSR1", status, err)
	}
}
