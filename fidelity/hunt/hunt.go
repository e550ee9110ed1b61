package hunt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/fidelity/script"
)

// Options are the options of a hunt. The zero value hunts for ever with all backends, from seed 0.
type Options struct {
	Seed     uint64
	For      time.Duration // 0: until ctx ends
	Faults   bool          // of the monitor too
	Backends backends.Set  // 0: all that can be opened
	Hold     time.Duration // of the queues; 0 is 250 ms
	Dir      string        // where the script of a lie is written; "" is the working directory
	Batch    int           // scripts performed with the same queues; 0 is 200, in a guest 20
	Patience time.Duration // limits a batch and the delivery of its last events; 0 is 3 min
	Progress io.Writer     // a line every few seconds; nil for none
}

func (o *Options) setDefaults() {
	if o.Backends == 0 {
		o.Backends = backends.All
	}
	if o.Hold == 0 {
		o.Hold = 250 * time.Millisecond
	}
	if o.Batch == 0 {
		if o.Batch = 200; scenario.InGuest() {
			o.Batch = 20 // it may be emulated, with little time for the lives
		}
	}
	if o.Patience == 0 {
		o.Patience = 3 * time.Minute
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
}

// Report is what a hunt has done.
type Report struct {
	Took          time.Duration
	Lives, Events int // performed and judged
	Lost          uint64
	Operations    map[string]int // how often each was in a script
	Pairs         map[string]int // of operations that follow each other in a life
	Absent        []string       // backends that can't be opened, and why
	Found         *Finding       // nil if no lie was found
}

func (r *Report) String() string {
	lies := 0
	if r.Found != nil {
		lies = 1
	}
	names, pairs := script.All()
	return fmt.Sprintf("%.0f s: %.0f lives/s, %d lives, %d events judged, %d lost, %d lies; %d of %d operations, %d of %d pairs of them",
		r.Took.Seconds(), float64(r.Lives)/r.Took.Seconds(), r.Lives, r.Events, r.Lost, lies,
		len(r.Operations), len(names), len(r.Pairs), len(pairs))
}

// Missed returns the operations that no script had.
func (r *Report) Missed() []string {
	names, _ := script.All()
	return slices.DeleteFunc(names, func(name string) bool { return r.Operations[name] > 0 })
}

const progressEvery = 3 * time.Second

// Run hunts until a lie was found and shrunk, the time is over, or ctx ends. An error is one of the
// machinery. Nothing that it has made is left behind but the script of the lie.
func Run(ctx context.Context, o Options) (*Report, error) {
	o.setDefaults()
	if err := writable(o.Dir); err != nil {
		return nil, fmt.Errorf("the script of a lie could not be written: %w", err)
	}
	dir, err := os.MkdirTemp("", "quark-hunt-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if o.For != 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.For)
		defer cancel()
	}
	h := &hunter{Options: o, dir: dir}
	r := &Report{Operations: make(map[string]int), Pairs: make(map[string]int)}
	began, shown := time.Now(), time.Now()
	for batch := 0; ctx.Err() == nil && r.Found == nil; batch++ {
		scripts := make([]*script.Script, o.Batch)
		for i := range scripts {
			scripts[i] = script.Generate(rand.New(rand.NewPCG(o.Seed, uint64(batch*o.Batch+i))), script.Limits{})
			count(r.Operations, scripts[i].Operations())
			count(r.Pairs, scripts[i].Pairs())
		}
		var f Faults
		if o.Faults {
			f = randomFaults(rand.New(rand.NewPCG(^o.Seed, uint64(batch))))
		}
		got, err := h.try(o.Backends, scripts, f)
		if err != nil {
			return nil, err
		}
		r.Lives += got.Lives
		r.Events += got.Events
		r.Lost += got.Lost
		r.Absent, r.Took = got.Absent, time.Since(began)
		if len(got.Lies) > 0 {
			if r.Found, err = h.find(scripts, f, got.Lies[0], batch*o.Batch); err != nil {
				return nil, err
			}
		}
		if time.Since(shown) >= progressEvery || r.Found != nil {
			fmt.Fprintln(o.Progress, r)
			shown = time.Now()
		}
	}
	return r, nil
}

// writable returns why no file can be written into a directory, "" for the working directory.
func writable(dir string) error {
	f, err := os.CreateTemp(cmp.Or(dir, "."), ".quark-hunt-")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

func count(in map[string]int, names []string) {
	for _, n := range names {
		in[n]++
	}
}

// hunter performs scripts.
type hunter struct {
	Options
	dir string // of the scripts' files
}

// try performs scripts once.
func (h *hunter) try(set backends.Set, scripts []*script.Script, f Faults) (*result, error) {
	t := &trial{Backends: set, Hold: h.Hold, Patience: h.Patience, Faults: f}
	if err := t.write(h.dir, scripts); err != nil {
		return nil, err
	}
	return t.run()
}
