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
	os.Exit(command(ctx, os.Args[1:], os.Stderr))
}

// command runs the command and returns its exit status.
func command(ctx context.Context, args []string, stderr io.Writer) int {
	fs := flag.NewFlagSet("monitors", flag.ContinueOnError)
	fs.SetOutput(stderr)
	out := fs.String("o", "monitors.cpio.zst", "`file` to write")
	arch := fs.String("arch", runtime.GOARCH, "architecture of the guest, amd64 or arm64")
	update := fs.Bool("u", false, "build the archive again, from the current Debian packages")
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	if fs.NArg() > 0 {
		fmt.Fprintf(stderr, "monitors: unexpected operand %q\n", fs.Arg(0))
		return 2
	}
	if err := write(ctx, *out, *arch, *update, stderr); err != nil {
		fmt.Fprintln(stderr, "monitors:", err)
		return 1
	}
	return 0
}

// write writes the archive of an architecture, from the cache if possible.
func write(ctx context.Context, out, arch string, update bool, stderr io.Writer) error {
	cache, err := usercache.OpenFiles(usercache.Dir("monitors", "build/cache/monitors"))
	if err != nil {
		return err
	}
	release, err := debian.Release()
	if err != nil {
		return err
	}
	name := archiveName(release, arch)
	if _, err := cache.Verify(name); update || err != nil {
		content, err := build(ctx, release, arch, func(format string, args ...any) { fmt.Fprintf(stderr, format+"\n", args...) })
		if err == nil {
			_, err = cache.Store(name, content)
		}
		if err != nil {
			return err
		}
	}
	content, err := os.ReadFile(cache.Path(name))
	if err != nil {
		return err
	}
	return atomicfile.Write(out, content)
}
