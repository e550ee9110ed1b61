package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/quark-linux/quark/internal/atomicfile"
	"github.com/quark-linux/quark/internal/harness/debian"
	"github.com/quark-linux/quark/internal/harness/usercache"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	os.Exit(command(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// command runs the command and returns its exit status.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("monitors", flag.ContinueOnError)
	fs.SetOutput(stderr)
	out := fs.String("o", "monitors.cpio.zst", "`file` to write")
	arch := fs.String("arch", runtime.GOARCH, "architecture of the guest, amd64 or arm64")
	update := fs.Bool("u", false, "take the packages that the archive has now, not those of the last time")
	list := fs.Bool("l", false, "list the packages, with their versions")
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	if fs.NArg() > 0 {
		fmt.Fprintf(stderr, "monitors: unexpected operand %q\n", fs.Arg(0))
		return 2
	}
	m := &maker{arch: *arch, update: *update, say: func(format string, args ...any) { fmt.Fprintf(stderr, format+"\n", args...) }}
	err := m.make(ctx, *out)
	if err != nil {
		fmt.Fprintln(stderr, "monitors:", err)
		return 1
	}
	if *list {
		for _, p := range m.packages {
			fmt.Fprintln(stdout, p)
		}
	}
	return 0
}

// maker builds the archive for an architecture.
type maker struct {
	arch     string
	update   bool
	say      func(format string, args ...any)
	cache    *usercache.Files
	release  string
	packages []debian.Package // contents of the archive
}

func (m *maker) make(ctx context.Context, out string) (err error) {
	if m.cache, err = usercache.OpenFiles(usercache.Dir("monitors", "build/cache/monitors")); err != nil {
		return err
	}
	if m.release, err = debian.Release(); err != nil {
		return err
	}
	if err := m.resolve(ctx); err != nil {
		return err
	}
	name := m.archiveName()
	if _, err := m.cache.Verify(name); err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			m.say("%s: %v; making it again", name, err)
		}
		content, err := m.archive(ctx)
		if err == nil {
			_, err = m.cache.Store(name, content)
		}
		if err != nil {
			return err
		}
	}
	content, err := os.ReadFile(m.cache.Path(name))
	if err != nil {
		return err
	}
	return atomicfile.Write(out, content)
}
