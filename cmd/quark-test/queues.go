package main

import (
	"slices"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/backends/cnproc"
	"github.com/quark-linux/quark/backends/ebpf"
	"github.com/quark-linux/quark/backends/kprobe"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/fidelity/witness"
	"github.com/quark-linux/quark/internal/harness/testrun"
)

// shortHold is a HoldTime that keeps tests short, and is long enough to put events of
// different CPUs in order on a busy machine.
const shortHold = 50 * time.Millisecond

// backend returns the backend of a test that runs on one.
func (t *test) backend() string { return t.Cells[0].Backend }

// open opens a queue of the test's backend, which the end of the test closes. A HoldTime
// of 0 is shortHold here.
func (t *test) open(opts quark.Options) *view {
	v, err := t.tryOpen(opts)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return v
}

// tryOpen does what open does, where that may fail.
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

// close takes queues out of the test. Shared ones stay open.
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

// The queues that tests share, by the names that tests.go has.
const (
	defaultQueue = "default" // as anyone would open them, and the witnesses of scenarios
	tinyBuffers  = "tiny"    // with hardly any room in the kernel
)

const (
	// shortGrace is how long the queue that reports events one by one knows who ended.
	shortGrace = 300 * time.Millisecond
	// joinedHold is the HoldTime of the queue that joins events: the life of a short
	// process takes less than half of it, also where machines are emulated.
	joinedHold = 150 * time.Millisecond
)

// single are the options of the queue that reports events one by one, of threads too.
func single() quark.Options {
	return quark.Options{HoldTime: shortHold, MinAgg: true, Threads: true, CacheGraceTime: shortGrace}
}

// joined are the options of the queue that joins events. It knows processes that have
// ended for as long as a slow machine may take to ask for them.
func joined() quark.Options {
	return quark.Options{HoldTime: joinedHold, CacheGraceTime: time.Hour}
}

func tiny() quark.Options {
	return quark.Options{
		HoldTime: shortHold, MinAgg: true,
		EBPF:   ebpf.Options{RingSize: 8 << 10},
		KProbe: kprobe.Options{RingSize: 32 << 10},
		CNProc: cnproc.Options{ReceiveBuffer: 1}, // the least that the kernel takes
	}
}

// sharedQueue is one that outlives a test.
type sharedQueue struct {
	*view
	atOpen quark.Stats
}

// fixture is what the tests of one process share. Its fields are nil where nothing is
// shared, and lack backends that could not be opened.
type fixture struct {
	joined, single, tiny []*sharedQueue
	witnesses            []*witness.Witness
	early                map[string]*scenario.Running // scenarios that began before the queues
}

var shared fixture

// share opens the queues of a name.
func share(frame *testrun.T, name string) {
	t := &test{T: frame}
	if name == tinyBuffers {
		shared.tiny = t.shareQueues(tiny())
		return
	}
	t.startEarly()
	singles, joineds := t.shareQueues(single()), t.shareQueues(joined())
	shared.single, shared.joined = singles, joineds
	shared.witnesses = witnessesOf(viewsOf(singles), viewsOf(joineds))
}

func viewsOf(queues []*sharedQueue) (list []*view) {
	for _, s := range queues {
		list = append(list, s.view)
	}
	return list
}

// shareQueues opens a queue of each backend.
func (t *test) shareQueues(opts quark.Options) (list []*sharedQueue) {
	t.views = nil
	t.openEach(opts)
	t.each(func(v *view) {
		s := &sharedQueue{v, v.stats()}
		// The first wait makes a descriptor more, which no test shall seem to have left.
		if err := v.q.Block(0); err != nil {
			v.Fatalf("block: %v", err)
		}
		list = append(list, s)
	})
	return list
}

// watch lets the test use the shared queues that join events.
func (t *test) watch() { t.use(shared.joined, joined()) }

// watchSingle lets the test use the shared queues that report events one by one.
func (t *test) watchSingle() { t.use(shared.single, single()) }

// watchTiny lets the test use the shared queues with hardly any room in the kernel.
func (t *test) watchTiny() { t.use(shared.tiny, tiny()) }

// use lets the test use queues, or ones like them where the test runs by itself.
func (t *test) use(queues []*sharedQueue, opts quark.Options) {
	if queues == nil {
		t.openEach(opts)
		return
	}
	for _, s := range queues {
		for _, c := range t.Cells {
			if c.Backend == s.Backend {
				t.views = append(t.views, &view{Cell: c, q: s.q, hold: s.hold, shared: s})
			}
		}
	}
}
