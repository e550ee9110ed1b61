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
		if err := surveyInto(ctx, *types, *each, fs.Arg(0), say); err != nil {
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
	f := &fetcher{cache: c, say: say, gone: make(map[Package]bool)}
	byApt := slices.DeleteFunc(slices.Clone(rows), func(r catalogue.Row) bool { return r.Built })
	if *build || len(byApt) < len(rows) {
		if err := f.provideBuilt(ctx, nobtf, *dir, *update, stdout); err != nil {
			return fail(1, err)
		}
	}
	if *build || len(byApt) == 0 {
		return 0
	}
	rows = byApt
	if err := f.provide(ctx, rows, *dir, *update, stdout); err != nil {
		return fail(1, err)
	}
	return 0
}

// surveyInto gets the types of kernels into dir.
func surveyInto(ctx context.Context, dir string, each int, pattern string, say func(string, ...any)) error {
	temp, err := os.MkdirTemp("", "quark-types-")
	if err != nil {
		return fmt.Errorf("make a temporary directory: %w", err)
	}
	defer os.RemoveAll(temp)
	s := &survey{types: &typesDir{dir}, each: each, pattern: pattern, say: say}
	return s.run(ctx, temp)
}

// provide gets the locked image of each row, from the cache or the network, and links it below dir.
// With update it gets and locks the newest one instead. It goes on after a row without an image,
// and returns the error of the first one.
func (f *fetcher) provide(ctx context.Context, rows []catalogue.Row, dir string, update bool, stdout io.Writer) error {
	lockPath := filepath.Join(dir, "lock.json")
	var err error
	if f.lock, err = readLock(lockPath); err != nil {
		return err
	}
	locked := f.lock
	if update {
		f.lock = lock{}
	}
	cached := make(map[string]Entry)
	var wanted []catalogue.Row
	for _, r := range rows {
		e, err := f.cache.load(r.Name)
		if err == nil {
			err = f.lock.check(e)
		}
		switch {
		case err == nil:
			cached[r.Name] = e
		case !errors.Is(err, os.ErrNotExist):
			f.say("%s: %v; fetching it again", r.Name, err)
		}
		if err != nil || update || !f.lock.admits(e) {
			// The locked image may be cached though the row has another one.
			if l, ok := f.lock[r.Name]; ok {
				if e, err := f.cache.adopt(l); err == nil && e.SHA256 == l.SHA256 {
					cached[r.Name] = e
					continue
				}
			}
			wanted = append(wanted, r)
		}
	}
	var fetched map[string]result
	if len(wanted) > 0 {
		fetched = f.fetch(ctx, wanted, cached)
	}

	var first error
	for _, r := range rows {
		e, ok := cached[r.Name]
		how := "cached %s, sha256 ok"
		if res, asked := fetched[r.Name]; asked {
			switch {
			case res.err == nil && res.current:
				how += ", the newest"
			case res.err == nil:
				e, ok, how = res.entry, true, "fetched %s"
			case ok:
				how += "; not refreshed: " + strings.ReplaceAll(res.err.Error(), "%", "%%")
			default:
				res.err = fmt.Errorf("%w; no good image of it is cached", res.err)
				if first == nil {
					first = fmt.Errorf("%s: %w", r.Name, res.err)
				} else {
					f.say("kernel_images: %s: %v", r.Name, res.err)
				}
				continue
			}
		}
		if e.InsteadOf != "" {
			how += ", for the locked " + e.InsteadOf + " is gone"
		}
		if err := f.cache.link(e, filepath.Join(dir, r.Link())); err != nil {
			return err
		}
		e.InsteadOf = ""
		locked[r.Name] = e
		fmt.Fprintf(stdout, "%s: "+how+"\n", r.Name, e)
	}
	if update {
		return errors.Join(first, locked.write(lockPath))
	}
	return first
}
