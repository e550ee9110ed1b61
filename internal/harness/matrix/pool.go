package matrix

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
)

// Runner runs guests in parallel.
type Runner struct {
	Machine Machine
	Jobs    int    // number of parallel guests
	Dir     string // directory of the results; each guest has a directory below GuestsDir
	Cache   *Cache // nil: none
	Fresh   bool   // run cached guests, too

	Out io.Writer // receives a line when a guest begins, and when it ends

	mu sync.Mutex // guards Out
}

// GuestsDir is the directory of the guests' own directories, below the results.
const GuestsDir = "guests"

// ErrInterrupted is the cause of a context that a signal has ended.
var ErrInterrupted = errors.New("interrupted")

// Run runs the guests and returns their outcomes in the order of guests. If ctx ends or this
// machine has an error, it stops the running guests, and returns the cause of ctx or the first
// error with the outcomes so far.
func (r *Runner) Run(ctx context.Context, guests []Guest) ([]Outcome, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	digests := make(map[string]string) // digests of images, by path
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
		r.print(g.Name() + ": booting")
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
	r.print(o.line())
	return o, err
}

// print prints a line.
func (r *Runner) print(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintln(r.Out, line)
}

// line describes in one line how a guest ended.
func (o Outcome) line() string {
	passed, failed, skipped := Results{Guests: []Outcome{o}}.Count()
	line := fmt.Sprintf("%s: %s: %d passed, %d failed, %d skipped", o.Guest, o.State, passed, failed, skipped)
	if o.Cached {
		line += ", cached"
	} else {
		line += ", " + seconds(o.TotalMS) + " s"
	}
	if !o.State.Good() {
		line += ": " + o.Reason
	}
	return line
}
