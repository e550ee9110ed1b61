package supervisor

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quark-linux/quark/internal/retry"
)

// A daemon that has left the group belongs to the family, and another process does not.
func TestFamily(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip(err)
	}
	cmd := exec.Command("sh", "-c", "setsid sleep 60 & wait")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	names := func() (list []string) {
		for _, pid := range family(cmd.Process.Pid) {
			b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
			list = append(list, strings.TrimSpace(string(b)))
		}
		return list
	}
	defer func() {
		for _, pid := range family(cmd.Process.Pid) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		cmd.Wait()
	}()
	var got []string
	for range retry.For(20 * time.Second) {
		if got = names(); slices.Equal(got, []string{"sh", "sleep"}) {
			return
		}
	}
	t.Errorf("got family %q, want sh and sleep", got)
}
