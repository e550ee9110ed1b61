package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/quark-linux/quark/internal/harness/catalogue"
)

// tries bounds the packages of a row that are tried in each of its suites: an archive may list
// packages that it no longer has.
const tries = 3

// downloads is the number of packages that are downloaded at a time.
const downloads = 3

// fetcher gets images into the cache.
type fetcher struct {
	cache *cache
	lock  lock
	say   func(format string, args ...any)

	mu   sync.Mutex       // of gone, and of the results of a round
	gone map[Package]bool // packages that a suite lists and does not have
}

// result is the entry of a row, or the reason why there is none.
type result struct {
	entry   Entry
	current bool // the cached image is the newest
	err     error
}

// fetch finds the package of each row, the locked one or else the newest, and caches its image.
// known has the rows with a good cached image; their packages are not fetched again. All other
// files are in a temporary directory, which it removes.
func (f *fetcher) fetch(ctx context.Context, rows []catalogue.Row, known map[string]Entry) map[string]result {
	results := make(map[string]result)
	err := f.fetchInto(ctx, results, rows, known)
	for _, r := range rows {
		if res, ok := results[r.Name]; ok && (res.err == nil || err == nil) {
			continue
		}
		why := err
		if why == nil {
			why = errors.New("none of its suites has a package of it")
		}
		results[r.Name] = result{err: why}
	}
	return results
}

// fetchInto fills results. In each round it looks in the next suite of every row that has no image
// yet.
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
	// The suites of this round and of those before: apt forgets the packages of suites that its
	// sources no longer list.
	var suites []string
	uncovered := true
	for round := 0; ; round++ {
		var pending []catalogue.Row
		for _, r := range rows {
			if res, ok := results[r.Name]; ok && res.err == nil || round >= len(r.Suites) {
				continue
			}
			pending = append(pending, r)
			if s := r.Suites[round]; !slices.Contains(suites, s) {
				suites = append(suites, s)
			}
		}
		if len(pending) == 0 {
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
			return err
		}
		if err := f.round(ctx, a, results, pending, packages, known); err != nil {
			return err
		}
	}
	if uncovered {
		return errors.New("apt's sources name no archive that has the rows' suites")
	}
	return nil
}

// round gets the images of rows, a few at a time. A row without a package gets no result.
func (f *fetcher) round(ctx context.Context, a *apt, results map[string]result, rows []catalogue.Row, packages []Package, known map[string]Entry) error {
	// Rows with the same package are one job: the first row's image is in the cache when the
	// second one needs it.
	jobs := make(map[Package][]catalogue.Row)
	choice := make(map[string][]Package)
	for _, r := range rows {
		found, err := candidates(r, packages, olderVersion)
		if err != nil {
			return err
		}
		// A later suite does not have a package that an earlier one lists and does not
		// have.
		found = slices.DeleteFunc(found, func(p Package) bool { return f.gone[p] })
		if len(found) == 0 {
			continue
		}
		found, gone := f.lock.prefer(r.Name, found)
		if gone != "" {
			f.say("%s: the locked %s is gone from the archive: taking the newest of its series, %s %s", r.Name, gone, found[0].Name, found[0].Version)
		}
		choice[r.Name] = found[:min(tries, len(found))]
		jobs[found[0]] = append(jobs[found[0]], r)
	}
	slots := make(chan bool, downloads)
	var workers sync.WaitGroup
	done, total := 0, len(choice)
	for _, r := range rows { // in the catalogue's order
		c := choice[r.Name]
		if len(c) == 0 || jobs[c[0]] == nil {
			continue
		}
		job := jobs[c[0]]
		delete(jobs, c[0])
		slots <- true
		workers.Go(func() {
			defer func() { <-slots }()
			for _, r := range job {
				begin := time.Now()
				res := f.one(ctx, a, r, choice[r.Name], known)
				f.mu.Lock()
				results[r.Name] = res
				done++
				if res.err == nil && !res.current {
					f.say("[%d/%d] %s: %s in %.1f s", done, total, r.Name, res.entry, time.Since(begin).Seconds())
				}
				f.mu.Unlock()
			}
		})
	}
	workers.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// one gets the image of a row from the first of its packages that the archive has.
func (f *fetcher) one(ctx context.Context, a *apt, r catalogue.Row, packages []Package, known map[string]Entry) result {
	var last error
	for i, p := range packages {
		if e, ok := known[r.Name]; ok && e.Package == p.Name && e.Version == p.Version {
			return result{entry: e, current: true}
		}
		e := Entry{Name: r.Name, Package: p.Name, Version: p.Version, Release: p.release(), DebSHA256: p.SHA256, InsteadOf: f.lock.insteadOf(r.Name, p)}
		if cached, err := f.cache.adopt(e); err == nil {
			return result{entry: cached, err: f.lock.check(cached)}
		}
		if i > 0 {
			f.say("%s: trying the next-newest, %s %s", r.Name, p.Name, p.Version)
		}
		files, err := a.download(ctx, []Package{p})
		if ctx.Err() != nil {
			return result{err: context.Cause(ctx)}
		}
		deb, ok := files[p]
		if !ok {
			last = err
			f.mu.Lock()
			f.gone[p] = true
			f.mu.Unlock()
			continue
		}
		kept, err := f.cache.store(e, func(w io.Writer) error { return extractImage(ctx, deb, w) })
		os.Remove(deb)
		if errors.Is(err, errNoImage) {
			last = err // the next-newest may have one
			continue
		}
		if err == nil {
			err = f.lock.check(kept)
		}
		return result{entry: kept, err: err}
	}
	return result{err: last}
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
