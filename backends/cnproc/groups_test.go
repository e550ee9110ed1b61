package cnproc

import (
	"cmp"
	"maps"
	"slices"
	"testing"

	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/engine"
)

// town is a machine with processes that have threads and run at the same time, each with another
// pid.
type town struct {
	*machine
	groups map[uint32]*oneGroup
}

// oneGroup is a process with threads, from its fork to its end.
type oneGroup struct {
	threads       []oneTask
	ended, reaped uint64
	sent          uint64 // time of the last message
	exits         int
}

// oneTask is a thread while it has tid.
type oneTask struct {
	tid          uint32
	begin, until uint64
}

func newTown(t testing.TB, seed uint64) *town {
	w := &town{newMachine(t, seed), make(map[uint32]*oneGroup)}
	w.sends, w.lives, w.room = w.sends[:0], nil, 1<<(2+w.rnd.IntN(5))
	for i := range uint32(60) {
		w.group(100+10*i, 1000*ms+w.rnd.Uint64N(2000*ms))
	}
	slices.SortStableFunc(w.sends, func(x, y sending) int { return cmp.Compare(x.at, y.at) })
	return w
}

// randomTime returns a time up to most, usually a short one.
func (w *town) randomTime(most uint64) uint64 {
	if w.rnd.IntN(3) > 0 {
		most /= 50
	}
	return 1 + w.rnd.Uint64N(most)
}

// group simulates a process: threads start and exit. A thread may execute, which ends the other
// threads.
func (w *town) group(pid uint32, born uint64) {
	g := &oneGroup{}
	w.groups[pid] = g
	now := born
	w.send(now, Fork, now, 1, 1, pid, pid)
	next, image := pid, now
	for images := w.rnd.IntN(3); ; images-- {
		live := []oneTask{{tid: pid, begin: image}}
		for range w.rnd.IntN(4) {
			now += w.randomTime(10 * ms)
			next++
			live = append(live, oneTask{tid: next, begin: now})
			w.send(now, Fork, now, pid, pid, next, pid)
		}
		w.rnd.Shuffle(len(live), func(i, j int) { live[i], live[j] = live[j], live[i] })
		executes := images > 0
		made := uint64(0) // time of the latest message
		for i := range live {
			last := i == len(live)-1
			if now += w.randomTime(20 * ms); !last || !executes {
				stamp := now + w.randomTime(ms)
				live[i].until = now
				made = stamp + w.randomTime(20*ms)
				g.sent = max(g.sent, made)
				signal, parent := ^uint32(0), uint32(1)
				if live[i].tid == pid {
					signal = 17
				}
				if !last || w.rnd.IntN(2) == 0 {
					g.reaped = made + w.randomTime(40*ms)
				} else {
					parent, g.reaped = 0, now+1
				}
				w.send(made, Exit, stamp, live[i].tid, pid, 0, signal, parent, parent)
			}
			if executes && !last {
				now = max(now, made) // the exec waits for the other threads
			}
		}
		if !executes {
			g.ended = now
			g.threads = append(g.threads, live...)
			return
		}
		now += w.randomTime(ms)
		live[len(live)-1].until = now
		g.threads = append(g.threads, live...)
		stamp := now + w.randomTime(ms)
		w.send(stamp, Exec, stamp, pid, pid)
		image = now
		now = stamp
	}
}

