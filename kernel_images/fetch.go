package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/quark-linux/quark/kernel_images/catalogue"
)

// tries is how many packages of a row are tried, newest first: an archive may list what it no longer has.
const tries = 3

// fetcher gets images into the cache.
type fetcher struct {
	cache *cache
	say   func(format string, args ...any)
}

// result of a row: its entry, or why there is none.
type result struct {
	entry   Entry
	current bool // the cached image is the newest
	err     error
}

// fetch finds the newest package of each row and caches its image. known has the rows whose image is cached and good; such
// a one is not fetched again. A temporary directory holds all else and is removed.
func (f *fetcher) fetch(ctx context.Context, rows []catalogue.Row, known map[string]Entry) map[string]result {
	results := make(map[string]result)
	err := f.fetchInto(ctx, results, rows, known)
	for _, r := range rows {
		if _, ok := results[r.Name]; ok {
			continue
		}
		if err == nil {
			err = errors.New("none of its suites has a package of it")
		}
		results[r.Name] = result{err: err}
	}
	return results
}

func (f *fetcher) fetchInto(ctx context.Context, results map[string]result, rows []catalogue.Row, known map[string]Entry) error {
	if err := checkTools(); err != nil {
		return err
	}
	from, err := systemArchives(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "quark-kernels-")
	if err != nil {
		return fmt.Errorf("make a temporary directory: %w", err)
	}
	defer os.RemoveAll(dir)
	a, err := newApt(ctx, dir, archesOf(rows))
	if err != nil {
		return err
	}

	found, err := f.resolve(ctx, a, from, rows)
	if err != nil {
		return err
	}
	var lastErr error
	for try := range tries {
		want := make(map[string]Package)
		var packages []Package
		for _, r := range rows {
			if _, done := results[r.Name]; done || try >= len(found[r.Name]) {
				continue
			}
			p := found[r.Name][try]
			if e, ok := known[r.Name]; ok && e.Package == p.Name && e.Version == p.Version {
				results[r.Name] = result{entry: e, current: true}
				continue
			}
			if try > 0 {
				f.say("%s: trying the next-newest, %s %s", r.Name, p.Name, p.Version)
			}
			want[r.Name] = p
			if !slices.Contains(packages, p) {
				packages = append(packages, p)
			}
		}
		if len(packages) == 0 {
			continue
		}
		files, err := a.download(ctx, packages)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			lastErr = err
		}
		for name, p := range want {
			if deb, ok := files[p]; ok {
				e, err := f.keep(ctx, name, p, deb)
				if errors.Is(err, errNoImage) {
					lastErr = err // the next-newest may have one
					continue
				}
				results[name] = result{entry: e, err: err}
			}
		}
		for _, deb := range files {
			os.Remove(deb)
		}
	}
	return lastErr
}

// resolve finds the packages of each row, going on to a row's next suite while none had any.
func (f *fetcher) resolve(ctx context.Context, a *apt, from archives, rows []catalogue.Row) (map[string][]Package, error) {
	found := make(map[string][]Package)
	uncovered := true
	for round := 0; ; round++ {
		var suites []string
		more := false
		for _, r := range rows {
			if len(found[r.Name]) > 0 || round >= len(r.Suites) {
				continue
			}
			more = true
			if s := r.Suites[round]; !slices.Contains(suites, s) {
				suites = append(suites, s)
			}
		}
		if !more {
			break
		}
		list, covered := from.sourcesList(suites, a.arches)
		if len(covered) == 0 {
			continue
		}
		uncovered = false
		f.say("asking apt for the kernels of %v", covered)
		packages, err := a.packages(ctx, list)
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			if len(found[r.Name]) > 0 || round >= len(r.Suites) {
				continue
			}
			c, err := candidates(r, packages, olderVersion)
			if err != nil {
				return nil, err
			}
			found[r.Name] = c
		}
	}
	if uncovered {
		return nil, errors.New("apt's sources name no archive that has the rows' suites")
	}
	return found, nil
}

// keep takes the image out of a package into the cache.
func (f *fetcher) keep(ctx context.Context, row string, p Package, deb string) (Entry, error) {
	e := Entry{Name: row, Package: p.Name, Version: p.Version, Release: p.release(), DebSHA256: p.SHA256}
	return f.cache.store(e, func(w io.Writer) error { return extractImage(ctx, deb, w) })
}

func archesOf(rows []catalogue.Row) []string {
	var arches []string
	for _, r := range rows {
		if !slices.Contains(arches, r.Arch) {
			arches = append(arches, r.Arch)
		}
	}
	return arches
}
