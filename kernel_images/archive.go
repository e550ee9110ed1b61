package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/quark-linux/quark/internal/harness/debian"
)

// archive is the machine's apt, and the kernels found so far.
type archive struct {
	*debian.Apt
	found  []debian.Package        // kernels in the requested suites
	failed error                   // error of kernels, which is not retried, as it takes long
	gone   map[debian.Package]bool // packages that an archive lists but lacks
}

func openArchive(ctx context.Context, say func(format string, args ...any), arches ...string) (*archive, error) {
	a, err := debian.New(ctx, say, arches...)
	if err != nil {
		return nil, err
	}
	return &archive{Apt: a, gone: make(map[debian.Package]bool)}, nil
}

// kernels returns the kernel packages in the requested suites, including earlier ones.
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

// tries limits the packages to try for one kernel: an archive may list many packages that it no
// longer has.
const tries = 8

// first returns the first package that have reports as cached (had), or that can be downloaded and
// that use accepts. If use returns debian.ErrNoFile it tries the next package.
func (a *archive) first(ctx context.Context, packages []debian.Package, have func(debian.Package) bool, use func(p debian.Package, deb string) error) (p debian.Package, had bool, err error) {
	err = errors.New("the archive lists its packages but lacks them")
	tried := 0
	for _, p = range packages {
		if have(p) {
			return p, true, nil
		}
		if a.gone[p] || tried == tries {
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