func (w *town) PIDs() (pids []uint32, err error) {
	for _, pid := range slices.Sorted(maps.Keys(w.groups)) { // each Status takes time
		if _, _, err := w.Status(pid); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

func (w *town) Tasks(pid uint32) (tids []uint32) {
	w.pass(w.rnd.Uint64N(ms / 20))
	g := w.groups[pid]
	for _, t := range g.threads {
		if t.begin <= w.time && w.time < t.until {
			tids = append(tids, t.tid)
		}
	}
	if len(g.threads) > 0 && g.threads[0].begin <= w.time && w.time < g.reaped && !slices.Contains(tids, pid) {
		tids = append(tids, pid)
	}
	return tids
}

func (w *town) ThreadStatus(pid, _ uint32) (procfs.Status, uint64, error) { return w.Status(pid) }

func (w *town) Status(pid uint32) (st procfs.Status, start uint64, err error) {
	tids := w.Tasks(pid)
	if len(tids) == 0 {
		return st, 0, procfs.ErrVanished
	}
	st = procfs.Status{State: 'Z', Threads: uint32(len(tids))}
	start = ^uint64(0)
	for _, t := range w.groups[pid].threads {
		if start = min(start, t.begin); t.tid == pid && t.begin <= w.time && w.time < t.until {
			st.State = 'R'
		}
	}
	return st, start / engine.ProcStartUnit * engine.ProcStartUnit, nil
}

// The EXIT of a process with threads is reported once, after the process has ended, or a gap covers
// it.
func TestEndOfGroupAfterLoss(t *testing.T) {
	ends, lost, outside := 0, 0, 0
	seeds := []uint64{841, 2475, 2673, 10994} // found faulty EXITs
	for seed := uint64(1400); seed < 1700; seed++ {
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
		w := newTown(t, seed)
		e, l, o := w.ends(t, seed, 0)
		ends, lost, outside = ends+e, lost+l, outside+o
	}
	if ends < lost || outside > 0 {
		t.Errorf("got %d EXITs, %d lost EXITs, %d of them outside of gaps", ends, lost, outside)
	}
}

// TestEndOfGroupAfterOpening is like TestEndOfGroupAfterLoss, but the source opens while processes
// run, and loses nothing.
func TestEndOfGroupAfterOpening(t *testing.T) {
	ends, lost, outside := 0, 0, 0
	// Some seeds found EXITs that were reported too early or twice.
	seeds := []uint64{821, 1797, 1870, 2110, 2265, 2329, 2439, 2466, 2546, 2615, 2841}
	for seed := range uint64(300) {
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
		w := newTown(t, seed)
		w.room = 1 << 20
		w.pass(w.rnd.Uint64N(3000 * ms))
		w.queue = nil             // the source had no socket yet
		w.pass(w.rnd.Uint64N(ms)) // and had not yet read /proc
		// Processes that have left /proc may be missing.
		e, l, o := w.ends(t, seed, w.time+2*ms)
		ends, lost, outside = ends+e, lost+l, outside+o
	}
	if ends < 20*lost || outside > 0 {
		t.Errorf("got %d EXITs, %d lost EXITs, %d of them outside of gaps", ends, lost, outside)
	}
}

// ends lets the processes continue. It counts their ends after since: those with an EXIT, those
// without, and those that no gap covers.
func (w *town) ends(t *testing.T, seed, since uint64) (ends, lost, outside int) {
	s, got := watching(w, &w.time)
	var gaps []engine.Gap
	step := func() {
		n := len(got.events)
		w.populate(s)
		for _, ev := range got.events[n:] {
			switch g := w.groups[ev.PID]; {
			case ev.Kind == engine.KindGap:
				gaps = append(gaps, *ev.Gap)
			case ev.Kind != engine.KindExit || ev.Thread:
			case w.time < g.ended:
				t.Errorf("seed %d: EXIT of %d at %d, reported at %d, want it after its end at %d", seed, ev.PID, ev.Time, w.time, g.ended)
			default:
				g.exits++
				ends++
			}
		}
	}
	for len(w.sends) > 0 || len(w.queue) > 0 {
		step()
		wait := uint64(ms)
		if w.rnd.IntN(60) == 0 {
			wait = 100 * ms
		}
		w.pass(w.rnd.Uint64N(wait))
	}
	for range 2 {
		w.pass(2 * maxStraggle)
		step()
	}
	for pid, g := range w.groups {
		if g.exits > 1 {
			t.Errorf("seed %d: got %d EXITs of pid %d, want at most 1", seed, g.exits, pid)
		}
		if g.exits > 0 || g.ended < since {
			continue
		}
		lost++
		if !slices.ContainsFunc(gaps, func(gap engine.Gap) bool { return gap.From <= g.sent && g.ended <= gap.To }) {
			outside++
			t.Logf("seed %d: the EXIT of %d between %d and %d is missing", seed, pid, g.ended, g.sent)
		}
	}
	return ends, lost, outside
}
