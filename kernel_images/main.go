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
	update := fs.Bool("u", false, "look for newer packages than the locked ones, and lock those")
	types := fs.String("t", "", "get no images but the types (BTF) of many kernels into a `directory`; a NAME is a pattern of releases")
	each := fs.Int("n", 1, "with -t: `releases` of each suite, series, flavour and architecture")
	build := fs.Bool("b", false, "build the kernel without types from source, and its types in a file beside it")
	fs.Usage = func() {
		fmt.Fprintln(stderr, "usage: kernel_images [-lu] [-arch ARCH] [-d DIR] [NAME...]   (NAME may be a pattern; none: the default rows)\n       kernel_images -b [-u] [-d DIR]\n       kernel_images -t DIR [-n N] [NAME]")
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

	say := func(format string, args ...any) { fmt.Fprintf(stderr, format+"\n", args...) }
	if *types != "" {
		if fs.NArg() > 1 || *each < 1 {
			return fail(2, errors.New("with -t at most one pattern and a positive number are wanted"))
		}
		s := &survey{types: &typesDir{*types}, each: *each, pattern: fs.Arg(0), say: say}
		if err := s.run(ctx); err != nil {
			return fail(1, err)
		}
		return 0
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
	if *build && fs.NArg() > 0 {
		return fail(2, errors.New("with -b no name is wanted"))
	}
	if len(arches) == 0 && fs.NArg() == 0 {
		arches = []string{runtime.GOARCH}
	}
	if rows, err = catalogue.Select(rows, arches, fs.Args()); err != nil {
		return fail(2, err)
	}
	if st, err := os.Stat(*dir); err != nil || !st.IsDir() {
		return fail(1, fmt.Errorf("no directory %s: run this from the root of the repository, or name one with -d", *dir))
	}
	c, err := openCache(usercache.Dir("kernels", filepath.Join(*dir, "cache")))
	if err != nil {
		return fail(1, err)
	}
	f := &fetcher{cache: c, say: say}
	inPackages := slices.DeleteFunc(slices.Clone(rows), func(r catalogue.Row) bool { return r.Built })
	if *build || len(inPackages) < len(rows) {
		if err := f.provideBuilt(ctx, nobtf, *dir, *update, stdout); err != nil {
			return fail(1, err)
		}
	}
	if !*build && len(inPackages) > 0 {
		if err := f.provide(ctx, inPackages, *dir, *update, stdout); err != nil {
			return fail(1, err)
		}
	}
	return 0
}
