package fuzz

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/fidelity/script"
)

// Options are the options of a run. The zero value runs forever with all backends and seed 0.
type Options struct {
	Seed     uint64
	For      time.Duration // 0: until ctx ends
	Faults   bool          // include faults of the monitor
	Backends backends.Set  // 0: all that can be opened
	Hold     time.Duration // hold time of the queues; default 250 ms
	Dir      string        // for the script of a defect; "" is the working directory
	Batch    int           // scripts that share queues; default 200, in a guest 20
	Patience time.Duration // limits a batch and the delivery of its last events; default 3 min
	Progress io.Writer     // receives a line every few seconds; may be nil
	// Every is the interval between samples of the resident monitor, default 1 min. A run that
	// is too short for Grown's minimum of samples takes none.
	Every time.Duration
	// Rest is how long the resident monitor reads before a sample, so that ended processes
	// leave its tables. Default 4 s.
	Rest time.Duration
}

func (o *Options) setDefaults() {
	if o.Backends == 0 {
		o.Backends = backends.All
	}
	o.Hold = cmp.Or(o.Hold, 250*time.Millisecond)
	if o.Batch == 0 {
		if o.Batch = 200; scenario.InGuest() {
			o.Batch = 20 // a guest may be emulated and slow
		}
	}
	o.Patience = cmp.Or(o.Patience, 3*time.Minute)
	o.Every, o.Rest = cmp.Or(o.Every, time.Minute), cmp.Or(o.Rest, residentRest)
	if o.Progress == nil {
		o.Progress = io.Discard
	}
}

// Report is the result of a run.
type Report struct {
	Took              time.Duration
	Processes, Events int // processes run, events scored
	Lost              uint64
	Operations        map[string]int // number of uses in scripts
	Absent            []string       // backends that cannot be opened, with reasons
	Found             *Finding       // nil if there was no defect
	Samples           []Sample       // of the resident monitor
	Grown             []string       // results of Grown
}

func (r *Report) String() string {
	defects := 0
	if r.Found != nil {
		defects = 1
	}
	names := script.All()
	return fmt.Sprintf("%.0f s: %.0f processes/s, %d processes, %d events scored, %d lost, %d defects; %d of %d operations",
		r.Took.Seconds(), float64(r.Processes)/r.Took.Seconds(), r.Processes, r.Events, r.Lost, defects,
		len(r.Operations), len(names))
}

// Missed returns the operations that no script used.
func (r *Report) Missed() []string {
	return slices.DeleteFunc(script.All(), func(name string) bool { return r.Operations[name] > 0 })
}

const progressEvery = 3 * time.Second

// Run runs scripts until it has found and shrunk a defect, the time is over, or ctx ends. An error
// is a failure of the fuzzer itself. The only file left behind is the script of the defect.
func Run(ctx context.Context, o Options) (r *Report, err error) {
	o.setDefaults()
	if err := writable(o.Dir); err != nil {
		return nil, fmt.Errorf("write the script of a defect: %w", err)
	}
	dir, err := os.MkdirTemp("", "quark-fuzz-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var m *resident
	if o.For == 0 || o.For >= fewest*o.Every {
		if m, err = openResident(o.Backends, o.Rest); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, m.close()) }()
	}
	if o.For != 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.For)
		defer cancel()
	}
	f := &fuzzer{Options: o, dir: dir}
	r = &Report{Operations: make(map[string]int)}
	began, shown, sampled := time.Now(), time.Now(), time.Now()
	for batch := 0; ctx.Err() == nil && r.Found == nil; batch++ {
		if err := f.runBatch(r, batch); err != nil {
			return nil, err
		}
		r.Took = time.Since(began)
		if time.Since(shown) >= progressEvery || r.Found != nil {
			fmt.Fprintln(o.Progress, r)
			shown = time.Now()
		}
		if m != nil && r.Found == nil && time.Since(sampled) >= o.Every {
			values, err := m.sample()
			if err != nil {
				return nil, fmt.Errorf("sample the resident monitor: %w", err)
			}
			sampled = time.Now()
			r.Samples = append(r.Samples, Sample{After: time.Since(began), Values: values})
			fmt.Fprintln(o.Progress, &r.Samples[len(r.Samples)-1])
		}
	}
	r.Grown = Grown(r.Samples)
	return r, nil
}

// runBatch generates and runs a batch of scripts, and adds the results to the report.
func (f *fuzzer) runBatch(r *Report, batch int) error {
	scripts := make([]*script.Script, f.Batch)
	for i := range scripts {
		scripts[i] = script.Generate(rand.New(rand.NewPCG(f.Seed, uint64(batch*f.Batch+i))))
		for _, name := range scripts[i].Operations() {
			r.Operations[name]++
		}
	}
	var faults Faults
	if f.Faults {
		faults = randomFaults(rand.New(rand.NewPCG(^f.Seed, uint64(batch))))
	}
	got, err := f.runOnce(f.Backends, scripts, faults)
	if err != nil {
		return err
	}
	r.Processes += got.Processes
	r.Events += got.Events
	r.Lost += got.Lost
	r.Absent = got.Absent
	if len(got.Defects) > 0 {
		r.Found, err = f.shrinkDefect(scripts, faults, got.Defects[0], batch*f.Batch)
	}
	return err
}

// writable returns an error if no file can be created in a directory. "" is the working directory.
func writable(dir string) error {
	f, err := os.CreateTemp(cmp.Or(dir, "."), ".quark-fuzz-")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

type fuzzer struct {
	Options
	dir string // for script files
}

func (f *fuzzer) runOnce(set backends.Set, scripts []*script.Script, faults Faults) (*result, error) {
	t := &trial{Backends: set, Hold: f.Hold, Patience: f.Patience, Faults: faults}
	for i, s := range scripts {
		path := filepath.Join(f.dir, fmt.Sprint(i))
		if err := os.WriteFile(path, []byte(s.String()), 0o644); err != nil {
			return nil, err
		}
		t.Scripts = append(t.Scripts, path)
	}
	return t.run()
}
