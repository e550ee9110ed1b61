package main

import (
	"slices"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/backends/cnproc"
	"github.com/quark-linux/quark/backends/ebpf"
	"github.com/quark-linux/quark/backends/kprobe"
	"github.com/quark-linux/quark/fidelity/recorder"
	"github.com/quark-linux/quark/fidelity/scenario"
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
	opts.Threads = opts.Threads && backends.ReportsThreads(c.Backend)
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
	v := &view{Cell: c, q: q}
	c.Cleanup(v.closeQueue)
	return v, nil
}

// close takes queues out of the test. Shared ones stay open.
func (t *test) close(all ...*view) {
	for _, v := range all {
		if !v.shared {
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
	defaultQueue = "default" // single and joined, which are the witnesses of scenarios too
	tinyBuffers  = "tiny"    // with hardly any room in the kernel
)

// The kinds of queues beside tinyBuffers.
const (
	single = "single" // reports events one by one, of threads too
	joined = "joined" // joins events
)

// joinedHold is the HoldTime of the queue that joins events: the life of a short
// process takes less than half of it, also where machines are emulated.
const joinedHold = 150 * time.Millisecond

// options returns the options of the queues of a kind.
func options(kind string) quark.Options {
	switch kind {
	case single:
		return quark.Options{HoldTime: shortHold, MinAgg: true, Threads: true, CacheGraceTime: 300 * time.Millisecond}
	case joined:
		// It knows processes that have ended for as long as a slow machine may take to ask
		// for them.
		return quark.Options{HoldTime: joinedHold, CacheGraceTime: time.Hour}
	}
	return quark.Options{
		HoldTime: shortHold, MinAgg: true,
		EBPF:   ebpf.Options{RingSize: 8 << 10},
		KProbe: kprobe.Options{RingSize: 32 << 10},
		CNProc: cnproc.Options{ReceiveBuffer: 1}, // the least that the kernel takes
		Audit:  quark.AuditOptions{ReceiveBuffer: 1},
	}
}

// fixture is what the tests of one process share.
type fixture struct {
	queues    map[string][]*view // by kind, without backends that could not be opened
	witnesses []*recorder.Recorder
	early     map[string]*scenario.Running // scenarios that began before the queues
}

var shared fixture

// share opens the queues of a name.
func share(fixture *testrun.T, name string) {
	t := &test{T: fixture}
	shared.queues = make(map[string][]*view)
	if name == tinyBuffers {
		t.shareQueues(tinyBuffers)
		return
	}
	t.startEarly()
	t.shareQueues(single)
	t.shareQueues(joined)
	shared.witnesses = witnessesOf(shared.queues[single], shared.queues[joined])
}

// shareQueues opens a queue of each backend.
func (t *test) shareQueues(kind string) {
	t.views = nil
	t.openEach(options(kind))
	t.each(func(v *view) {
		v.atOpen = v.stats()
		// The first wait makes a descriptor more, which no test shall seem to have left.
		if err := v.q.Block(0); err != nil {
			v.Fatalf("block: %v", err)
		}
		shared.queues[kind] = append(shared.queues[kind], v)
	})
}

// watch lets the test use the shared queues of a kind, or ones like them where the test runs by
// itself.
func (t *test) watch(kind string) {
	if shared.queues[kind] == nil {
		for _, v := range t.openEach(options(kind)) {
			v.atOpen = v.stats()
		}
	}
	for _, s := range shared.queues[kind] {
		if c := t.cell(s.Backend); c != nil {
			t.views = append(t.views, &view{Cell: c, q: s.q, shared: true, atOpen: s.atOpen})
		}
	}
	t.mark()
}
