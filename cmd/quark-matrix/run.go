package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/harness/catalogue"
	"github.com/quark-linux/quark/internal/harness/machine"
	"github.com/quark-linux/quark/internal/harness/matrix"
	"github.com/quark-linux/quark/internal/harness/usercache"
	"github.com/quark-linux/quark/internal/kernelversion"
)

// options holds the options of run and list.
type options struct {
	out, images, qemu    string
	arches               []string
	initramfs            map[string]string
	backends, tests, btf []string
	env, keep            []string
	append               string
	packages             []string
	command              string
	mem                  int
	jobs                 int
	fresh                bool
	shard                string
	boot, test           time.Duration
	kernels              []string
}

// define adds the options of run and list to c.
func (o *options) define(c *cobra.Command) {
	c.Args = cobra.ArbitraryArgs
	f := c.Flags()
	f.StringVarP(&o.out, "output", "o", "build/matrix", "directory for the results")
	f.StringSliceVar(&o.arches, "arch", []string{runtime.GOARCH}, "architectures of the kernels")
	f.StringToStringVar(&o.initramfs, "initramfs", map[string]string{runtime.GOARCH: "initramfs.gz"}, "initramfs of each architecture")
	f.StringSliceVarP(&o.backends, "backends", "b", nil, "run only on these backends: "+matrix.KnownBackends())
	f.StringSliceVarP(&o.tests, "tests", "t", nil, "run only these tests: names or patterns of quark-test, or PACKAGE.TEST for Go tests")
	f.StringSliceVar(&o.packages, "packages", nil, "also run the Go tests of these packages, in separate guests")
	f.StringVar(&o.command, "command", "", "run this command instead of tests; its exit status and its records are the result")
	f.StringArrayVar(&o.keep, "keep", nil, "copy this file, or the files that match this pattern, from the guest to files/ in the guest's results; may be repeated")
	f.StringSliceVar(&o.btf, "btf", nil, "boot only with the kernel's types present, hidden or in a file")
	f.StringArrayVarP(&o.env, "env", "e", nil, "set NAME=VALUE in the tests' environment; may be repeated")
	f.StringVar(&o.append, "append", "", "additional kernel parameters, such as audit=1")
	f.IntVar(&o.mem, "mem", 512, "memory of a guest in MiB")
	// A guest uses one CPU, and is idle for a third of the time. So three guests share two
	// CPUs.
	f.IntVarP(&o.jobs, "jobs", "j", (3*runtime.NumCPU()+1)/2, "number of parallel guests")
	f.BoolVar(&o.fresh, "fresh", false, "also run guests that have cached results")
	f.StringVar(&o.shard, "shard", "", "I/N: run the Ith of N parts of the guests")
	f.DurationVar(&o.boot, "deadline-boot", 2*time.Minute, "time limit for booting")
	f.DurationVar(&o.test, "deadline-test", 3*time.Minute, "time limit of a test, or of the command")
	f.StringVar(&o.images, "images", "kernel_images", "directory of the kernels' images")
	f.StringVar(&o.qemu, "qemu", "", "the qemu binary, instead of qemu-system-ARCH")
}

// check returns an error if an option is invalid.
func (o *options) check() error {
	for _, e := range o.env {
		if name, _, ok := strings.Cut(e, "="); !ok || name == "" || strings.ContainsAny(e, " \t\n\"") {
			return fmt.Errorf("%w: --env %q: want NAME=VALUE without spaces and quotes", errUsage, e)
		}
	}
	if o.jobs < 1 {
		return fmt.Errorf("%w: --jobs %d: want 1 or more", errUsage, o.jobs)
	}
	for _, d := range []time.Duration{o.boot, o.test} {
		if d <= 0 {
			return fmt.Errorf("%w: deadline %v: want more than 0", errUsage, d)
		}
	}
	return nil
}

// guests returns all selected guests, and the guests among them that this shard runs.
func (o *options) guests() (whole, here []matrix.Guest, err error) {
	rows, err := catalogue.Rows()
	if err != nil {
		return nil, nil, err
	}
	kernels, err := matrix.FindKernels(o.images, rows, o.arches, o.kernels)
	if err != nil {
		return nil, nil, err
	}
	s := matrix.Selection{Backends: o.backends, Tests: o.tests, Packages: o.packages, Command: strings.Fields(o.command),
		Keep: o.keep, Env: o.env, Append: strings.Fields(o.append)}
	for _, w := range o.btf {
		if !slices.Contains([]string{"present", "hidden", "file"}, w) {
			return nil, nil, fmt.Errorf("%w: --btf %q: want present, hidden or file", errUsage, w)
		}
		s.BTF = append(s.BTF, matrix.BTF(w))
	}
	whole, err = matrix.Plan(kernels, s, o.initramfs)
	if err != nil || o.shard == "" {
		return whole, whole, err
	}
	var part, parts int
	if _, err := fmt.Sscanf(o.shard+"\n", "%d/%d\n", &part, &parts); err != nil || part < 1 || part > parts {
		return nil, nil, fmt.Errorf("%w: --shard %q: want I/N with 1 <= I <= N", errUsage, o.shard)
	}
	return whole, matrix.Shard(whole, part, parts), nil
}

