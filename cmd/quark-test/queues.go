package main

import (
	"slices"
	"testing"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/fidelity/recorder"
	"github.com/quark-linux/quark/fidelity/scenario"
)

// shortHold is a HoldTime that keeps tests short, but is long enough to order the events of
// different CPUs on a busy machine.
const shortHold = 50 * time.Millisecond

// openEach opens a queue of each backend, and closes it at the end of the test. A HoldTime of 0
// means shortHold.
func (t *test) openEach(opts quark.Options) []*view {
	opened := t.openAll(opts)
	for _, v := range opened {
		t.Cleanup(v.closeQueue)
	}
	t.views = append(t.views, opened...)
	return opened
}

// openAll opens a queue of each backend.
func (t *test) openAll(opts quark.Options) (opened []*view) {
	for _, c := range t.cells {
		c.try(func() {
			v, err := openQueue(c, opts)
			if err != nil {
				c.Fatalf("%v", err)
			}
			opened = append(opened, v)
		})
	}
	if len(opened) == 0 {
		panic(stop{}) // no backend is left
	}
	return opened
}

func openQueue(c *cell, opts quark.Options) (*view, error) {
	set, err := backends.Parse(c.backend)
	if err != nil {
		c.Fatalf("%v", err)
	}
	opts.Backends, opts.Strict = set, true
	opts.Threads = opts.Threads && backends.ReportsThreads(c.backend)
	if opts.HoldTime == 0 {
		opts.HoldTime = shortHold
	}
	c.Waiting("the queue of " + c.backend + " to open")
	begin := time.Now()
	q, err := quark.Open(opts)
	if err != nil {
		return nil, err
	}
	if c.verbose >= 2 {
		c.Logf("opened in %v", time.Since(begin))
	}
	if types := q.Capabilities().Types; types != "" {
		c.Logf("the kernel's types are from %s", types)
	}
	return &view{cell: c, q: q}, nil
}

// close closes queues of the test.
func (t *test) close(all ...*view) {
	for _, v := range all {
		v.closeQueue()
	}
	t.views = slices.DeleteFunc(t.views, func(v *view) bool { return slices.Contains(all, v) })
}

func (v *view) closeQueue() {
	v.Waiting("the queue of " + v.backend + " to close")
	begin := time.Now()
	if err := v.q.Close(); err != nil {
		v.T.Errorf("%s: close: %v", v.backend, err)
	}
	if v.verbose >= 2 {
		v.Logf("closed in %v", time.Since(begin))
	}
}

// The names of shared queues in tests.go.
const (
	defaultQueue  = "default"  // queues single and joined; scenarios score their events
	detailedQueue = "detailed" // also reports failed execs and the environment
)

// The kinds of shared queues.
const (
	single = "single" // reports each event separately, also events of threads
	joined = "joined" // joins events
)

// joinedHold is the HoldTime of the queue that joins events. A short process ends within half of
// it, also on an emulated machine.
const joinedHold = 150 * time.Millisecond

// queueOptions returns the options of the queues of a kind.
func queueOptions(kind string) quark.Options {
	if kind == joined {
		// On a slow machine, a test may look up a process long after its exit.
		return quark.Options{HoldTime: joinedHold, CacheGraceTime: time.Hour}
	}
	return quark.Options{HoldTime: shortHold, MinAgg: true, Threads: true, CacheGraceTime: 300 * time.Millisecond}
}

// fixture holds queues that consecutive tests share, because opening a queue takes longer than most
// tests.
type fixture struct {
	kind      string
	queues    map[string][]*view // by kind of queue
	unopened  map[string]string  // by backend: the reason why it has no queue
	recorders []*recorder.Recorder
}

var shared fixture

// open opens the queues of a kind, unless the previous test used the same kind.
func (f *fixture) open(t *test, kind string) {
	if f.kind == kind {
		for _, c := range t.cells {
			if why := f.unopened[c.backend]; why != "" {
				c.try(func() { c.Fatalf("%s", why) })
			}
		}
		return
	}
	f.close(t.T)
	*f = fixture{kind: kind, queues: make(map[string][]*view), unopened: make(map[string]string)}
	defer func() {
		for _, c := range t.cells {
			if c.ended {
				f.unopened[c.backend] = c.reason
			}
		}
	}()
	for _, k := range []string{single, joined} {
		opts := queueOptions(k)
		if kind == detailedQueue {
			opts.Kinds, opts.FailedExecs, opts.Environ = source.DefaultKinds, true, scenario.Environ
		}
		for _, v := range t.openAll(opts) {
			v.atOpen = v.stats()
			// The first wait opens a descriptor. It must not count as the residue of a
			// test.
			if err := v.q.Block(0); err != nil {
				v.Fatalf("block: %v", err)
			}
			f.queues[k] = append(f.queues[k], v)
		}
	}
	f.recorders = recordersOf(f.queues[single], f.queues[joined])
}

// close closes the queues.
func (f *fixture) close(t *testing.T) {
	for _, list := range f.queues {
		for _, v := range list {
			if err := v.q.Close(); err != nil {
				t.Errorf("close the shared queue of %s: %v", v.backend, err)
			}
		}
	}
	*f = fixture{}
}

// watch lets the test use the shared queues of a kind.
func (t *test) watch(kind string) {
	for _, s := range shared.queues[kind] {
		if c := t.cell(s.backend); c != nil {
			t.views = append(t.views, &view{cell: c, q: s.q, atOpen: s.atOpen})
		}
	}
	t.markCounters()
}
