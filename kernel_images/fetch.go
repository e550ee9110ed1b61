package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"

	"github.com/quark-linux/quark/internal/harness/catalogue"
	"github.com/quark-linux/quark/internal/harness/debian"
)

// fetcher adds images to the cache and links them.
type fetcher struct {
	cache *cache
	lock  lock
	say   func(format string, args ...any)
}

// result is the image of a row, or the reason for its absence.
type result struct {
	pkg   debian.Package
	image string // name in the cache
	sum   string
	how   string // origin of the image, as text
	err   error
}

// provide gets the locked image of each row, from the cache or the network, and links it below dir.
// With update it gets and locks the newest image instead. It continues after a row without an
// image, and returns the first error.
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
	var arches, suites []string // architectures of uncached rows; suites to try first
	for _, r := range rows {
		res := f.cached(r.Name)
		if res.err != nil {
			arches = append(arches, r.Arch)
			suites = append(suites, r.Suites[0])
			if !errors.Is(res.err, os.ErrNotExist) {
				f.say("%s: %v; fetching it again", r.Name, res.err)
			}
		}
		results[r.Name] = res
	}
	var a *archive
	if len(arches) > 0 {
		if a, err = openArchive(ctx, f.say, arches...); err == nil {
			defer a.Close()
			if a.Uncovered(suites...) == nil {
				_, err = a.kernels(ctx, suites...) // all at once is faster
			}
		}
	}

	var first error
	for _, r := range rows {
		res, path := results[r.Name], filepath.Join(dir, r.Link())
		switch {
		case res.err == nil:
		case err != nil:
			res.err = err
		default:
			res = f.fetch(ctx, a, r)
		}
		if res.err != nil {
			if old, err := os.Readlink(path); err == nil && f.good(filepath.Base(old)) {
				fmt.Fprintf(stdout, "%s: cached %s, sha256 ok; not refreshed: %v\n", r.Name, filepath.Base(old), res.err)
				continue
			}
			err := fmt.Errorf("%s: %w; no valid image is cached", r.Name, res.err)
			if first == nil {
				first = err
			} else {
				f.say("kernel_images: %v", err)
			}
			continue
		}
		if err := link(f.cache.Path(res.image), path); err != nil {
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
	_, err := f.cache.Verify(image)
	return err == nil
}

// cached returns the locked image of a row, or its replacement, from the cache.
func (f *fetcher) cached(row string) (res result) {
	l, ok := f.lock[row]
	if !ok {
		return result{err: os.ErrNotExist}
	}
	res.pkg, res.how = l.pkg(), fmt.Sprintf("cached %s, sha256 ok", l.pkg())
	res.image = f.cache.replacement(imageOf(l.pkg()))
	res.sum, res.err = f.cache.Verify(res.image)
	switch {
	case res.image != imageOf(l.pkg()):
		res.how = fmt.Sprintf("cached %s, sha256 ok, for the locked %s is gone", res.image, l.Version)
	case res.err == nil:
		res.err = f.lock.check(row, res.pkg, res.sum)
	}
	return res
}

// fetch caches the image of a row's package, locked or else newest, from the first suite of the row
// that has the package.
func (f *fetcher) fetch(ctx context.Context, a *archive, r catalogue.Row) (res result) {
	res.err = a.Uncovered(r.Suites...)
	for _, suite := range r.Suites {
		if a.Uncovered(suite) != nil {
			continue
		}
		packages, err := a.kernels(ctx, suite)
		if err == nil {
			packages, err = candidates(r, packages)
		}
		switch {
		case err != nil:
			return result{err: err}
		case len(packages) > 0:
			if res = f.fetchFirst(ctx, a, r.Name, packages); res.err == nil || ctx.Err() != nil {
				return res
			}
		case res.err == nil:
			res.err = errors.New("no suite of the row has a package of this kernel")
		}
	}
	return res
}

// fetchFirst caches the image of the first available package, and tries the locked package first.
func (f *fetcher) fetchFirst(ctx context.Context, a *archive, row string, packages []debian.Package) (res result) {
	packages, gone := f.lock.prefer(row, packages)
	if gone != "" {
		f.say("%s: the locked %s is gone from the archive: taking the newest of its series, %s", row, gone, packages[0])
	}
	var cached bool
	res.pkg, cached, res.err = a.firstUsable(ctx, packages, func(p debian.Package) bool {
		var err error
		res.sum, err = f.cache.Verify(imageOf(p))
		return err == nil && f.lock.check(row, p, res.sum) == nil
	}, func(p debian.Package, deb string) error {
		image, err := debian.Find(ctx, deb, imageFile)
		if err == nil {
			res.sum, err = f.cache.Store(imageOf(p), image)
		}
		return err
	})
	if res.err == nil {
		res.err = f.lock.check(row, res.pkg, res.sum)
	}
	if res.err != nil {
		return res
	}
	res.image, res.how = imageOf(res.pkg), "fetched "+res.pkg.String()
	if cached {
		res.how = fmt.Sprintf("cached %s, sha256 ok, the newest", res.pkg)
	}
	if l, ok := f.lock[row]; ok && !l.pkg().Same(res.pkg) {
		res.how += fmt.Sprintf(", for the locked %s is gone", l.Version)
		res.err = f.cache.replace(imageOf(l.pkg()), res.image)
	}
	return res
}
