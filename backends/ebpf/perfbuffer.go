package ebpf

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/features"

	"github.com/quark-linux/quark/backends/internal/perf"
	"github.com/quark-linux/quark/backends/source"
)

// perfObject is the same programs as object, compiled with programs/perfbuffer.h in place of
// ring.h.
//
//go:embed programs_perf_bpfel.o
var perfObject string

// mapWaking is a map of perfObject alone.
const mapWaking = "waking"

// needsPerf returns why records have to come through perf buffers, "" if they do not have to.
func needsPerf(o *Options) (why string) {
	if o.Buffer == source.BufferPerf {
		return "as the options say"
	}
	if err := haveRing(); errors.Is(err, ebpf.ErrNotSupported) {
		return "the kernel has no BPF ring buffer"
	}
	return ""
}

// haveRing is a variable for a test.
var haveRing = func() error { return features.HaveMapType(ebpf.RingBuf) }

// perfBuffers are the reader's end of perf's rings, one for each online CPU. The programs count
// their losses on a CPU without a ring.
type perfBuffers struct {
	silent, waking *ebpf.Map // of the programs: the events of perfCPU
	size           int       // of each ring, in bytes
	online         *perf.Online
	cpus           []*perfCPU
	note           func(string) // receives notes for the user

	looked bool   // the first records of all rings were looked at
	until  uint64 // when; one that is younger may not be the oldest
}

// perfCPU is the ring of a CPU and the two events that write to it.
type perfCPU struct {
	perf.CPU
	silent, waking *perf.Event // the first owns the ring and wakes when that fills up
	left           bool        // Offline was set at an earlier look
	crowded        bool        // as in ring
}

// openPerf makes rings for the CPUs that are online. The options have their total size.
func openPerf(silent, waking *ebpf.Map, o Options, note func(string)) (*perfBuffers, error) {
	b := &perfBuffers{silent: silent, waking: waking, note: note}
	if err := b.open(o); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *perfBuffers) open(o Options) (err error) {
	if b.online, err = perf.OpenOnline(); err != nil {
		return err
	}
	n := len(b.online.CPUs())
	all, err := ringSize(o, n)
	if err != nil {
		return err
	}
	if b.size, err = source.RingSize(max(all/n, 1), 0); err != nil {
		return err
	}
	for _, cpu := range b.online.CPUs() {
		if err := b.Add(cpu); err != nil && !errors.Is(err, perf.ErrNoCPU) {
			return err
		}
	}
	return nil
}

// Add makes the ring of a CPU, and the programs write to it.
func (b *perfBuffers) Add(number int) error {
	c := &perfCPU{CPU: perf.CPU{Number: number}}
	err := c.open(b.size)
	if err == nil {
		err = b.online.Watch(c.Ring.FD())
	}
	if err == nil {
		if err = errors.Join(c.place(b.waking, c.waking), c.place(b.silent, c.silent)); err != nil {
			err = fmt.Errorf("let programs write to the perf ring of CPU %d: %w", number, err)
		}
	}
	if err != nil {
		c.close()
		return err
	}
	b.cpus, b.looked = append(b.cpus, c), false
	return nil
}

func (c *perfCPU) open(size int) (err error) {
	if c.silent, err = perf.OpenOutput(c.Number, size/4); err != nil {
		return err
	}
	if c.Ring, err = perf.Map(c.silent, size); err != nil {
		return err
	}
	if c.waking, err = perf.OpenOutput(c.Number, 0); err != nil {
		return err
	}
	return c.waking.SetOutput(c.Ring)
}

func (c *perfCPU) place(in *ebpf.Map, e *perf.Event) error {
	return in.Update(uint32(c.Number), uint32(e.FD()), ebpf.UpdateAny)
}

func (c *perfCPU) close() error {
	var errs []error
	if c.Ring != nil {
		errs = append(errs, c.Ring.Close())
	}
	for _, e := range []*perf.Event{c.waking, c.silent} {
		if e != nil {
			errs = append(errs, e.Close())
		}
	}
	return errors.Join(errs...)
}

