//go:build linux

package gotest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/quark-linux/quark/internal/harness/record"
	"github.com/quark-linux/quark/internal/shellstatus"
)

// Main runs the binaries of the archive in a guest and returns the exit status: with Exec the
// binary's, else 1 if a test failed. The status is 2 if the binaries could not run. patterns select
// tests as PACKAGE.TEST; without a pattern all tests run.
func Main(patterns []string) int {
	status, err := inGuest(patterns)
	if err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		return 2
	}
	return status
}

func inGuest(patterns []string) (int, error) {
	text, err := os.ReadFile("/" + list)
	if err != nil {
		return 0, fmt.Errorf("%w (use an image of quark-matrix exec or run, which contains it)", err)
	}
	var run Run
	if err := json.Unmarshal(text, &run); err != nil {
		return 0, err
	}
	port, err := record.OpenWriter(os.Getenv("QUARK_RESULTS"))
	if err != nil {
		return 0, err
	}
	defer port.Close()
	g := &guest{Run: run, port: port}
	if run.Exec {
		return g.exec(run.Binaries[0])
	}
	return g.tests(patterns)
}

// guest runs the binaries and reports to the host.
type guest struct {
	Run
	port *record.Writer
}

// command returns the command that runs a binary in the copy of its package's directory.
func (g *guest) command(b Binary, args ...string) *exec.Cmd {
	cmd := exec.Command("/"+b.guestPath(), args...)
	cmd.Dir = "/" + b.guestDir()
	cmd.Env = append(append(os.Environ(), g.Env...), "PWD="+cmd.Dir)
	return cmd
}

// exec runs a binary for go test -exec.
func (g *guest) exec(b Binary) (int, error) {
	cmd := g.command(b, g.Args...)
	cmd.Stdout, cmd.Stderr = outputTo{g, 1}, outputTo{g, 2}
	if g.Merge {
		cmd.Stderr = cmd.Stdout // one pipe keeps the order of all writes
	}
	var exit *exec.ExitError
	if err := runCommand(cmd); err != nil && !errors.As(err, &exit) {
		fmt.Fprintf(outputTo{g, 2}, "start the test binary: %v (CGO_ENABLED=0 links it statically: the guest has no libraries)\n", err)
		return 0, err
	}
	return shellstatus.OfWait(cmd.ProcessState.Sys().(syscall.WaitStatus)), nil
}

// outputTo writes to the host's standard output or error.
type outputTo struct {
	g  *guest
	fd int
}

func (o outputTo) Write(b []byte) (int, error) {
	return len(b), o.g.port.Write(record.Output{FD: o.fd, Data: b})
}

// tests runs the tests of all binaries and reports each.
func (g *guest) tests(patterns []string) (status int, err error) {
	var suites []Suite
	for _, b := range g.Binaries {
		// Tests are short, because guests are often emulated.
		s := Suite{Name: b.Package, Args: []string{"-test.short"}, Limit: testLimit,
			Command: func(args ...string) *exec.Cmd { return g.command(b, args...) }}
		out, err := s.Command("-test.list=.").Output()
		if err != nil {
			return 0, fmt.Errorf("list the tests of %s: %w", b.Package, err)
		}
		for _, test := range strings.Fields(string(out)) {
			name := b.Name() + "." + test
			if !strings.HasPrefix(test, "Benchmark") && (len(patterns) == 0 || Matches(patterns, name)) {
				s.Tests = append(s.Tests, Test{Name: test, Jobs: []record.Job{{Test: name, Backend: b.Backend}}})
			}
		}
		suites = append(suites, s)
	}
	r := &Report{Out: os.Stdout, Port: g.port}
	err = RunSuites(context.Background(), suites, r)
	return min(r.Count[record.Fail], 1), err
}

// Matches reports whether a name matches a pattern. A malformed pattern matches none.
func Matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, _ := path.Match(p, name)
		return ok
	})
}

// testLimit is the time limit of a test, or of a subtest. It is shorter than quark-matrix's limit
// for the time between two records.
const testLimit = 150 * time.Second
