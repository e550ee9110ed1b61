package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/quark-linux/quark/internal/harness/debian"
)

// archive caches what the machine's apt lists.
type archive struct {
	*debian.Apt
	found  []debian.Package        // kernels in the requested suites
	failed error                   // error of kernels; a retry would take long
	gone   map[debian.Package]bool // packages that the archive lists but does not have
}

func openArchive(ctx context.Context, say func(format string, args ...any), arches ...string) (*archive, error) {
	a, err := debian.New(ctx, say, arches...)
	if err != nil {
		return nil, err
	}
	return &archive{Apt: a, gone: make(map[debian.Package]bool)}, nil
}

// kernels returns the kernel packages in the requested suites and in all suites of earlier calls.
func (a *archive) kernels(ctx context.Context, suites ...string) ([]debian.Package, error) {
	if a.failed != nil {
		return nil, a.failed
	}
	fetched, err := a.Update(ctx, suites...)
	if err != nil {
		a.failed = err
		return nil, err
	}
	if !fetched {
		return a.found, nil
	}
	names, err := a.Names(ctx, "linux-")
	if err != nil {
		return nil, err
	}
	var kernels []string
	for _, name := range names {
		if m := kernelPackage.FindStringSubmatch(name); m != nil {
			kernels = append(kernels, name+":"+m[4])
		}
	}
	if len(kernels) > 0 {
		a.found, err = a.Show(ctx, kernels...)
	}
	return a.found, err
}

// maxTries limits the downloads for one kernel: an archive may list many packages that it no longer
// has.
const maxTries = 8

// firstUsable returns the firstUsable package that is cached or that can be downloaded and that use
// accepts. If use returns debian.ErrNoFile, the next package is tried.
func (a *archive) firstUsable(ctx context.Context, packages []debian.Package, have func(debian.Package) bool, use func(p debian.Package, deb string) error) (p debian.Package, had bool, err error) {
	err = errors.New("the archive lists its packages but lacks them")
	tried := 0
	for _, p = range packages {
		if have(p) {
			return p, true, nil
		}
		if a.gone[p] || tried == maxTries {
			continue
		}
		tried++
		var deb string
		if deb, err = a.Download(ctx, p); err == nil {
			err = use(p, deb)
			os.RemoveAll(filepath.Dir(deb))
		}
		if err == nil || ctx.Err() != nil || deb != "" && !errors.Is(err, debian.ErrNoFile) {
			return p, false, err
		}
		a.gone[p] = true
	}
	return p, false, err
}
