package selection

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/kernelversion"
)

// hideVariable names the environment variable with the options of /proc for a child of the test.
const hideVariable = "QUARK_TEST_HIDEPID"

// hideProc mounts /proc with the options and becomes another user.
func hideProc(options string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, options); err != nil {
		return err
	}
	const nobody = 65534
	if err := syscall.Setgroups(nil); err != nil {
		return err
	}
	if err := syscall.Setresgid(nobody, nobody, nobody); err != nil {
		return err
	}
	return syscall.Setresuid(nobody, nobody, nobody)
}

func TestHiddenProcesses(t *testing.T) {
	if options := os.Getenv(hideVariable); options != "" {
		if err := hideProc(options); err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString("hidden: " + hiddenProcesses() + "\n")
		return
	}
	if os.Getuid() != 0 || !kernelversion.AtLeast("5.8") {
		t.Skip("needs root, and Linux 5.8 for options of a single mount of /proc")
	}
	if got := hiddenProcesses(); got != "" {
		t.Errorf("root: got %q, want nothing hidden", got)
	}
	for options, want := range map[string]string{
		"hidepid=0": "hidden: users' processes: ",
		"hidepid=1": "hidden: processes: /proc hides them (hidepid)",
		"hidepid=2": "hidden: processes: /proc hides them (hidepid)",
	} {
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestHiddenProcesses$")
		cmd.Env = append(os.Environ(), hideVariable+"="+options)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: got %q, %v, want %q", options, out, err, want)
		}
	}
}
