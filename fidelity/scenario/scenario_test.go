package scenario

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/quark-linux/quark/internal/seccompfail"
)

func TestMain(m *testing.M) {
	Main()
	if err := seccompfail.FromEnv(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// TestScenariosSucceed runs each scenario on this kernel, without a monitor.
func TestScenariosSucceed(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	for _, s := range All() {
		t.Run(s.Name, func(t *testing.T) {
			r, err := Start(s)
			if err != nil {
				t.Fatal(err)
			}
			all, err := r.Wait(20 * time.Second)
			if err != nil {
				t.Fatal(err)
			}
			o := all[0]
			if o.Skip != "" {
				t.Skip(o.Skip)
			}
			if len(o.Processes) == 0 {
				t.Fatal("no events were recorded")
			}
			if testing.Verbose() {
				for _, l := range o.Processes {
					for _, e := range l.Events {
						t.Logf("%d %s %v +%d", l.PID, e.Kind, e.State.Known, e.Latest-e.Earliest)
					}
				}
			}
		})
	}
}

// withoutCall runs scenarios while a system call fails.
func withoutCall(call string, names ...string) (out []byte, err error) {
	c := exec.Command("/proc/self/exe", "-test.v", "-test.timeout=2m", "-test.run=^TestScenariosSucceed$/^("+strings.Join(names, "|")+")$")
	c.Env = append(os.Environ(), seccompfail.Env+"="+call)
	return c.CombinedOutput()
}

// Without clone3(2) scenarios still succeed, or name the missing feature.
func TestScenariosOnOlderKernels(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	if os.Getenv(seccompfail.Env) != "" {
		t.Skip("system calls are filtered")
	}
	names := []string{
		"fork-exit", "vfork", "clone-parent", "clone-signal", "clone-namespaces", "exec-from-thread", "leader-first", "kill-term", "kill-core",
		"daemon", "setres-ids", "args-overwritten", "clone-cgroup", "pid-reuse", "pid-reuse-unread",
	}
	out, err := withoutCall("clone3", names...)
	if strings.Contains(string(out), "install seccomp filter") {
		t.Skip(string(out)) // built without seccomp
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// If the first way to start a process fails, programs are written twice.
	if out, err := withoutCall("clone3-flags", "memfd"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for _, name := range names {
		m := regexp.MustCompile(`=== RUN +TestScenariosSucceed/` + name + `\n(?s:(.*?))--- (PASS|SKIP): TestScenariosSucceed/` + name + ` `).
			FindStringSubmatch(string(out))
		lacks := strings.HasPrefix(name, "pid-reuse") || name == "clone-cgroup"
		switch {
		case m == nil:
			t.Errorf("%s did not run:\n%s", name, out)
		case lacks && (m[2] != "SKIP" || !strings.Contains(m[1], "kernel lacks clone3(2) (Linux 5.3)")) &&
			!strings.Contains(m[1], "no cgroup2 is mounted"), !lacks && m[2] != "PASS":
			t.Errorf("%s: %s", name, m[0])
		}
	}
}
