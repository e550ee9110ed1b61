//go:build linux && (amd64 || arm64)

package quark_test

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/btfhub"
	"github.com/quark-linux/quark/internal/thorough"
)

func TestEvents(t *testing.T) {
	onEach(t, func(t *testing.T, opts quark.Options) {
		q := open(t, opts)
		if p := q.Lookup(uint32(os.Getpid())); p == nil || p.PPID != uint32(os.Getppid()) {
			t.Errorf("got own process %+v", p)
		}
		ev := exitOf(t, q, spawn(t))
		if age := time.Since(ev.Wall); age < 0 || age > deadline {
			t.Errorf("the event is %v old", age)
		}
	})
}

// exitOf reads events until the EXIT of a process, and returns it.
func exitOf(t *testing.T, q *quark.Queue, pid uint32) *quark.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	for ev, err := range q.Events(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Process.PID == pid && ev.Events.Has(quark.EventExit) {
			return ev
		}
	}
	st, err := q.Stats()
	t.Fatalf("got no EXIT of pid %d within %v: %+v, error %v", pid, deadline, st, err)
	return nil
}

// Events from before the end of the context are delivered, however long events are held, and no
// later ones.
func TestEventsUntilContextEnds(t *testing.T) {
	onEach(t, func(t *testing.T, opts quark.Options) {
		opts.HoldTime = time.Hour
		q := open(t, opts)
		ctx, cancel := context.WithCancel(t.Context())
		pid := spawn(t)
		time.AfterFunc(0, cancel)
		seen := false
		for ev, err := range q.Events(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			seen = seen || ev.Process.PID == pid && ev.Events.Has(quark.EventExit)
		}
		if !seen || !q.Drained() {
			t.Errorf("the exit of pid %d is missing; drained: %v", pid, q.Drained())
		}
	})
}

// A caller with its own poll loop needs no timeout.
func TestDescriptor(t *testing.T) {
	onEach(t, func(t *testing.T, opts quark.Options) {
		q := open(t, opts)
		fds := []unix.PollFd{{Fd: int32(q.FD()), Events: unix.POLLIN}}
		end := time.Now().Add(deadline)
		var pid uint32
		for time.Now().Before(end) {
			ev, err := q.Get()
			switch {
			case err == nil && ev.Process.PID == pid && ev.Events.Has(quark.EventExit):
				return
			case errors.Is(err, quark.ErrNothing):
				if pid == 0 {
					pid = spawn(t) // after Get has armed the descriptor
				}
				if n, err := unix.Poll(fds, int(deadline.Milliseconds())); err != nil && err != unix.EINTR {
					t.Fatal(err)
				} else if n == 0 {
					t.Fatalf("the descriptor stayed silent for %v", deadline)
				}
			case err != nil:
				t.Fatal(err)
			}
		}
		t.Fatalf("no exit of pid %d within %v", pid, deadline)
	})
}

func TestWakeEndsBlock(t *testing.T) {
	onEach(t, func(t *testing.T, opts quark.Options) {
		q := open(t, opts)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range q.Events(ctx) {
			}
		}()
		cancel()
		select {
		case <-done:
		case <-time.After(deadline):
			t.Fatalf("Events did not end within %v of its context", deadline)
		}
	})
}

func TestDrain(t *testing.T) {
	onEach(t, func(t *testing.T, opts quark.Options) {
		// The proc connector reports an exit a moment after wait4(2). Once this process has
		// the event, all queues have received it.
		witness := open(t, opts)
		opts.HoldTime = time.Hour
		q := open(t, opts)
		pid := spawn(t)
		exitOf(t, witness, pid)
		if err := q.Drain(); err != nil {
			t.Fatal(err)
		}
		seen := false
		for ev, err := range q.Events(t.Context()) {
			seen = seen || err == nil && ev.Process.PID == pid && ev.Events.Has(quark.EventExit)
		}
		if !seen {
			t.Error("the held events were lost")
		}
	})
}

// Events that are in the kernel at Drain are delivered too, and then Events ends.
func TestDrainEmptiesTheSource(t *testing.T) {
	onEach(t, func(t *testing.T, opts quark.Options) {
		witness := open(t, opts)
		opts.MaxLength, opts.MinAgg = 10, true
		q := open(t, opts)
		ends := make(map[uint32]bool)
		var last uint32
		// The smallest ring, kprobe's with its default size, has room for the events of
		// about 140 children. The last EXIT ends the wait below, and must not be lost.
		for range 40 {
			last = spawn(t)
			ends[last] = true
		}
		exitOf(t, witness, last)
		if err := q.Drain(); err != nil {
			t.Fatal(err)
		}
		for ev, err := range q.Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if ev.Events.Has(quark.EventExit) {
				delete(ends, ev.Process.PID)
			}
		}
		st, err := q.Stats()
		if err != nil {
			t.Fatal(err)
		}
		if uint64(len(ends)) > st.Lost() || !q.Drained() {
			t.Errorf("%d exits are missing, but not all are counted as lost: %+v", len(ends), st)
		}
	})
}

