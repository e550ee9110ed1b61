// Command mkbtfhub builds the archive of kernels' types in package btfhub.
//
//	go run ./btfhub/mkbtfhub [DIR|IMAGE...]
//
// Each DIR has the layout of btfhub-archive: distro/version/arch/release.btf, compressed as
// .tar.xz, .xz, .zst or .gz or not at all. Each IMAGE is a kernel image with types. mkbtfhub keeps
// the other kernels of the existing archive, without members that quark no longer reads. Members
// that quark has begun to read are added only for kernels among the operands.
//
// Run 'make btfhub' in the root of the repository.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/quark-linux/quark/btfhub"
	"github.com/quark-linux/quark/btfhub/ingest"
)

func main() {
	const programs = "*/programs_*bpfel.o backends/*/programs_*bpfel.o" // compiled eBPF objects
	if err := run("btfhub/archive.bin", "btfhub/members.txt", programs, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mkbtfhub:", err)
		os.Exit(1)
	}
}

// run writes the archive of the kernels in dirs, and the list of the members that the programs
// read.
func run(out, list, programs string, dirs []string) error {
	objects, err := match(programs)
	if err != nil {
		return err
	}
	members, err := writeMembers(list, objects)
	if err != nil {
		return err
	}
	m := maker{members: btfhub.NeededFor(members), taken: make(map[string]bool)}
	for _, dir := range dirs {
		kernels, err := ingest.Kernels(dir)
		if err != nil {
			return err
		}
		for _, k := range kernels {
			e, types, err := k.Load()
			if e.Release == "" {
				e.Release = k.Path
			}
			m.add(e, types, err)
		}
	}
	old, err := os.ReadFile(out)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil {
		if err := m.addOld(old); err != nil {
			return fmt.Errorf("%s: %w: remove it to build a new one", out, err)
		}
	}
	return m.write(out, old)
}

// match returns the files that patterns match.
func match(patterns string) (files []string, err error) {
	for pattern := range strings.FieldsSeq(patterns) {
		names, err := filepath.Glob(pattern)
		if err != nil {
			return nil, fmt.Errorf("pattern %s: %w", pattern, err)
		}
		files = append(files, names...)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no compiled eBPF program matches %s: run it in the root of the repository", patterns)
	}
	return files, nil
}

// writeMembers returns the members that compiled programs relocate against, and writes them to a
// file.
func writeMembers(path string, objects []string) ([]string, error) {
	var all []string
	for _, name := range objects {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		members, err := ingest.ProgramMembers(bytes.NewReader(data))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, members...)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return all, os.WriteFile(path, []byte(strings.Join(all, "\n")+"\n"), 0o644)
}

// maker builds an archive.
type maker struct {
	members []string
	archive btfhub.Builder
	taken   map[string]bool // kernels added so far, by release and architecture
	kept    int             // kernels kept from the existing archive
	skipped int             // kernels with unsuitable types
}

// add adds a kernel, or prints why it is skipped.
func (m *maker) add(e btfhub.Entry, types *btf.Spec, err error) {
	var raw []byte
	if err == nil {
		raw, err = ingest.Reduce(types, m.members)
	}
	if err == nil {
		err = m.archive.Add(e, raw)
	}
	if err != nil {
		m.skipped++
		fmt.Fprintf(os.Stderr, "%s: left out: %v\n", e.Release, err)
		return
	}
	m.taken[e.Release+" "+e.Arch] = true
}

// addOld adds the kernels of the existing archive that are in no directory.
func (m *maker) addOld(old []byte) error {
	a, err := btfhub.ReadArchive(old)
	if err != nil {
		return err
	}
	for _, e := range a.Kernels() {
		if m.taken[e.Release+" "+e.Arch] {
			continue
		}
		types, err := a.Types(e)
		m.add(e, types, err)
		m.kept++
	}
	return nil
}

// write writes the archive, if it changed, and describes its contents.
func (m *maker) write(out string, old []byte) error {
	data, err := m.archive.Marshal()
	if err != nil {
		return err
	}
	a, err := btfhub.ReadArchive(data)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %d kernels with %d different types in %d bytes, %d of them from the archive before, %d kernels left out\n",
		out, len(a.Kernels()), a.Blobs(), len(data), m.kept, m.skipped)
	if bytes.Equal(old, data) {
		return nil
	}
	return os.WriteFile(out, data, 0o644)
}
