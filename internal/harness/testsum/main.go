package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Step is the outcome of a step, kept in DIR/NAME.step.
type Step struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"` // command, gotest or records
	Status int    `json:"status"`
	Counts Counts `json:"counts"`
}

func main() {
	failed, err := testsum(os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testsum:", err)
		os.Exit(2)
	}
	if failed {
		os.Exit(1)
	}
}

var errUsage = errors.New("usage: testsum run [-gotest|-records] DIR NAME COMMAND [ARGUMENT...] | testsum report DIR")

func testsum(args []string, stdout io.Writer) (failed bool, err error) {
	switch {
	case len(args) == 2 && args[0] == "report":
		return report(args[1], stdout)
	case len(args) < 4 || args[0] != "run":
		return false, errUsage
	}
	kind, args := "command", args[1:]
	if option, ok := strings.CutPrefix(args[0], "-"); ok {
		kind, args = option, args[1:]
	}
	if len(args) < 3 || !slices.Contains([]string{"command", "gotest", "records"}, kind) {
		return false, errUsage
	}
	return false, runStep(kind, args[0], args[1], args[2:], stdout)
}

// runStep runs a step and writes its outcome.
func runStep(kind, dir, name string, command []string, stdout io.Writer) error {
	fmt.Fprintf(stdout, "== %s: %s\n", name, strings.Join(command, " "))
	step := Step{Name: name, Kind: kind}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stderr = os.Stdin, os.Stderr

	var runErr error
	if kind == "gotest" {
		pipe, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if runErr = cmd.Start(); runErr == nil {
			var readErr error
			if step.Counts, readErr = readGoTest(pipe, stdout); readErr != nil {
				return fmt.Errorf("read the output of %s: %w", name, readErr)
			}
			runErr = cmd.Wait()
		}
	} else {
		cmd.Stdout = os.Stdout
		runErr = cmd.Run()
	}
	if runErr != nil {
		step.Status = 1
		if code := cmd.ProcessState.ExitCode(); cmd.ProcessState != nil && code > 0 {
			step.Status = code
		}
		fmt.Fprintf(stdout, "== %s: %v\n", name, runErr)
	}
	if kind == "records" {
		f, err := os.Open(filepath.Join(dir, name+".jsonl"))
		if err == nil {
			step.Counts, err = readRecords(f)
			f.Close()
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("read the records of %s: %w", name, err)
		}
	}
	step.settle()
	b, err := json.Marshal(step)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".step"), b, 0o644)
}

// settle counts what the step's tests did not say: a command that failed though none of its tests
// did, and one that was to have tests and ran none.
func (s *Step) settle() {
	switch {
	case s.Status != 0 && s.Counts.Failed == 0:
		s.Counts.fail(fmt.Sprintf("(exit status %d)", s.Status))
	case s.Kind == "command" && s.Status == 0:
		s.Counts.Passed++
	case s.Counts.Passed+s.Counts.Failed+s.Counts.Skipped == 0:
		s.Counts.fail("(no test ran)")
	}
}

// report prints the sum of all steps in dir, as its last line.
func report(dir string, stdout io.Writer) (failed bool, err error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.step"))
	if err != nil {
		return false, err
	}
	if len(paths) == 0 {
		return false, fmt.Errorf("no step in %s", dir)
	}
	var sum Counts
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			return false, err
		}
		var s Step
		if err := json.Unmarshal(b, &s); err != nil {
			return false, fmt.Errorf("parse %s: %w", path, err)
		}
		for _, name := range s.Counts.Names {
			fmt.Fprintf(stdout, "FAILED %s: %s\n", s.Name, name)
		}
		sum.add(s.Counts)
	}
	fmt.Fprintf(stdout, "%d passed, %d failed", sum.Passed, sum.Failed)
	if sum.Skipped > 0 {
		fmt.Fprintf(stdout, ", %d skipped", sum.Skipped)
	}
	fmt.Fprintln(stdout)
	return sum.Failed > 0, nil
}
