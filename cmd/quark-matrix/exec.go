package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quark-linux/quark/internal/harness/catalogue"
	"github.com/quark-linux/quark/internal/harness/gotest"
	"github.com/quark-linux/quark/internal/harness/matrix"
	"github.com/quark-linux/quark/internal/harness/record"
)

// execVerb returns the verb that runs a test binary in a guest. go test -exec calls the verb in the
// package's directory. The exit status is that of the binary, or noReportStatus if the guest
// failed.
func execVerb() (*cobra.Command, verb) {
	c := &cobra.Command{Use: "exec --kernel KERNEL [options] BINARY [ARGUMENT...]", Short: "run a test binary in a guest, for go test -exec", Args: cobra.ArbitraryArgs}
	f := c.Flags()
	f.SetInterspersed(false) // options after BINARY belong to the binary
	kernel := f.String("kernel", "", "kernel to boot, a name of the catalogue")
	arch := f.String("arch", runtime.GOARCH, "architecture of the kernel")
	initramfs := f.String("initramfs", "", "initramfs (initramfs.gz or initramfs-ARCH.gz at the module's root)")
	images := f.String("images", "", "directory of the kernels' images (kernel_images at the module's root)")
	env := f.StringArrayP("env", "e", nil, "set NAME=VALUE in the binary's environment; may be repeated")
	words := f.String("append", "", "additional kernel parameters, such as audit=1")
	hidden := f.Bool("hide-btf", false, "hide the kernel's types")
	return c, func(ctx context.Context, operands []string, stdout io.Writer) (int, error) {
		if len(operands) == 0 || *kernel == "" {
			return unusable, fmt.Errorf("%w: exec needs --kernel NAME and a test binary, which go test -exec appends", errUsage)
		}
		dir, err := os.Getwd()
		if err != nil {
			return unusable, err
		}
		root, err := moduleRoot(dir)
		if err != nil {
			return unusable, err
		}
		*images = cmp.Or(*images, filepath.Join(root, "kernel_images"))
		*initramfs = cmp.Or(*initramfs, filepath.Join(root, defaultInitramfs(*arch)))
		k, err := oneKernel(*images, *arch, *kernel)
		if err != nil {
			return unusable, err
		}
		testArgs, timeout, err := guestArgs(operands[1:])
		if err != nil {
			return unusable, err
		}
		pkg, err := filepath.Rel(root, dir)
		if err != nil {
			return unusable, err
		}
		temp, err := os.MkdirTemp("", "quark-guest-")
		if err != nil {
			return unusable, err
		}
		defer os.RemoveAll(temp)
		image := filepath.Join(temp, "image")
		if err := writeGoImage(image, *initramfs, gotest.Run{
			Binaries: []gotest.Binary{{Path: operands[0], Dir: dir, Package: pkg}},
			Exec:     true, Merge: sameFile(os.Stdout, os.Stderr), Args: testArgs, Env: append(guestEnv(os.Environ()), *env...),
		}); err != nil {
			return unusable, err
		}

		g := matrix.Guest{Kernel: k, BTF: matrix.BTFPresent, Part: matrix.PartCommand, Packages: []string{"./" + pkg}, Append: strings.Fields(*words), Command: []string{gotest.Command}, Image: image}
		switch {
		case *hidden:
			g.BTF = matrix.BTFHidden
		case k.BTFFile != "":
			g.BTF = matrix.BTFFile
		}
		m := matrix.Machine{Test: timeout, Output: func(o record.Output) {
			if o.FD == 2 {
				os.Stderr.Write(o.Data)
			} else {
				stdout.Write(o.Data)
			}
		}}
		o, err := m.Run(ctx, g, temp)
		if err != nil {
			return unusable, err
		}
		if o.State == record.Pass || o.State == record.Fail && o.End != nil && o.End.Error == "" {
			return o.End.Status, nil
		}
		fmt.Fprintf(os.Stderr, "quark-matrix: guest %s: %s: %s; the end of its console:\n", o.Guest, o.State, o.Reason)
		for _, line := range lastLines(filepath.Join(temp, matrix.ConsoleFile), 40) {
			fmt.Fprintln(os.Stderr, "|", line)
		}
		return noReportStatus, nil
	}
}

// moduleRoot returns the directory of the module's go.mod.
func moduleRoot(dir string) (string, error) {
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(filepath.Join(d, "go.mod")); err == nil {
			return d, nil
		}
		if d == filepath.Dir(d) {
			return "", fmt.Errorf("no go.mod in %s or above: run exec in quark's repository", dir)
		}
	}
}

func defaultInitramfs(arch string) string {
	if arch == runtime.GOARCH {
		return "initramfs.gz"
	}
	return "initramfs-" + arch + ".gz"
}

func oneKernel(images, arch, name string) (matrix.Kernel, error) {
	rows, err := catalogue.Rows()
	if err != nil {
		return matrix.Kernel{}, err
	}
	kernels, err := matrix.FindKernels(images, rows, []string{arch}, []string{name})
	if err != nil {
		return matrix.Kernel{}, err
	}
	if len(kernels) != 1 {
		return matrix.Kernel{}, fmt.Errorf("%w: --kernel %q: matches %d kernels, want one", errUsage, name, len(kernels))
	}
	return kernels[0], nil
}

// graceTime is added to the test binary's time limit, for the boot and for printing goroutines
// after a timeout.
const graceTime = 2 * time.Minute

// guestArgs returns the binary's arguments in a guest, and the guest's time limit. Arguments for
// profiles are errors, because exec copies no files from the guest.
func guestArgs(args []string) (list []string, limit time.Duration, err error) {
	limit = time.Hour
	for _, a := range args {
		name, value, _ := strings.Cut(strings.TrimPrefix(a, "-"), "=")
		switch name {
		case "-test.testlogfile", "test.testlogfile", "test.gocoverdir":
			continue // the go command writes files for the test cache and coverage
		case "test.coverprofile", "test.cpuprofile", "test.memprofile", "test.blockprofile", "test.mutexprofile", "test.trace":
			return nil, 0, fmt.Errorf("%s: exec copies no files from the guest", a)
		case "test.timeout":
			if d, err := time.ParseDuration(value); err == nil && d > 0 {
				limit = d + graceTime
			}
		}
		list = append(list, a)
	}
	return list, limit, nil
}

// guestEnv returns the variables in environ that the test binary reads.
func guestEnv(environ []string) (list []string) {
	for _, e := range environ {
		name, _, _ := strings.Cut(e, "=")
		switch {
		case name == "QUARK_INITRAMFS", name == "QUARK_RESULTS": // set by init
		case strings.HasPrefix(name, "QUARK_"), name == "GODEBUG", name == "GOTRACEBACK", name == "GOGC", name == "GOMAXPROCS":
			list = append(list, e)
		}
	}
	return list
}

func sameFile(a, b *os.File) bool {
	x, err1 := a.Stat()
	y, err2 := b.Stat()
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}

// lastLines returns the last n lines of a file.
func lastLines(path string, n int) []string {
	b, err := os.ReadFile(path)
	if err != nil {
		return []string{err.Error()}
	}
	lines := strings.Split(strings.TrimRight(string(bytes.ToValidUTF8(b, []byte("?"))), "\n"), "\n")
	return lines[max(0, len(lines)-n):]
}

// writeGoImage writes an initramfs: base, and the test binaries of run.
func writeGoImage(path, base string, run gotest.Run) error {
	in, err := os.Open(base)
	if err != nil {
		return fmt.Errorf("initramfs: %w ('make initramfs.gz' builds it)", err)
	}
	defer in.Close()
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(gotest.Append(out, in, run), out.Close())
}
