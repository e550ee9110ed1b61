package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/quark-linux/quark/btfhub"
	"github.com/quark-linux/quark/btfhub/ingest"
)

func main() {
	out := flag.String("o", "btfhub/archive.bin", "archive to `write`")
	list := flag.String("m", "btfhub/members.txt", "list of the programs' members to write")
	programs := flag.String("p", "*/programs_*_bpfel.o backends/*/programs_*_bpfel.o", "`patterns` of the compiled eBPF programs")
	flag.Parse()
	if err := run(*out, *list, *programs, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "mkbtfhub:", err)
		os.Exit(1)
	}
}

func run(out, list, programs string, dirs []string) error {
	var objects []string
	for pattern := range strings.FieldsSeq(programs) {
		names, err := filepath.Glob(pattern)
		if err != nil {
			return fmt.Errorf("pattern %s: %w", pattern, err)
		}
		objects = append(objects, names...)
	}
	if len(objects) == 0 {
		return fmt.Errorf("no compiled eBPF program matches %s: start this from the root of the repository", programs)
	}
	members, err := writeMembers(list, objects)
	if err != nil {
		return err
	}
	members = btfhub.NeededFor(members)
	var b btfhub.Builder
	var left int
	for _, dir := range dirs {
		kernels, err := ingest.Kernels(dir)
		if err != nil {
			return err
		}
		for _, k := range kernels {
			raw, err := k.Types(members)
			if err == nil {
				err = b.Add(k.Entry, raw)
			}
			if err != nil {
				left++
				fmt.Fprintf(os.Stderr, "%s: left out: %v\n", k.Release, err)
			}
		}
	}
	return write(out, &b, left)
}

// write writes the archive, if it is another than before, and says what is in it.
func write(out string, b *btfhub.Builder, left int) error {
	data, err := b.Marshal()
	if err != nil {
		return err
	}
	a, err := btfhub.ReadArchive(data)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %d kernels with %d different types in %d bytes, %d kernels left out\n",
		out, len(a.Kernels()), a.Blobs(), len(data), left)
	old, err := os.ReadFile(out)
	if err == nil && bytes.Equal(old, data) {
		return nil
	}
	if before, err := btfhub.ReadArchive(old); err == nil {
		for _, e := range before.Kernels() {
			if _, exact, err := a.Lookup(e.Release, e.Arch); err != nil || !exact {
				fmt.Fprintf(os.Stderr, "%s (%s): was in the archive and is in none of the directories\n", e.Release, e.Arch)
			}
		}
	}
	return os.WriteFile(out, data, 0o644)
}
