package matrix

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// Runner runs guests side by side.
type Runner struct {
	Machine Machine
	Jobs    int    // guests at a time; each takes one core of the host
	Dir     string // for the results; each guest has a directory of its own below "guests"
	Cache   *Cache // nil: none
	Fresh   bool   // run what is cached, too

	// Tell hears what guests are at, Done how each ended; both are called by many goroutines,
	// one at a time. They may be nil.
	Tell func(Progress)
	Done func(Outcome)
}

// GuestsDir is where the guests' own directories are, below that of the results.
const GuestsDir = "guests"

// Run runs the guests, longest first, and returns their outcomes in the order of the guests. When
// ctx ends, what runs is stopped, and its cause is returned with the outcomes there are; so is the
// first error of this machine.
func (r *Runner) Run(ctx context.Context, guests []Guest) ([]Outcome, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	digests := make(map[string]string)
	for _, g := range guests {
		if _, ok := digests[g.Image]; !ok {
			d, err := FileDigest(g.Image)
			if err != nil {
				return nil, fmt.Errorf("initramfs: %w ('make initramfs.gz' builds it)", err)
			}
			digests[g.Image] = d
		}
	}
	var mu sync.Mutex // of Tell and Done
	outcomes := make([]*Outcome, len(guests))
	finished := func(i int, o Outcome) {
		mu.Lock()
		defer mu.Unlock()
		o.Log = filepath.ToSlash(filepath.Join(GuestsDir, guests[i].Dir(), ConsoleFile))
		outcomes[i] = &o
		if r.Done != nil {
			r.Done(o)
		}
	}
	tell := func(p Progress) {
		mu.Lock()
		defer mu.Unlock()
		if r.Tell != nil {
			r.Tell(p)
		}
	}

	one := func(i int) error {
		g := guests[i]
		dir := filepath.Join(r.Dir, GuestsDir, g.Dir())
		key := ""
		if r.Cache != nil {
			key = r.Cache.Key(r.Machine, g, digests[g.Image])
			if !r.Fresh {
				if o, ok, err := r.Cache.Load(key, g, dir); err != nil {
					return err
				} else if ok {
					finished(i, o)
					return nil
				}
			}
		}
		tell(Progress{Guest: g.Name(), At: "booting"})
		o, err := r.Machine.Run(ctx, g, dir, tell)
		if err != nil {
			return err
		}
		if g.Part == PartCommand && len(o.Cells) == 1 {
			if o.Cells[0].Log, err = readOutput(filepath.Join(dir, ConsoleFile)); err != nil {
				return err
			}
		}
		finished(i, o)
		if r.Cache != nil {
			return r.Cache.Store(key, o, dir)
		}
		return nil
	}

	var took map[string]int64
	if r.Cache != nil {
		took = r.Cache.Durations()
	}
	queue := make(chan int)
	var workers sync.WaitGroup
	for range max(1, min(r.Jobs, len(guests))) {
		workers.Go(func() {
			for i := range queue {
				if err := one(i); err != nil {
					cancel(err)
				}
			}
		})
	}
feed:
	for _, i := range longestFirst(guests, took) {
		select {
		case queue <- i:
		case <-ctx.Done():
			break feed
		}
	}
	close(queue)
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
	if r.Cache != nil {
		if err := r.Cache.Remember(list); err != nil {
			return list, fmt.Errorf("keep the guests' durations: %w", err)
		}
	}
	return list, nil
}

func readOutput(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return commandOutput(f)
}

// ErrInterrupted is the cause of the end of a context by a signal.
var ErrInterrupted = errors.New("interrupted")
