package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const usage = `usage: dist -version V -time SECONDS -arch ARCH -o FILE tar TREE
       dist ... [-part PART] deb TREE
       dist ... [-part PART] rpm TREE
       dist ... sbom TREE
       dist -version V -time SECONDS -o FILE image ARCH=TREE...
       dist -o FILE sums FILE...
       dist unpack IMAGE ARCH DIR

TREE is a directory that make install has filled, or make install-library. PART
is libquark or libquark-dev, of the latter. unpack puts the files of an
image into DIR.

`

// release is what all parts of a release have in common.
type release struct {
	version string // by semver.org, with a v
	time    time.Time
	arch    string // by Go's name
	part    string // which of parts
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	var r release
	f := flag.NewFlagSet("dist", flag.ContinueOnError)
	f.Usage = func() {
		fmt.Fprint(f.Output(), usage)
		f.PrintDefaults()
	}
	f.StringVar(&r.version, "version", "", "the `version`, as v1.2.3")
	f.StringVar(&r.arch, "arch", "", "the `architecture`: amd64 or arm64")
	f.StringVar(&r.part, "part", "quark", "the `part` of the tree that is packed")
	epoch := f.Int64("time", 0, "the time of all files, in `seconds` since 1970")
	output := f.String("o", "", "the `file` to make")
	if err := f.Parse(args); err != nil {
		return err
	}
	r.time = time.Unix(*epoch, 0).UTC()
	verb, operands := f.Arg(0), f.Args()
	if len(operands) > 0 {
		operands = operands[1:]
	}
	if verb == "unpack" {
		if len(operands) != 3 {
			return errors.New("unpack: IMAGE, ARCH and DIR are wanted")
		}
		return unpackImage(operands[0], operands[1], operands[2])
	}
	if verb != "sums" && (r.version == "" || *epoch == 0) {
		return errors.New("-version and -time are wanted: the release has them from its commit")
	}
	if _, ok := parts[r.part]; !ok {
		return fmt.Errorf("-part %s: quark, libquark or libquark-dev", r.part)
	}
	ofTree := map[string]func(tree, io.Writer) error{"tar": r.tarball, "deb": r.deb, "rpm": r.rpm, "sbom": r.sbom}
	var write func(io.Writer) error
	switch {
	case *output == "":
		return errors.New("-o FILE is wanted")
	case verb == "image" && len(operands) > 0:
		write = func(w io.Writer) error { return r.image(operands, w) }
	case verb == "sums" && len(operands) > 0:
		write = func(w io.Writer) error { return sums(operands, w) }
	case ofTree[verb] != nil && len(operands) == 1 && r.arch != "":
		t, err := readTree(operands[0])
		if err != nil {
			return err
		}
		write = func(w io.Writer) error { return ofTree[verb](t, w) }
	default:
		f.Usage()
		return fmt.Errorf("cannot %q of these arguments", strings.Join(f.Args(), " "))
	}
	return create(*output, write)
}

// create makes a file, wholly or not at all.
func create(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	err = errors.Join(write(f), f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("make %s: %w", path, err)
	}
	return nil
}
