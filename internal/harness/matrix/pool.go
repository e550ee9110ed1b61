package matrix

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
)

// Runner runs guests side by side.
type Runner struct {
	Machine Machine
	Jobs    int    // guests at a time
	Dir     string // of the results; each guest has a directory of its own below GuestsDir
	Cache   *Cache // nil: none
	Fresh   bool   // run cached guests, too

	Display *Display // nil: none
}

// GuestsDir is the directory of the guests' own directories, below the results.
const GuestsDir = "guests"

// ErrInterrupted is the cause of the end of a context by a signal.
var ErrInterrupted = errors.New("interrupted")

// Run runs the guests and returns their outcomes in their order. When
// ctx ends, running guests are stopped, and its cause is returned with the outcomes that there are.
// So is the first error of this machine.
func (r *Runner) Run(ctx context.Context, guests []Guest) ([]Outcome, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	digests := make(map[string]string) // of images, by path
	for _, g := range guests {
		if digests[g.Image] != "" {
			continue
		}
		d, err := FileDigest(g.Image)
		if err != nil {
			return nil, fmt.Errorf("initramfs: %w ('make initramfs.gz' builds it)", err)
		}
		digests[g.Image] = d
	}
	outcomes := make([]*Outcome, len(guests))
	slots := make(chan bool, max(1, r.Jobs))
	var workers sync.WaitGroup
	for i := range guests {
		slots <- true
		workers.Go(func() {
			defer func() { <-slots }()
			if ctx.Err() != nil {
				return
			}
			o, err := r.guest(ctx, guests[i], digests[guests[i].Image])
			if err != nil {
				cancel(err)
				return
			}
			outcomes[i] = &o
		})
	}
	workers.Wait()

	var list []Outcome
	for _, o := range outcomes {
		if o != nil {
			list = append(list, *o)
		}
	}
	if ctx.Err() != nil {
		return list, context.Cause(ctx)
	}
	return list, nil
}

// guest returns the outcome of a guest, from the cache or a boot. image is the digest of
// its initramfs.
func (r *Runner) guest(ctx context.Context, g Guest, image string) (o Outcome, err error) {
	dir := filepath.Join(r.Dir, GuestsDir, g.Dir())
	key, cached := "", false
	if r.Cache != nil {
		key = r.Cache.Key(r.Machine, g, image)
		if !r.Fresh {
			if o, cached, err = r.Cache.Load(key, g, dir); err != nil {
				return o, err
			}
		}
	}
	if !cached {
		if r.Display != nil {
			r.Display.Begin(g.Name())
		}
		if o, err = r.Machine.Run(ctx, g, dir); err != nil {
			return o, err
		}
		if g.Part == PartCommand && len(o.Cells) == 1 {
			if o.Cells[0].Log, err = commandOutput(filepath.Join(dir, ConsoleFile)); err != nil {
				return o, err
			}
		}
		if r.Cache != nil {
			err = r.Cache.Store(key, o, dir)
		}
	}
	o.Log = filepath.ToSlash(filepath.Join(GuestsDir, g.Dir(), ConsoleFile))
	if r.Display != nil {
		r.Display.End(o)
	}
	return o, err
}
