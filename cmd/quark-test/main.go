package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/internal/command"
	"github.com/quark-linux/quark/internal/harness/gotest"
	"github.com/quark-linux/quark/internal/harness/record"
	"github.com/quark-linux/quark/internal/proctext"
	"github.com/quark-linux/quark/internal/seccompfail"
)

const about = `Runs the named tests, by default all, on the named backends, by default eBPF and the
proc connector. A name can be a pattern such as t_exit*. The exit status is the number
of failed tests, at most 100; 101 is wrong usage.`

// Exit statuses: the number of failed tests up to maxFailed, or unusable if the tests cannot run.
const (
	maxFailed = 100
	unusable  = 101
)

func main() {
	// Children have a parent-death signal, which is sent when the thread that started them
	// exits.
	runtime.LockOSThread()
	prepare()
	// The program is a Go test binary, too.
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "-test.") {
		s := new(settings)
		s.define(flag.CommandLine)
		s.main()
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	failed, err := program(ctx, os.Args[1:], os.Stdout)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "quark-test:", err)
		os.Exit(unusable)
	}
	os.Exit(min(failed, maxFailed))
}

// prepare sets up a process that runs tests.
func prepare() {
	scenario.Main()
	if err := seccompfail.FromEnv(); err != nil {
		fmt.Fprintln(os.Stderr, "quark-test:", err)
		os.Exit(unusable)
	}
	debug.SetTraceback("all")
}

// settings are the options of the command line that the tests use.
type settings struct {
	on       []string // backends
	deadline time.Duration
	verbose  int
	trace    bool // log the kernel's trace_pipe if a test fails
}

// define adds the options of the Go test binary.
func (s *settings) define(f *flag.FlagSet) {
	s.on = defaultBackends
	f.Func("backends", "run on these `backends`, separated by commas", func(value string) error {
		s.on = strings.Split(value, ",")
		return nil
	})
	f.DurationVar(&s.deadline, "deadline", defaultDeadline(), "how long a test may take")
	f.IntVar(&s.verbose, "verbose", 0, "2: log what the tests wait for, 3: and every event")
	f.BoolVar(&s.trace, "trace", false, "log the contents of trace_pipe of a failed test")
}

// args returns s as arguments for the Go test binary.
func (s *settings) args() []string {
	return []string{"-backends=" + strings.Join(s.on, ","), "-deadline=" + s.deadline.String(),
		fmt.Sprint("-verbose=", s.verbose), fmt.Sprint("-trace=", s.trace)}
}

// main runs the tests in this process as a Go test binary does. It does not return.
func (s *settings) main() {
	testing.Main(regexp.MatchString, []testing.InternalTest{{Name: parent, F: s.run}}, nil, nil)
}

// parent is the Go test that has all tests as subtests.
const parent = "TestQuark"

var defaultBackends = []string{"ebpf", "cnproc"}

// defaultDeadline allows for emulation on a loaded machine.
func defaultDeadline() time.Duration {
	if scenario.InGuest() {
		return 2 * time.Minute
	}
	return time.Minute
}

// commandLine holds the arguments of the program.
type commandLine struct {
	settings
	inProcess bool
	list      bool
	exclude   []string
	types     bool
	records   string
}

// program runs the program with arguments, and returns how many tests failed.
func program(ctx context.Context, args []string, out io.Writer) (failed int, err error) {
	o := new(commandLine)
	c := command.New(&cobra.Command{Use: "quark-test [options] [TEST...]", Long: about, Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, names []string) (err error) {
			for _, b := range []string{"ebpf", "kprobe", "cnproc", "audit"} {
				if c.Flags().Changed(b) {
					o.on = append(o.on, b)
				}
			}
			if o.on == nil {
				o.on = defaultBackends
			}
			failed, err = o.test(ctx, names, out)
			return err
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) (names []string, _ cobra.ShellCompDirective) {
			for _, t := range tests {
				names = append(names, t.name)
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		}})
	f := c.Flags()
	f.BoolVarP(&o.inProcess, "one-process", "1", false, "run the tests in this process, for a debugger, with the output of go test -v")
	for _, b := range [][2]string{{"ebpf", "b"}, {"kprobe", "k"}, {"cnproc", "c"}, {"audit", ""}} {
		f.BoolP(b[0], b[1], false, "run on "+b[0])
	}
	o.deadline = defaultDeadline()
	f.Var((*command.Span)(&o.deadline), "deadline", "time limit of a test")
	f.StringVarP(&o.records, "json", "j", os.Getenv("QUARK_RESULTS"),
		"append a JSON record a line to this `file` or serial line (default $QUARK_RESULTS)")
	f.BoolVarP(&o.list, "list", "l", false, "list the tests")
	f.BoolVarP(&o.trace, "trace", "t", false, "print the contents of the kernel's trace_pipe from a failed test")
	f.CountVarP(&o.verbose, "verbose", "v", "print the logs of all tests; -vv: also the conditions they wait for; -vvv: also every event")
	f.StringArrayVarP(&o.exclude, "exclude", "x", nil, "skip the tests that match this pattern; may be repeated")
	f.BoolVar(&o.types, "types", false, "run only the tests for kernel types from another source than the kernel")
	f.Lookup("json").DefValue = "" // the default is computed: omit it in the help
	err = command.Run(ctx, c, args, out)
	return failed, err
}

