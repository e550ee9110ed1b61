//go:build linux && (amd64 || arm64)

package quark_test

import (
	"context"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine"
	bare "github.com/quark-linux/quark/internal/barefork"
	"github.com/quark-linux/quark/internal/thorough"
	"github.com/quark-linux/quark/internal/tinyelf"
)

// storm lets another process start processes until the test ends. Each sleeps, has a child that
// executes a program, and waits for the child. Some sleep longer than Open takes.
func storm(t *testing.T) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "true")
	if err := tinyelf.Write(path, 0); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestStormProcess$", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), "QUARK_STORM="+path)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
}

// inStorm returns host on this host, and guest in an emulated guest, where opening takes seconds.
func inStorm(host, guest int) int {
	if os.Getenv("QUARK_INITRAMFS") == "1" {
		return guest
	}
	return host
}

// TestStormProcess is the main function of the process that storm starts.
func TestStormProcess(t *testing.T) {
	path := os.Getenv("QUARK_STORM")
	if path == "" {
		t.Skip("runs only as a child of another test")
	}
	var all sync.WaitGroup
	for n := range inStorm(4, 2) {
		all.Go(func() {
			for i := n; ; i++ {
				sleep := func(s *bare.Script) *bare.Script {
					return s.Call("nanosleep", unix.SYS_NANOSLEEP, []int64{0, int64(i*i%5) * int64(3*time.Millisecond)}, nil)
				}
				child := sleep(new(bare.Script)).Exec(path, []string{"storm"}, nil)
				parent := sleep(new(bare.Script)).Child(0, child).Call("wait4", unix.SYS_WAIT4, -1, nil, 0, nil).Exit(0)
				p, err := bare.Start(parent, bare.Options{})
				if err != nil {
					t.Error(err)
					return
				}
				unix.Wait4(p.PID, nil, 0, nil)
				p.Free()
			}
		})
	}
	all.Wait()
}

// When events begin, each of their processes is known: it had a FORK, or Open found it. It has an
// image and a place in the tree.
func TestStartInStorm(t *testing.T) {
	onEach(t, func(t *testing.T, opts quark.Options) {
		opts.MinAgg, opts.HoldTime = true, 20*time.Millisecond
		storm(t)
		alone, _ := waiter(t, 0, func(*bare.Script) {}, func(s *bare.Script) { s.Exit(0) })
		defer unix.Kill(alone, unix.SIGKILL)
		events, wrong := 0, [3]int{}
		for range inStorm(thorough.Rounds(2, 5), 3) {
			q := open(t, opts)
			// ours reports whether a process belongs to a storm and has an image that
			// the kernel reports.
			ours := func(p *quark.Process) bool {
				return q.Capabilities().Fields[engine.FieldExe].Brings(quark.EventExec) && (p.Comm == "true" || p.Comm == "exe")
			}
			born, lack := make(map[uint32]bool), make(map[uint32]bool)
			for p := range q.Processes() {
				born[p.PID] = !p.Exited
				lack[p.PID] = !p.Known.Has(engine.FieldExe)
			}
			for ev := range until(t, q, 200*time.Millisecond) {
				p := ev.Process
				events++
				if ev.Events.Has(quark.EventFork) {
					born[p.PID], lack[p.PID] = true, false
				}
				if !born[p.PID] {
					wrong[0]++
					t.Logf("%v of %d, %s, start %d: no FORK", ev.Events, p.PID, p.Comm, p.Start)
				}
				if ev.Events.Has(quark.EventExit) {
					delete(born, p.PID)
					if ours(p) && (lack[p.PID] || !p.Known.Has(engine.FieldExe)) {
						wrong[1]++
						t.Logf("EXIT of %d, %s, start %d: no image; at the start %t", p.PID, p.Comm, p.Start, lack[p.PID])
					}
				}
			}
			q.Close()
			o := opts
			var err error
			if o.Where, err = quark.ParseFilter(fmt.Sprint("tree == ", alone)); err != nil {
				t.Fatal(err)
			}
			q = open(t, o)
			for ev := range until(t, q, 100*time.Millisecond) {
				wrong[2]++
				t.Logf("%v of %d, %s, child of %d: another tree", ev.Events, ev.Process.PID, ev.Process.Comm, ev.Process.Birth.Parent.PID)
			}
			q.Close()
		}
		t.Logf("of %d events %d have no FORK, %d no image, %d are of another tree", events, wrong[0], wrong[1], wrong[2])
		// A process that executes while it is read can lack its image.
		if events == 0 || wrong[0] != 0 || 50*wrong[1] > events || wrong[2] != 0 {
			t.Error("too many events have no FORK or image, or are of another tree")
		}
	})
}

// After Drain in a storm each event is delivered or counted as lost.
func TestEndInStorm(t *testing.T) {
	onEach(t, func(t *testing.T, opts quark.Options) {
		storm(t)
		for n := range inStorm(thorough.Rounds(4, 10), 6) {
			o := opts
			if n%2 != 0 {
				o = tiny(opts)
			}
			q := open(t, o)
			for range until(t, q, 30*time.Millisecond) {
			}
			if err := q.Drain(); err != nil {
				t.Fatal(err)
			}
			for _, err := range q.Events(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
			}
			st, err := q.Stats()
			if err != nil {
				t.Fatal(err)
			}
			if over := int64(st.Source.Produced - st.Removals - uint64(st.Buffered) - st.Lost()); over != 0 {
				t.Errorf("got %d produced events, %d too many: %+v", st.Source.Produced, over, st)
			}
			q.Close()
		}
	})
}

// until yields events for some time, or until an event is lost.
func until(t *testing.T, q *quark.Queue, d time.Duration) iter.Seq[*quark.Event] {
	return func(yield func(*quark.Event) bool) {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		for ev, err := range q.Events(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			if ev.Events.Has(quark.EventGap) || !yield(ev) {
				return
			}
		}
	}
}
