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

// perfObject is the same programs as object, compiled with programs/perfbuffer.h instead of ring.h.
//
//go:embed programs_perf_bpfel.o
var perfObject string

// mapWaking is the name of a map that only perfObject has.
const mapWaking = "waking"

// perfReason returns the reason to use perf buffers, or "" to use the ring.
func perfReason(o *Options) (why string) {
	if o.Buffer == source.BufferPerf {
		return "the options request it"
	}
	if err := haveRing(); errors.Is(err, ebpf.ErrNotSupported) {
		return "the kernel has no BPF ring buffer"
	}
	return ""
}

// haveRing is a variable so that a test can change it.
var haveRing = func() error { return features.HaveMapType(ebpf.RingBuf) }

// perfBuffers reads perf's rings, one for each online CPU. On a CPU without a ring, the programs
// count their records as lost.
type perfBuffers struct {
	silent, waking *ebpf.Map // maps of the programs, for the events of perfCPU
	size           int       // of each ring, in bytes
	online         *perf.Online
	cpus           []*perfCPU
	note           func(string) // receives notes for the user

	looked bool   // readTimes was called, and until is valid
	until  uint64 // time of that call: a later record may not be the oldest
}

// perfCPU is the ring of a CPU and the two events that write to it.
type perfCPU struct {
	perf.CPU
	silent, waking *perf.Event // silent owns the ring, and wakes the reader if it fills up
	left           bool        // Offline was set at an earlier release
	crowded        bool        // as in ring
}

// openPerf opens rings for the online CPUs. The options have the rings' total size.
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

// Add opens the ring of a CPU, and lets the programs write to it.
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

func (b *perfBuffers) readTimes() { b.until, b.looked = perf.Look(b.cpus), true }

// next returns the oldest record of all rings.
func (b *perfBuffers) next() []byte {
	fresh := !b.looked
	if fresh {
		b.readTimes()
	}
	for {
		c, ns, ok := perf.Oldest(b.cpus)
		if !fresh && (!ok || ns > b.until) {
			b.readTimes()
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

// next reads a record. It returns nil if the programs did not write the record.
func (c *perfCPU) next() []byte {
	rec, ok, bad := c.Ring.Next()
	switch {
	case bad:
		return []byte{}
	case !ok || rec.Type != perf.RecordSample: // the programs have counted lost records
		return nil
	}
	record, err := perf.ParseOutput(rec.Body)
	switch {
	case err != nil:
		return []byte{}
	case len(record) == 0: // its only purpose was to wake the reader
		return nil
	}
	return record
}

func (b *perfBuffers) peek() (ns uint64, ok bool) {
	if !b.looked {
		b.readTimes()
	}
	_, ns, ok = perf.Oldest(b.cpus)
	return ns, ok
}

// release also handles CPUs that went online or offline.
func (b *perfBuffers) release() {
	for _, c := range b.cpus {
		c.crowded = c.Ring.Release() > c.maxFill() || c.crowded
	}
	perf.Follow(b.online, b.cpus, b)
	b.cpus = slices.DeleteFunc(b.cpus, func(c *perfCPU) bool {
		switch {
		case !c.Offline || c.Ring.Pending() > 0:
			return false
		case !c.left: // a program that ran when the CPU went offline may still write
			c.left = true
			return false
		}
		c.close() // the programs' map keeps the closed events until the CPU is online again
		b.looked = false
		return true
	})
}

// maxFill returns the number of bytes that the ring may hold while it still has room for any
// record, and for the kernel's lost-record in front of it.
func (c *perfCPU) maxFill() int { return c.Ring.Size() - min(maxRecord+perfHeaders, c.Ring.Size()) }

// perfHeaders bounds the size of the headers in a record and of a lost-record.
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

// fullSince must be called after all records that were read are released.
func (c *perfCPU) fullSince() (since uint64) {
	if c.crowded {
		return 0
	}
	queued := c.Ring.Pending()
	limit := c.maxFill()
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

func (b *perfBuffers) markReported() {
	for _, c := range b.cpus {
		c.crowded = false
	}
}

func (b *perfBuffers) err() error { return nil }

// Miss has no effect: the programs count the records for which there is no ring.
func (b *perfBuffers) Miss(int) {}

// Failed adds a note that events of a CPU are missing.
func (b *perfBuffers) Failed(number int, err error) {
	b.note(fmt.Sprintf("CPU %d came online without a ring, its events are counted as lost: %v", number, err))
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