func (b *perfBuffers) FD() int { return b.online.FD() }

func (b *perfBuffers) look() { b.until, b.looked = perf.Look(b.cpus), true }

// next returns the oldest record of all rings.
func (b *perfBuffers) next() []byte {
	fresh := !b.looked
	if fresh {
		b.look()
	}
	for {
		c, ns, ok := perf.Oldest(b.cpus)
		if !fresh && (!ok || ns > b.until) {
			b.look()
			fresh = true
			continue
		}
		if !ok {
			b.looked = false
			return nil
		}
		record := c.next()
		c.Ring.Look()
		if record != nil {
			return record
		}
	}
}

// next reads a record, which is nil if it is none of the programs' events.
func (c *perfCPU) next() []byte {
	rec, ok, bad := c.Ring.Next()
	switch {
	case bad:
		return []byte{}
	case !ok || rec.Type != perf.RecordSample: // the programs have counted the lost ones
		return nil
	}
	record, err := perf.ParseOutput(rec.Body)
	switch {
	case err != nil:
		return []byte{}
	case len(record) == 0: // it was to wake the reader
		return nil
	}
	return record
}

func (b *perfBuffers) peek() (ns uint64, ok bool) {
	if !b.looked {
		b.look()
	}
	_, ns, ok = perf.Oldest(b.cpus)
	return ns, ok
}

// release also handles CPUs that went online or offline.
func (b *perfBuffers) release() {
	for _, c := range b.cpus {
		c.crowded = c.Ring.Release() > c.roomy() || c.crowded
	}
	perf.Follow(b.online, b.cpus, b)
	b.cpus = slices.DeleteFunc(b.cpus, func(c *perfCPU) bool {
		switch {
		case !c.Offline || c.Ring.Pending() > 0:
			return false
		case !c.left: // a program that began before it went may still write
			c.left = true
			return false
		}
		c.close() // the programs' map keeps the events, dead, until the CPU is back
		b.looked = false
		return true
	})
}

// roomy returns how full the ring can be, in bytes, and still have room for every record, after one
// of the kernel's about a loss.
func (c *perfCPU) roomy() int { return c.Ring.Size() - min(maxRecord+perfHeaders, c.Ring.Size()) }

// perfHeaders bounds what precedes the programs' bytes in a record, and a record of a loss.
const perfHeaders = 64

func (b *perfBuffers) pending(filling bool) bool {
	return slices.ContainsFunc(b.cpus, func(c *perfCPU) bool {
		if n := c.Ring.Pending(); filling {
			return n >= c.Ring.Size()/4
		} else {
			return n > 0
		}
	})
}

func (b *perfBuffers) fullSince(cpu int) uint64 {
	for _, c := range b.cpus {
		if c.Number == cpu && !c.Offline {
			return c.fullSince()
		}
	}
	return 0
}

// fullSince is to be called when all that was read is released.
func (c *perfCPU) fullSince() (since uint64) {
	if c.crowded {
		return 0
	}
	queued := c.Ring.Pending()
	limit := c.roomy()
	for ahead := c.Ring.Ahead(); queued-ahead.Pending() < limit; {
		ns, ok := ahead.Time()
		if !ok {
			break
		}
		if ahead.Next(); ns != 0 && queued-ahead.Pending() <= limit {
			since = ns
		}
	}
	return since - min(since, reorder)
}

func (b *perfBuffers) told() {
	for _, c := range b.cpus {
		c.crowded = false
	}
}

func (b *perfBuffers) err() error { return nil }

// Miss has no effect: the programs count the records that they have no ring for.
func (b *perfBuffers) Miss(int) {}

// Failed adds a note that events of a CPU are missing.
func (b *perfBuffers) Failed(number int, err error) {
	b.note(fmt.Sprintf("CPU %d came online and is not seen, what it loses is counted: %v", number, err))
}

func (b *perfBuffers) close() error {
	var errs []error
	for _, c := range b.cpus {
		errs = append(errs, c.close())
	}
	if b.online != nil {
		errs = append(errs, b.online.Close())
	}
	return errors.Join(errs...)
}
