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
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	tests := newGoTests(stdout)
	if kind == "gotest" {
		cmd.Stdout = tests
	}
	runErr := cmd.Run()
	tests.end()
	if runErr != nil {
		fmt.Fprintf(stdout, "== %s: %v\n", name, runErr)
	}
	counts := tests.Counts
	if kind == "records" {
		content, err := os.ReadFile(filepath.Join(dir, name+".jsonl"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("read the records of %s: %w", name, err)
		}
		counts = countRecords(content)
	}
	// What the tests did not say: the command failed though none of its tests did, or it was to
	// have tests and ran none.
	switch {
	case runErr != nil && counts.Failed == 0:
		counts.fail(fmt.Sprintf("(%v)", runErr))
	case runErr == nil && kind == "command":
		counts.Passed++
	case counts.Passed+counts.Failed+counts.Skipped == 0:
		counts.fail("(no test ran)")
	}
	b, err := json.Marshal(Step{name, counts})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".step"), b, 0o644)
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
