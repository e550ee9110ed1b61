//go:build linux

package gotest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/quark-linux/quark/internal/harness/record"
)

// Main runs the binaries of the archive in a guest and returns the exit status: with Exec that of
// the binary, else 1 if a test failed. It is 2 if they could not be run. patterns select tests as
// PACKAGE.TEST; without one all run.
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
		return 0, fmt.Errorf("%w (quark-matrix exec and run put it into the image)", err)
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
	cmd.WaitDelay = time.Second
	return cmd
}

// run runs a command. Processes that it left behind may hold its output open.
func run(cmd *exec.Cmd) error {
	if err := cmd.Run(); !errors.Is(err, exec.ErrWaitDelay) {
		return err
	}
	return nil
}

// exec runs a binary for go test -exec.
func (g *guest) exec(b Binary) (int, error) {
	cmd := g.command(b, g.Args...)
	cmd.Stdout, cmd.Stderr = outputTo{g, 1}, outputTo{g, 2}
	if g.Merge {
		cmd.Stderr = cmd.Stdout // one pipe: the order of all writes is kept
	}
	var exit *exec.ExitError
	if err := run(cmd); err != nil && !errors.As(err, &exit) {
		fmt.Fprintf(outputTo{g, 2}, "start the test binary: %v (CGO_ENABLED=0 links it statically: the guest has no libraries)\n", err)
		return 0, err
	}
	return record.ShellStatus(cmd.ProcessState), nil
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
	var plan record.Plan
	todo := make([][]string, len(g.Binaries))
	for i, b := range g.Binaries {
		out, err := g.command(b, "-test.list=.").Output()
		if err != nil {
			return 0, fmt.Errorf("list the tests of %s: %w", b.Package, err)
		}
		for _, test := range strings.Fields(string(out)) {
			name := b.Name() + "." + test
			if !strings.HasPrefix(test, "Benchmark") && selected(name, patterns) {
				todo[i] = append(todo[i], test)
				plan.Jobs = append(plan.Jobs, record.Job{Test: name, Backend: b.Backend})
			}
		}
	}
	if err := g.port.Write(plan); err != nil {
		return 0, err
	}
	for i, b := range g.Binaries {
		// A binary that ends with a panic is run again for the tests that it has not begun.
		for len(todo[i]) > 0 {
			begun, failed, err := g.call(b, todo[i])
			if err != nil {
				return 0, err
			}
			if failed {
				status = 1
			}
			rest := slices.DeleteFunc(slices.Clone(todo[i]), func(t string) bool { return begun[t] })
			if len(rest) == len(todo[i]) {
				return 0, fmt.Errorf("%s ran none of its tests", b.Package)
			}
			todo[i] = rest
		}
	}
	return status, nil
}

func selected(name string, patterns []string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool {
		ok, _ := path.Match(p, name) // the host refuses malformed patterns
		return ok
	})
}

// testLimit is the time limit of a test, or of a subtest. It is shorter than quark-matrix's limit
// between two records.
const testLimit = 150 * time.Second

// call runs tests of a binary, and returns which of them began.
func (g *guest) call(b Binary, tests []string) (begun map[string]bool, failed bool, err error) {
	names := make([]string, len(tests))
	for i, t := range tests {
		names[i] = regexp.QuoteMeta(t)
	}
	// Short: guests are often emulated. No timeout: it would be one for all tests together.
	cmd := g.command(b, "-test.v=test2json", "-test.paniconexit0", "-test.short", "-test.timeout=0", "-test.run=^("+strings.Join(names, "|")+")$")
	var late atomic.Bool
	limit := time.AfterFunc(testLimit, func() {
		late.Store(true)
		cmd.Process.Signal(syscall.SIGQUIT) // prints goroutines and exits
	})
	defer limit.Stop()
	begun = make(map[string]bool)
	var writeErr error
	write := func(rec any) { writeErr = cmp.Or(writeErr, g.port.Write(rec)) }
	p := &parser{
		started: func(test string) {
			limit.Reset(testLimit)
			begun[test] = true
			write(record.Start{Test: b.Name() + "." + test, Backend: b.Backend})
		},
		going: func() {
			limit.Reset(testLimit)
			write(record.Output{}) // a sign of life
		},
		ended: func(test string, o outcome) {
			failed = failed || o.state == record.Fail
			log := o.log.String()
			fmt.Printf("%s.%s: %s %s\n", b.Name(), test, o.state, o.reason)
			if o.state == record.Fail {
				fmt.Print(log)
			}
			write(record.Result{Test: b.Name() + "." + test, Backend: b.Backend, State: o.state, Reason: o.reason,
				DurationMS: o.took.Milliseconds(), Log: record.CutLog(log, record.MaxLog)})
		},
	}
	cmd.Stdout, cmd.Stderr = p, p
	waitErr := run(cmd)
	if cmd.Process == nil {
		return nil, false, waitErr
	}
	why := "the test binary ended"
	if waitErr != nil {
		why += ": " + waitErr.Error()
	}
	if late.Load() {
		why = fmt.Sprintf("no result within %v; the log has its goroutines", testLimit)
	}
	p.close(why)
	if waitErr != nil && !failed {
		fmt.Print(p.rest)
		return nil, false, fmt.Errorf("%s: %w, and no test of it failed", b.Package, waitErr)
	}
	return begun, failed, writeErr
}
