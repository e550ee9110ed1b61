package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/quark-linux/quark/internal/harness/catalogue"
)

// fetcher gets images into the cache and links them.
type fetcher struct {
	cache *cache
	lock  lock
	say   func(format string, args ...any)
}

// result is the image of a row, or the reason why there is none.
type result struct {
	pkg   Package
	image string // name in the cache
	sum   string
	how   string // where the image is from, in words
	err   error
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
	locked := maps.Clone(f.lock)
	if update {
		f.lock = nil
	}
	results := make(map[string]result)
	var wanted []catalogue.Row
	for _, r := range rows {
		res := f.cached(r.Name)
		if res.err == nil {
			results[r.Name] = res
			continue
		}
		if !errors.Is(res.err, os.ErrNotExist) {
			f.say("%s: %v; fetching it again", r.Name, res.err)
		}
		wanted = append(wanted, r)
	}
	if len(wanted) > 0 {
		f.fetch(ctx, wanted, results)
	}

	var first error
	for _, r := range rows {
		res, path := results[r.Name], filepath.Join(dir, r.Link())
		if res.err != nil {
			if old, err := os.Readlink(path); err == nil && f.good(filepath.Base(old)) {
				fmt.Fprintf(stdout, "%s: cached %s, sha256 ok; not refreshed: %v\n", r.Name, filepath.Base(old), res.err)
				continue
			}
			err := fmt.Errorf("%s: %w; no good image of it is cached", r.Name, res.err)
			if first == nil {
				first = err
			} else {
				f.say("kernel_images: %v", err)
			}
			continue
		}
		if err := link(f.cache.path(res.image), path); err != nil {
			return err
		}
		locked[r.Name] = Locked{res.pkg.Name, res.pkg.Version, res.sum}
		fmt.Fprintf(stdout, "%s: %s\n", r.Name, res.how)
	}
	if update {
		return errors.Join(first, locked.write(lockPath))
	}
	return first
}

func (f *fetcher) good(image string) bool {
	_, err := f.cache.verify(image)
	return err == nil
}

// cached returns the locked image of a row, or the one that replaces it, from the cache.
func (f *fetcher) cached(row string) (res result) {
	l, ok := f.lock[row]
	if !ok {
		return result{err: os.ErrNotExist}
	}
	res.pkg, res.how = l.pkg(), fmt.Sprintf("cached %s, sha256 ok", l.pkg())
	res.image = f.cache.replacement(l.pkg().image())
	res.sum, res.err = f.cache.verify(res.image)
	switch {
	case res.image != l.pkg().image():
		res.how = fmt.Sprintf("cached %s, sha256 ok, for the locked %s is gone", res.image, l.Version)
	case res.err == nil:
		res.err = f.lock.check(row, res.pkg, res.sum)
	}
	return res
}

// fetch caches the image of the package of each row, the locked one or else the newest. In each
// round it looks in the next suite of every row that has no image yet.
func (f *fetcher) fetch(ctx context.Context, rows []catalogue.Row, results map[string]result) {
	err := f.rounds(ctx, rows, results)
	for _, r := range rows {
		if _, ok := results[r.Name]; !ok || err != nil && results[r.Name].err != nil {
			results[r.Name] = result{err: cmp.Or(err, errors.New("none of its suites has a package of it"))}
		}
	}
}

func (f *fetcher) rounds(ctx context.Context, rows []catalogue.Row, results map[string]result) error {
	var arches []string
	for _, r := range rows {
		if !slices.Contains(arches, r.Arch) {
			arches = append(arches, r.Arch)
		}
	}
	a, err := newApt(ctx, arches...)
	if err != nil {
		return err
	}
	defer a.close()
	// The suites of this round and of those before: apt forgets the packages of suites that its
	// sources no longer list.
	var suites []string
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
			return a.uncovered(suites)
		}
		if a.uncovered(suites) != nil {
			continue
		}
		f.say("asking apt for the kernels of %v", suites)
		packages, err := a.kernels(ctx, suites...)
		if err != nil {
			return err
		}
		if err := f.round(ctx, a, pending, packages, results); err != nil {
			return err
		}
	}
}

// choice is a row with its packages, best first.
type choice struct {
	row      catalogue.Row
	packages []Package
}

// round gets the images of rows, a few at a time. A row without a package gets no result.
func (f *fetcher) round(ctx context.Context, a *apt, rows []catalogue.Row, packages []Package, results map[string]result) error {
	// Rows with the same best package are one job: the first row's image is in the cache when
	// the second one needs it.
	var jobs [][]choice
	total := 0
	for _, r := range rows {
		found, err := candidates(r, packages)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			continue
		}
		total++
		found, gone := f.lock.prefer(r.Name, found)
		if gone != "" {
			f.say("%s: the locked %s is gone from the archive: taking the newest of its series, %s", r.Name, gone, found[0])
		}
		i := slices.IndexFunc(jobs, func(j []choice) bool { return j[0].packages[0] == found[0] })
		if i < 0 {
			i, jobs = len(jobs), append(jobs, nil)
		}
		jobs[i] = append(jobs[i], choice{r, found})
	}
	var mu sync.Mutex
	done := 0
	parallel(jobs, func(job []choice) {
		for _, c := range job {
			begin := time.Now()
			res, cached := f.one(ctx, a, c)
			mu.Lock()
			results[c.row.Name] = res
			done++
			if res.err == nil && !cached {
				f.say("[%d/%d] %s: %s in %.1f s", done, total, c.row.Name, res.pkg, time.Since(begin).Seconds())
			}
			mu.Unlock()
		}
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// one gets the image of a row.
func (f *fetcher) one(ctx context.Context, a *apt, c choice) (res result, cached bool) {
	row := c.row.Name
	res.pkg, cached, res.err = a.first(ctx, c.packages, func(p Package) bool {
		var err error
		res.sum, err = f.cache.verify(p.image())
		return err == nil && f.lock.check(row, p, res.sum) == nil
	}, func(p Package, deb string) error {
		image, err := unpack(ctx, deb, imageFile)
		if err == nil {
			res.sum, err = f.cache.store(p.image(), image)
		}
		return err
	})
	if res.err == nil {
		res.err = f.lock.check(row, res.pkg, res.sum)
	}
	if res.err != nil {
		return res, cached
	}
	res.image, res.how = res.pkg.image(), "fetched "+res.pkg.String()
	if cached {
		res.how = fmt.Sprintf("cached %s, sha256 ok, the newest", res.pkg)
	}
	if l, ok := f.lock[row]; ok && !l.pkg().same(res.pkg) {
		res.how += fmt.Sprintf(", for the locked %s is gone", l.Version)
		res.err = f.cache.replace(l.pkg().image(), res.image)
	}
	return res, cached
}

// parallel calls f for each element, for a few at a time.
func parallel[T any](list []T, f func(T)) {
	const most = 3
	slots := make(chan bool, most)
	var workers sync.WaitGroup
	for _, e := range list {
		slots <- true
		workers.Go(func() {
			defer func() { <-slots }()
			f(e)
		})
	}
	workers.Wait()
}