func listVerb() (*cobra.Command, verb) {
	o := new(options)
	c := &cobra.Command{Use: "list [options] [KERNEL...]", Short: "list the guests that run boots"}
	o.define(c)
	return c, o.list
}

func (o *options) list(_ context.Context, kernels []string, stdout io.Writer) (int, error) {
	o.kernels = kernels
	if err := o.check(); err != nil {
		return unusable, err
	}
	_, guests, err := o.guests()
	if err != nil {
		return unusable, err
	}
	for _, g := range guests {
		var names []string
		for _, b := range g.Backends {
			names = append(names, b.Name)
		}
		fmt.Fprintf(stdout, "%-28s %-8s %-20s %s\n", g.Name(), g.BTF, strings.Join(names, ","), g.Repro(""))
	}
	return allGood, nil
}

func runVerb() (*cobra.Command, verb) {
	o := new(options)
	c := &cobra.Command{Use: "run [options] [KERNEL...]", Short: "run quark-test, or another command, on many kernels",
		Long: `Boots kernels and runs quark-test in each guest on every backend. It boots each kernel again with
hidden types, for some tests (-t '*': all), and for the Go tests of --packages. It writes its
reports to a directory. KERNEL is a name or a pattern such as '6.*-cloud'; without KERNEL the
default rows of the catalogue run.`}
	o.define(c)
	return c, o.run
}

func (o *options) run(ctx context.Context, kernels []string, stdout io.Writer) (int, error) {
	o.kernels = kernels
	if err := o.check(); err != nil {
		return unusable, err
	}
	whole, guests, err := o.guests()
	if err != nil {
		return unusable, err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return unusable, err
	}
	unlock, err := lock(o.out)
	if err != nil {
		return unusable, err
	}
	defer unlock()
	harness, machines, err := describeHarness(o.qemu, guests)
	if err != nil {
		return unusable, err
	}
	cache, err := matrix.OpenCache(usercache.Dir("results", filepath.Join(o.out, "cache")), harness)
	if err != nil {
		return unusable, err
	}

	if o.command != "" {
		cache = nil // a cached result has no guests' files and no measurements
	}
	if err := o.buildGoImages(ctx, guests); err != nil {
		return unusable, err
	}
	begin := time.Now()
	runner := matrix.Runner{
		Machine: matrix.Machine{QEMU: o.qemu, Mem: o.mem, Boot: o.boot, Test: o.test},
		Jobs:    o.jobs, Dir: o.out, Cache: cache, Fresh: o.fresh, Out: stdout,
	}
	outcomes, runErr := runner.Run(ctx, guests)
	results := matrix.Results{Time: begin.Round(time.Second), TookMS: time.Since(begin).Milliseconds(), Machine: machines, Guests: outcomes}
	results.Plan(whole, guests)
	if err := results.Write(o.out); err != nil {
		return unusable, err
	}
	if err := printResults(stdout, results, o.out); err != nil {
		return unusable, err
	}
	if runErr != nil {
		return unusable, fmt.Errorf("%w: ran %d of %d guests", runErr, len(outcomes), len(guests))
	}
	if !results.Good() {
		return someFailed, nil
	}
	return allGood, nil
}

// printResults prints the output of commands, the table and the totals as the last line.
func printResults(w io.Writer, r matrix.Results, dir string) error {
	for _, g := range r.Guests {
		if g.Part == matrix.PartCommand && len(g.Cells) == 1 {
			fmt.Fprintf(w, "\n== %s: %s\n%s", g.Kernel.Name, g.Cells[0].Test, g.Cells[0].Log)
		}
	}
	fmt.Fprintln(w)
	if err := r.Table(w); err != nil {
		return err
	}
	passed, failed, skipped := r.Count()
	fmt.Fprintf(w, "\n%d guests in %.1f s; %s\n", len(r.Guests), float64(r.TookMS)/1000, filepath.Join(dir, matrix.HTMLFile))
	fmt.Fprintf(w, "%d passed, %d failed, %d skipped\n", passed, failed, skipped)
	return nil
}

// describeHarness returns for each architecture a digest of the programs that run its guests, and a
// description of the machines.
func describeHarness(qemu string, guests []matrix.Guest) (harness map[string]string, words string, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	program, err := matrix.FileDigest(self)
	if err != nil {
		return nil, "", err
	}
	var machines []string
	harness = make(map[string]string)
	for _, g := range guests {
		if harness[g.Kernel.Arch] != "" {
			continue
		}
		line, err := machine.Describe(machine.Config{Kernel: g.Kernel.Path, QEMU: qemu})
		if err == nil { // if it fails, booting a guest fails with the same error
			machines = append(machines, line)
		}
		harness[g.Kernel.Arch] = matrix.Digest(program, line)
	}
	if release, err := kernelversion.Running(); err == nil {
		machines = append(machines, fmt.Sprintf("on Linux %s, %d CPUs", release, runtime.NumCPU()))
	}
	return harness, strings.Join(machines, ", "), nil
}

// lock locks a directory against a second run.
func lock(dir string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("another quark-matrix writes to %s: wait until it ends, or use another directory with -o", dir)
	}
	return func() { f.Close() }, nil
}