// Drain from another goroutine ends an Events that waits.
func TestDrainFromAnywhere(t *testing.T) {
	onEach(t, func(t *testing.T, opts quark.Options) {
		q := open(t, opts)
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		defer cancel()
		time.AfterFunc(100*time.Millisecond, func() {
			if err := q.Drain(); err != nil {
				t.Error(err)
			}
		})
		for _, err := range q.Events(ctx) {
			if err != nil {
				t.Fatal(err)
			}
		}
		if ctx.Err() != nil || !q.Drained() {
			t.Errorf("Events did not end with Drain: %v", ctx.Err())
		}
	})
}

func TestClose(t *testing.T) {
	onEach(t, func(t *testing.T, opts quark.Options) {
		before := openFDs(t)
		q := open(t, opts)
		for range 2 {
			if err := q.Close(); err != nil {
				t.Error(err)
			}
		}
		if _, err := q.Get(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("Get: %v", err)
		}
		if err := q.Block(-1); !errors.Is(err, os.ErrClosed) {
			t.Errorf("Block: %v", err)
		}
		q.Wake()
		if after := openFDs(t); after != before {
			t.Errorf("got %[2]d descriptors, want %[1]d as before", before, after)
		}
	})
}

func openFDs(t *testing.T) int {
	t.Helper()
	dir, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(dir)
}

// Wrong options leave nothing open.
func TestWrongOptions(t *testing.T) {
	onEach(t, func(t *testing.T, opts quark.Options) {
		before := openFDs(t)
		for want, change := range map[string]func(*quark.Options){
			"HoldTime":       func(o *quark.Options) { o.HoldTime = time.Millisecond },
			"MaxLength":      func(o *quark.Options) { o.MaxLength = -1 },
			"CacheGraceTime": func(o *quark.Options) { o.CacheGraceTime = -1 },
			"Backends":       func(o *quark.Options) { o.Backends = 0x80 },
			"MinAgg":         func(o *quark.Options) { o.MinAgg, o.Matrix = true, quark.DefaultMatrix() },
			"Matrix":         func(o *quark.Options) { o.Matrix = &quark.Matrix{{quark.JoinBeforeExec + 1}} },
		} {
			bad := opts
			change(&bad)
			_, err := quark.Open(bad)
			if wrong := new(quark.OptionError); !errors.As(err, &wrong) || wrong.Option != want {
				t.Errorf("%s: %v", want, err)
			}
		}
		if after := openFDs(t); after != before {
			t.Errorf("got %[2]d descriptors, want %[1]d as before", before, after)
		}
	})
}

// withoutTypes are options with which neither eBPF nor kprobe can be opened.
var withoutTypes = quark.BTFOptions{EmbeddedOnly: true, Arch: "none"}

func TestChoice(t *testing.T) {
	_, err := quark.Open(quark.Options{Backends: quark.EBPF | quark.KProbe, BTF: withoutTypes})
	var failed *quark.OpenError
	if !errors.As(err, &failed) || len(failed.Attempts) != 2 {
		t.Fatalf("not strict: %v", err)
	}
	_, err = quark.Open(quark.Options{Backends: quark.EBPF | quark.KProbe, BTF: withoutTypes, Strict: true})
	if !errors.As(err, &failed) || len(failed.Attempts) != 1 || failed.Attempts[0].Backend != "ebpf" {
		t.Fatalf("strict: %v", err)
	}
	q, err := quark.Open(quark.Options{Backends: quark.EBPF | quark.CNProc, BTF: withoutTypes})
	if err != nil {
		t.Skip(err)
	}
	defer q.Close()
	if q.Backend() != "cnproc" || len(q.Attempts()) != 1 {
		t.Errorf("got backend %s after attempts %v", q.Backend(), q.Attempts())
	}
}

