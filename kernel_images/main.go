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
	build := fs.Bool("b", false, "build the kernels from source that no package has, and their types in files beside them")
	fs.Usage = func() {
		fmt.Fprintln(stderr, "usage: kernel_images [-lu] [-arch ARCH] [-d DIR] [NAME...]   (NAME may be a pattern; none: the default rows)\n       kernel_images -b [-u] [-d DIR] NAME...\n       kernel_images -t DIR [-n N] [NAME]")
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
	if *build && fs.NArg() == 0 {
		return fail(2, errors.New("with -b names are wanted, of rows that are built"))
	}
	if len(arches) == 0 && fs.NArg() == 0 {
		arches = []string{runtime.GOARCH}
	}
	selected, err := catalogue.Select(rows, arches, fs.Args())
	if err != nil {
		return fail(2, err)
	}
	rows = catalogue.Images(rows, selected)
	if st, err := os.Stat(*dir); err != nil || !st.IsDir() {
		return fail(1, fmt.Errorf("no directory %s: run this from the root of the repository, or name one with -d", *dir))
	}
	c, err := openCache(usercache.Dir("kernels", filepath.Join(*dir, "cache")))
	if err != nil {
		return fail(1, err)
	}
	f := &fetcher{cache: c, say: say}
	inPackages := slices.DeleteFunc(slices.Clone(rows), func(r catalogue.Row) bool { return r.Built })
	if built := builtRows(rows, *build, fs.Args()); len(built) > 0 {
		if err := f.provideBuilt(ctx, built, *dir, *update, stdout); err != nil {
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

// builtRows returns those of the rows that are built. One that is not cached is built if all are to
// be (build), or if its name is among the names and not matched by a pattern only.
func builtRows(rows []catalogue.Row, build bool, names []string) (built []builtRow) {
	for _, r := range rows {
		i := slices.IndexFunc(recipes, func(c recipe) bool { return r.Name == c.name+"-"+c.arch })
		if !r.Built || i < 0 {
			continue
		}
		named := slices.Contains(names, r.Name) || slices.Contains(names, recipes[i].name)
		built = append(built, builtRow{recipes[i], build || named})
	}
	return built
}
