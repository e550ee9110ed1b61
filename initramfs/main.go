package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/quark-linux/quark/internal/atomicfile"
)

func main() {
	switch err := run(os.Args[1:], os.Stderr); {
	case err == nil:
	case errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "initramfs:", err)
		os.Exit(1)
	}
}

// errUsage marks a wrong command line; its message was printed already.
var errUsage = errors.New("usage")

func run(args []string, stderr io.Writer) error {
	fs := flag.NewFlagSet("initramfs", flag.ContinueOnError)
	fs.SetOutput(stderr)
	out := fs.String("o", "initramfs.gz", "`file` to write")
	arch := fs.String("arch", runtime.GOARCH, "architecture of the guest, amd64 or arm64")
	initPath := fs.String("init", "", "pid 1's `binary` (default build/ARCH/init)")
	var multi string
	var names []string
	fs.Func("multi", "a binary that is several commands, as `file=name,name`: it goes into /bin under each name", func(value string) error {
		path, list, ok := strings.Cut(value, "=")
		if !ok || path == "" || list == "" {
			return errors.New("want FILE=NAME,NAME")
		}
		multi, names = path, strings.Split(list, ",")
		return nil
	})
	var files []string
	fs.Func("file", "another `file`, for the root directory; may be given more than once", func(path string) error {
		files = append(files, path)
		return nil
	})
	fs.Usage = func() {
		fmt.Fprintln(stderr, "usage: initramfs [-o FILE] [-arch amd64|arm64] [-init FILE] [-multi FILE=NAME,NAME] [-file FILE] [BINARY...]")
		fs.PrintDefaults()
	}
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		return err
	} else if err != nil {
		return errUsage
	}
	if fs.NArg() == 0 && multi == "" {
		fs.Usage()
		return errUsage
	}
	if *initPath == "" {
		*initPath = filepath.Join("build", *arch, "init")
	}

	img := Image{Arch: *arch, Init: *initPath, Binaries: fs.Args(), Multi: multi, Names: names, Files: files}
	if err := atomicfile.Create(*out, img.Write); err != nil {
		return fmt.Errorf("write %s: %w", *out, err)
	}
	return nil
}