// A wrong option of any backend is an error of the caller. No other backend is tried instead.
func TestWrongOptionIsNoReasonToFallBack(t *testing.T) {
	dir := t.TempDir()
	missing := dir + "/missing"
	for want, opts := range map[string]quark.Options{
		"option EBPF.RingSize is -1: it must be from 0 to 1073741824 bytes":                   {EBPF: quark.EBPFOptions{RingSize: -1}},
		"option KProbe.RingSize is 1073741825: it must be from 0 to 1073741824 bytes":         {KProbe: quark.KProbeOptions{RingSize: 1<<30 + 1}},
		"option CNProc.ReceiveBuffer is -1: it must be from 0 to 1073741824 bytes":            {CNProc: quark.CNProcOptions{ReceiveBuffer: -1}},
		"option Kinds is GAP: it must be a set of fork,exec,exit,id_change,setprocti":         {Kinds: quark.EventGap},
		"option Kinds is 0x100001: it must be a set of fork,exec,exit,id_change,setprocti":    {Kinds: quark.EventFork | 1<<20},
		"option Exits is 2: it must be ExitsAll (0) or ExitsNonzero (1)":                      {Exits: 2},
		"option Exits is ExitsNonzero: the option Kinds leaves out EXIT":                      {Kinds: quark.EventFork, Exits: quark.ExitsNonzero},
		"option CNProc.Enrich is 7: it must be EnrichFull (0) or EnrichNone (1)":              {CNProc: quark.CNProcOptions{Enrich: 7}},
		"option BTF.Path is " + missing + ": open " + missing + ": no such file or directory": {BTF: quark.BTFOptions{Path: missing}},
		"option BTF.Path is " + dir + ": read BTF file: " + dir:                               {BTF: quark.BTFOptions{Path: dir}},
		"option BTF.Path is /dev/null: read BTF file: /dev/null is not a regular file":        {BTF: quark.BTFOptions{Path: "/dev/null"}},
		"option Backends is 0x8000: it must be a set of ebpf,kprobe,cnproc,audit":             {Backends: 0x8000},
	} {
		for _, allowed := range []quark.BackendSet{0, quark.CNProc} {
			if opts.Backends |= allowed; opts.Backends > backends.Every && allowed != 0 {
				continue
			}
			q, err := quark.Open(opts)
			if err == nil {
				t.Errorf("%s: opened %s", want, q.Backend())
				q.Close()
			} else if wrong := new(quark.OptionError); !errors.As(err, &wrong) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, not %s", err, want)
			}
		}
	}
	t.Setenv(btfhub.PathVariable, missing)
	for _, allowed := range []quark.BackendSet{0, quark.CNProc} {
		if _, err := quark.Open(quark.Options{Backends: allowed}); err == nil || !strings.Contains(err.Error(), "option QUARK_BTF_PATH is "+missing) {
			t.Errorf("a missing file in the environment: got error %v", err)
		}
	}
}

// Close, Stats and Wake from other goroutines end a wait.
func TestCloseFromAnywhere(t *testing.T) {
	tries := thorough.Rounds(5, 20)
	if testing.Short() {
		tries = 4
	}
	if os.Getenv("QUARK_TRIES") != "" {
		tries, _ = strconv.Atoi(os.Getenv("QUARK_TRIES"))
	}
	onEach(t, func(t *testing.T, opts quark.Options) {
		before := openFDs(t)
		for try := range tries {
			q, err := quark.Open(opts)
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() {
				for _, err := range q.Events(context.Background()) {
					if err != nil {
						ended <- err
						return
					}
				}
				ended <- nil
			}()
			var others sync.WaitGroup
			time.Sleep(time.Duration(try%7) * time.Millisecond)
			for range 2 {
				others.Go(func() {
					q.Wake()
					if _, err := q.Stats(); err != nil && !errors.Is(err, os.ErrClosed) {
						t.Error(err)
					}
					if err := q.Close(); err != nil {
						t.Error(err)
					}
					q.Wake()
				})
			}
			others.Wait()
			select {
			case err := <-ended:
				if !errors.Is(err, os.ErrClosed) {
					t.Fatalf("Events ended with %v", err)
				}
			case <-time.After(deadline):
				t.Fatalf("Events did not end within %v of Close", deadline)
			}
		}
		if after := openFDs(t); after != before {
			t.Errorf("got %[2]d descriptors, want %[1]d as before", before, after)
		}
	})
}

// Close is called while processes are looked up. Without FORKs and EXITs, lookups read /proc.
func TestCloseDuringLookup(t *testing.T) {
	onEach(t, func(t *testing.T, opts quark.Options) {
		opts.Kinds = quark.EventExec
		q := open(t, opts)
		ev := &quark.Event{Process: q.Lookup(uint32(os.Getpid()))}
		closed := make(chan error)
		time.AfterFunc(time.Millisecond, func() { closed <- q.Close() })
		for end := false; !end; {
			select {
			case err := <-closed:
				if end = true; err != nil {
					t.Error(err)
				}
			default:
				q.GroupLeader(ev.Process)
				q.AppendJSON(nil, ev)
			}
		}
		if l := q.SessionLeader(ev.Process); l != nil && l.PID != ev.Process.PID {
			t.Errorf("after Close: got leader %d, want none", l.PID)
		}
	})
}

// A filter may use the queue, and close it.
func TestFilterUsesTheQueue(t *testing.T) {
	onEach(t, func(t *testing.T, opts quark.Options) {
		var q *quark.Queue
		opts.Filter = func(ev *quark.Event) bool {
			if _, err := q.Stats(); err != nil {
				t.Error(err)
			}
			q.Lookup(ev.Process.PPID)
			if err := q.Close(); err != nil {
				t.Error(err)
			}
			return true
		}
		q = open(t, opts)
		spawn(t)
		for ev, err := range q.Events(t.Context()) {
			if err == nil && ev.Events.Has(quark.EventGap) {
				continue // what the kernel loses is not filtered
			}
			if !errors.Is(err, os.ErrClosed) {
				t.Fatalf("got event %v, error %v", ev, err)
			}
		}
	})
}
