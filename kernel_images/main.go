package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/quark-linux/quark/internal/harness/catalogue"
	"github.com/quark-linux/quark/internal/harness/local"
	"github.com/quark-linux/quark/internal/harness/usercache"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	os.Exit(command(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// command runs the command and returns its exit status.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("kernel_images", flag.ContinueOnError)
	fs.SetOutput(stderr)
	var arches []string
	fs.Func("arch", "`architecture` of the kernels; may be repeated (all, but the default rows of this machine's only)", func(arch string) error {
		arches = append(arches, arch)
		return nil
	})
	dir := fs.String("d", "kernel_images", "`directory` to put the links in")
	list := fs.Bool("l", false, "list the catalogue")
	update := fs.Bool("u", false, "find the newest packages, and lock them")
	fs.Usage = func() {
		fmt.Fprintln(stderr, "usage: kernel_images [-lu] [-arch ARCH] [-d DIR] [NAME...]   (NAME may be a pattern; none: the default rows)")
		fs.PrintDefaults()
	}
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	fail := func(status int, err error) int {
		fmt.Fprintln(stderr, "kernel_images:", err)
		return status
	}

	rows, err := catalogue.Rows()
	if err != nil {
		return fail(1, err)
	}
	if *list {
		for _, r := range rows {
			fmt.Fprintf(stdout, "%-22s %-7s %-8s %-6s %s\n", r.Name, r.Series, r.Flavour, r.Arch, strings.Join(r.Suites, " "))
		}
		return 0
	}
	if len(arches) == 0 && fs.NArg() == 0 {
		arches = []string{runtime.GOARCH}
	}
	// Local kernels exist already.
	names := slices.DeleteFunc(fs.Args(), func(name string) bool { return strings.HasPrefix(name, local.Prefix) })
	if len(names) == 0 && fs.NArg() > 0 {
		return 0
	}
	selected, err := catalogue.Select(rows, arches, names)
	if err != nil {
		return fail(2, err)
	}
	rows = catalogue.Images(rows, selected)
	if st, err := os.Stat(*dir); err != nil || !st.IsDir() {
		return fail(1, fmt.Errorf("no directory %s: run this from the root of the repository, or choose a directory with -d", *dir))
	}
	c, err := openCache(usercache.Dir("kernels", filepath.Join(*dir, "cache")))
	if err != nil {
		return fail(1, err)
	}
	f := &fetcher{cache: c, say: func(format string, args ...any) { fmt.Fprintf(stderr, format+"\n", args...) }}
	if err := f.provide(ctx, rows, *dir, *update, stdout); err != nil {
		return fail(1, err)
	}
	return 0
}
