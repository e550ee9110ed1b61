package main

import (
	"slices"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/backends/cnproc"
	"github.com/quark-linux/quark/backends/ebpf"
	"github.com/quark-linux/quark/backends/kprobe"
	"github.com/quark-linux/quark/internal/harness/testrun"
)

// shortHold is a HoldTime that keeps tests short and is still long enough for events
// of different CPUs to come into order on a busy machine.
const shortHold = 50 * time.Millisecond

// backend is that of a test which runs on one.
func (t *test) backend() string { return t.Cells[0].Backend }

// open opens a queue of the test's backend, which is closed with the test. A
// HoldTime of 0 is shortHold here.
func (t *test) open(opts quark.Options) *view {
	v, err := t.tryOpen(opts)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return v
}

// tryOpen is open where that may fail.
func (t *test) tryOpen(opts quark.Options) (*view, error) {
	v, err := openQueue(t.Cells[0], opts)
	if err == nil {
		t.views = append(t.views, v)
	}
	return v, err
}

// openEach opens a queue of each backend.
func (t *test) openEach(opts quark.Options) (opened []*view) {
	for _, c := range t.Cells {
		c.Try(func() {
			v, err := openQueue(c, opts)
			if err != nil {
				c.Fatalf("%v", err)
			}
			opened = append(opened, v)
		})
	}
	if len(opened) == 0 {
		t.Stop() // as it is over for each backend
	}
	t.views = append(t.views, opened...)
	return opened
}

func openQueue(c *testrun.Cell, opts quark.Options) (*view, error) {
	set, err := backends.Parse(c.Backend)
	if err != nil {
		c.Fatalf("%v", err)
	}
	opts.Backends, opts.Strict = set, true
	if opts.HoldTime == 0 {
		opts.HoldTime = shortHold
	}
	c.Waiting("the queue of " + c.Backend + " to open")
	begin := time.Now()
	q, err := quark.Open(opts)
	if err != nil {
		return nil, err
	}
	if c.Verbose >= 2 {
		c.Logf("opened in %v", time.Since(begin))
	}
	if types := q.Capabilities().Types; types != "" {
		c.Logf("the kernel's types are from %s", types)
	}
	v := &view{Cell: c, q: q, hold: opts.HoldTime}
	c.Cleanup(v.closeQueue)
	return v, nil
}

// close closes queues, which watch no longer. Shared ones stay open for others.
func (t *test) close(all ...*view) {
	for _, v := range all {
		if v.shared == nil {
			v.closeQueue()
		}
	}
	t.views = slices.DeleteFunc(t.views, func(v *view) bool { return slices.Contains(all, v) })
}

func (v *view) closeQueue() {
	v.Waiting("the queue of " + v.Backend + " to close")
	begin := time.Now()
	if err := v.q.Close(); err != nil {
		v.Errorf("close: %v", err)
	}
	if v.Verbose >= 2 {
		v.Logf("closed in %v", time.Since(begin))
	}
}

// The queues that tests have in common, by what they ask for in tests.go.
const (
	listening = "listening" // for tests that need a queue as anyone would open it
	joining   = "joining"   // for those of what is joined to one event because it happens within HoldTime
	singly    = "singly"    // for those that want events one by one, of threads too, or forgotten soon
	cramped   = "cramped"   // for those of what there is hardly any room for in the kernel
)

// shortGrace is how long the queues shared by the name singly know who has ended.
const shortGrace = 300 * time.Millisecond

// optionsOf are those of the queues shared by a name. Those of listening and joining know
// processes that have ended for as long as a slow machine may take to get to asking.
func optionsOf(name string) quark.Options {
	switch name {
	case singly:
		return quark.Options{HoldTime: shortHold, MinAgg: true, Threads: true, CacheGraceTime: shortGrace}
	case joining:
		return patient(firstHold())
	case cramped:
		return quark.Options{
			HoldTime: shortHold, MinAgg: true,
			EBPF:   ebpf.Options{RingSize: 8 << 10},
			KProbe: kprobe.Options{RingSize: 32 << 10},
			CNProc: cnproc.Options{ReceiveBuffer: 1}, // the least that the kernel takes
		}
	}
	return patient(shortHold)
}

func patient(hold time.Duration) quark.Options {
	return quark.Options{HoldTime: hold, CacheGraceTime: time.Hour}
}

// firstHold is the HoldTime to begin with: see tooSlow.
func firstHold() time.Duration {
	if inGuest() {
		return 250 * time.Millisecond // it may be emulated
	}
	return 150 * time.Millisecond
}

// sharedQueue is that of a backend for the tests that need no other and run in one
// process.
type sharedQueue struct {
	*view
	atOpen quark.Stats
}

// shared are those that could be opened, nil where nothing is shared.
var shared []*sharedQueue

// share opens them. The first wait makes a descriptor more, which is not to be taken
// for one that a test has left.
func share(frame *testrun.T, name string) {
	t := &test{T: frame}
	t.openEach(optionsOf(name))
	t.each(func(v *view) {
		s := &sharedQueue{v, v.stats()}
		if err := v.q.Block(0); err != nil {
			v.Fatalf("block: %v", err)
		}
		shared = append(shared, s)
	})
}

// watch has the queues watch that are shared by the name that tests.go has for the test,
// or ones like them where there are none because the test runs by itself.
func (t *test) watch() {
	if shared == nil {
		t.openEach(optionsOf(t.Test.Shared))
		return
	}
	for _, s := range shared {
		for _, c := range t.Cells {
			if c.Backend == s.Backend {
				t.views = append(t.views, &view{Cell: c, q: s.q, hold: s.hold, shared: s})
			}
		}
	}
}

// tooSlow reports whether what took so long since its process was forked took too much
// of HoldTime to be joined to one event for sure. How quick a machine is differs a lot, so
// the time is found by trying: there are new queues with more time then.
func (t *test) tooSlow(took time.Duration) bool {
	hold := t.awake().hold
	if t.Verbose >= 2 {
		t.Logf("took %v of a hold time of %v", took, hold)
	}
	if took <= hold/2 {
		return false
	}
	t.Logf("%v is too long for a hold time of %v", took, hold)
	t.close(slices.Clone(t.views)...)
	t.openEach(patient(max(2*hold, 4*took)))
	return true
}