// test runs the tests that the options choose, and returns how many failed.
func (o *commandLine) test(ctx context.Context, names []string, out io.Writer) (failed int, err error) {
	chosen, err := selectTests(names, o.exclude)
	if err != nil {
		return 0, err
	}
	if o.types {
		chosen = slices.DeleteFunc(chosen, func(r row) bool { return !r.types })
	}
	if o.list {
		for _, r := range chosen {
			fmt.Fprintf(out, "%-22s %s\n", r.name, r.doc)
		}
		return 0, nil
	}
	// At its deadline a test that hangs should end by itself. The limit is for tests that do
	// not.
	suite := gotest.Suite{Name: "quark-test", Parent: parent, Command: o.command, Limit: o.deadline + 30*time.Second}
	for _, r := range chosen {
		t := gotest.Test{Name: r.name}
		for _, b := range o.on {
			t.Jobs = append(t.Jobs, record.Job{Test: r.name, Backend: b})
		}
		if r.noBackend {
			t.Jobs = []record.Job{{Test: r.name, Backend: "none"}}
		}
		suite.Tests = append(suite.Tests, t)
	}
	if o.inProcess {
		os.Args = append([]string{os.Args[0], "-test.v", suite.Pattern(suite.Tests)}, o.args()...)
		s := new(settings)
		s.define(flag.CommandLine)
		s.main()
	}
	report := &gotest.Report{Out: out, Verbose: o.verbose > 0}
	if o.records != "" {
		if report.Port, err = record.OpenWriter(o.records); err != nil {
			return 0, fmt.Errorf("open %s for records: %w", o.records, errors.Unwrap(err))
		}
		defer report.Port.Close()
	}
	if err := adoptOrphans(); err != nil {
		return 0, err
	}
	err = gotest.RunSuites(ctx, []gotest.Suite{suite}, report)
	endChildren(nil)
	n := report.Count
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", n[record.Pass], n[record.Fail], n[record.Skip])
	if ctx.Err() != nil {
		return 0, errors.New("interrupted")
	}
	return n[record.Fail], err
}

// command returns the command that runs the tests in a separate process, if possible in a private
// mount namespace.
func (o *commandLine) command(args ...string) *exec.Cmd {
	endChildren(nil) // kill children of an earlier process
	cmd := exec.Command("/proc/self/exe", append(args, o.args()...)...)
	cmd.Args[0] = os.Args[0]
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if unfitReason() == "" {
		cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	}
	if scenario.InGuest() {
		// On an emulated processor, preemption by signals and garbage collection are slow.
		cmd.Env = append(os.Environ(), "GODEBUG=asyncpreemptoff=1", "GOGC=off", "GOMEMLIMIT=64MiB")
	}
	return cmd
}

// selectTests returns the tests whose names match a pattern in only, or all tests if only is empty,
// except tests that match a pattern in except. Every pattern must match a test.
func selectTests(only, except []string) (list []row, err error) {
	for _, p := range slices.Concat(only, except) {
		if _, err := path.Match(p, ""); err != nil {
			return nil, fmt.Errorf("pattern %q: %w", p, err)
		}
		if !slices.ContainsFunc(tests, func(r row) bool { return gotest.Matches([]string{p}, r.name) }) {
			return nil, fmt.Errorf("no test is called %q (-l lists them)", p)
		}
	}
	for _, r := range tests {
		if (len(only) == 0 || gotest.Matches(only, r.name)) && !gotest.Matches(except, r.name) {
			list = append(list, r)
		}
	}
	return list, nil
}

// unfitReason returns the reason why this user cannot run tests here, or "".
func unfitReason() string {
	if os.Geteuid() != 0 {
		return "needs root"
	}
	var s unix.Statfs_t
	if unix.Statfs("/proc", &s) != nil || s.Type != unix.PROC_SUPER_MAGIC {
		return "needs /proc: it is not mounted"
	}
	if !proctext.InInitialNamespace("pid") {
		return "needs the initial pid namespace: the kernel's pids mean nothing in this one"
	}
	return ""
}
