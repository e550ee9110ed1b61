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

	// Tell reports what a guest does, Done how it ended. Goroutines call them one at a time.
	// They may be nil.
	Tell func(Progress)
	Done func(Outcome)
}

// GuestsDir is the directory of the guests' own directories, below that of the results.
const GuestsDir = "guests"

// ErrInterrupted is the cause of the end of a context by a signal.
var ErrInterrupted = errors.New("interrupted")

// run is one call of Run.
type run struct {
	*Runner
	digests map[string]string // of images, by path
	mu      sync.Mutex        // of Tell and Done
}

// Run runs the guests, longest first, and returns their outcomes in the order of the guests. When
// ctx ends, running guests are stopped, and its cause is returned with the outcomes that there are.
// So is the first error of this machine.
func (r *Runner) Run(ctx context.Context, guests []Guest) ([]Outcome, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a := run{Runner: r, digests: make(map[string]string)}
	for _, g := range guests {
		if a.digests[g.Image] != "" {
			continue
		}
		d, err := FileDigest(g.Image)
		if err != nil {
			return nil, fmt.Errorf("initramfs: %w ('make initramfs.gz' builds it)", err)
		}
		a.digests[g.Image] = d
	}
	outcomes := make([]*Outcome, len(guests))
	slots := make(chan bool, max(1, r.Jobs))
	var workers sync.WaitGroup
	for _, i := range longestFirst(guests) {
		slots <- true
		workers.Go(func() {
			defer func() { <-slots }()
			if ctx.Err() != nil {
				return
			}
			o, err := a.guest(ctx, guests[i])
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

// guest returns the outcome of a guest: the cached one, or that of a boot.
func (r *run) guest(ctx context.Context, g Guest) (o Outcome, err error) {
	dir := filepath.Join(r.Dir, GuestsDir, g.Dir())
	key, cached := "", false
	if r.Cache != nil {
		key = r.Cache.Key(r.Machine, g, r.digests[g.Image])
		if !r.Fresh {
			if o, cached, err = r.Cache.Load(key, g, dir); err != nil {
				return o, err
			}
		}
	}
	if !cached {
		r.tell(Progress{Guest: g.Name(), At: "booting"})
		if o, err = r.Machine.Run(ctx, g, dir, r.tell); err != nil {
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
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Done != nil {
		r.Done(o)
	}
	return o, err
}

func (r *run) tell(p Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Tell != nil {
		r.Tell(p)
	}
}
