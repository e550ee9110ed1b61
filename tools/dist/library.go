package main

import (
	"cmp"
	"debug/elf"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// library is what a shared library says of itself and of those that it needs.
type library struct {
	soname   string
	versions []string // in rpm's words, as libc.so.6(GLIBC_2.34)(64bit)
	glibc    []string // the versions of glibc's symbols, as 2.34
}

// libraries returns the shared ones of a tree, of those that has wants.
func (t tree) libraries(has func(name string) bool) (libraries []library, err error) {
	for _, f := range t {
		if f.mode.IsDir() || f.link != "" || !has(f.name) || !sharedLibrary(f.name) {
			continue
		}
		l, err := readLibrary(f.path)
		if err != nil {
			return nil, fmt.Errorf("read what %s needs: %w", f.name, err)
		}
		libraries = append(libraries, l)
	}
	return libraries, nil
}

func readLibrary(path string) (l library, err error) {
	f, err := elf.Open(path)
	if err != nil {
		return l, err
	}
	defer f.Close()
	sonames, err := f.DynString(elf.DT_SONAME)
	if err != nil {
		return l, err
	}
	if len(sonames) != 1 {
		return l, fmt.Errorf("it has %d names", len(sonames))
	}
	l.soname = sonames[0]
	needs, err := f.DynamicVersionNeeds()
	if err != nil {
		return l, err
	}
	for _, need := range needs {
		for _, v := range need.Needs {
			l.versions = append(l.versions, need.Name+"("+v.Dep+")(64bit)")
			if number, ok := strings.CutPrefix(v.Dep, "GLIBC_"); ok {
				l.glibc = append(l.glibc, number)
			}
		}
	}
	slices.Sort(l.versions)
	if len(l.glibc) == 0 {
		return l, fmt.Errorf("it needs no version of glibc")
	}
	return l, nil
}

// newestGlibc returns the version of glibc that has all symbols that the libraries need.
func newestGlibc(libraries []library) (newest string) {
	for _, l := range libraries {
		for _, v := range l.glibc {
			if newest == "" || slices.CompareFunc(strings.Split(v, "."), strings.Split(newest, "."), compareNumbers) > 0 {
				newest = v
			}
		}
	}
	return newest
}

// compareNumbers compares parts of versions of glibc, which are numbers.
func compareNumbers(a, b string) int {
	x, _ := strconv.Atoi(a)
	y, _ := strconv.Atoi(b)
	return cmp.Compare(x, y)
}
