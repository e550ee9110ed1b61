package groupstatus

import (
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/procfs"
)

func TestVerdict(t *testing.T) {
	const (
		segv   = int32(unix.SIGSEGV)
		dumped = segv | CoreDumped
		kill   = int32(unix.SIGKILL)
		term   = int32(unix.SIGTERM)
	)
	for _, c := range []struct {
		name     string
		statuses []int32 // the leader's status first
		last6    bool
		want     int32
		known    bool
	}{
		{"none", nil, true, 0, false},
		{"one", []int32{0x300}, false, 0x300, true},
		{"all with one status", []int32{0x300, 0x300, 0x300}, true, 0x300, true},
		{"the leader with another one", []int32{0x500, 0x300}, true, 0, false},
		{"a signal to all", []int32{term, term}, true, term, true},
		{"a signal to all, after a thread ended by itself", []int32{0x300, term}, true, term, true},
		{"all by SIGKILL", []int32{kill, kill}, true, kill, true},
		{"SIGKILL may be of one thread", []int32{0x300, kill}, true, 0, false},
		{"a thread that dumps", []int32{segv, dumped}, true, dumped, true},
		{"the dump is killed", []int32{segv, kill}, true, segv, false},
		{"seccomp ends a thread", []int32{0, KilledThread}, true, 0, false},
	} {
		var e Endings
		for i, s := range c.statuses {
			e.Add(uint32(100+i), s)
		}
		leader := int32(0)
		if len(c.statuses) > 0 {
			leader = c.statuses[0]
		}
		status, known := e.Verdict(leader, c.last6)
		if known != c.known || known && status != c.want {
			t.Errorf("%s: got %#x, known %v; want %#x, known %v", c.name, status, known, c.want, c.known)
		}
	}
	var e Endings
	e.Add(7, 0x300)
	if _, known := e.Verdict(0x500, false); known {
		t.Error("got a certain status, want uncertain: before Linux 6.0 the leader's other status decides")
	}
	if e.Add(8, dumped); e.Dumper != 8 || e.N != 2 {
		t.Errorf("got endings %+v", e)
	}
}

// A status that is reported as certain is correct for any order of exits: first some threads exit
// by themselves, then perhaps all others by exit_group(2) or by a signal.
func TestVerdictIsTrue(t *testing.T) {
	certain := 0
	for seed := range uint64(20000) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		statuses := make([]int32, 1+rnd.IntN(4)) // in the order of the threads' exits
		leader := rnd.IntN(len(statuses))
		alone := rnd.IntN(len(statuses) + 1)
		group := int32(-1)
		for i := range statuses {
			switch {
			case i < alone:
				statuses[i] = int32(rnd.IntN(2)) << 8
			case group < 0:
				group = []int32{0x100, 0, int32(unix.SIGTERM), int32(unix.SIGKILL), int32(unix.SIGHUP)}[rnd.IntN(5)]
				fallthrough
			default:
				statuses[i] = group
			}
		}
		last6 := rnd.IntN(2) == 0
		truth := group
		switch {
		case group >= 0:
		case last6:
			truth = statuses[len(statuses)-1]
		default:
			truth = statuses[leader]
		}
		var e Endings
		for _, i := range rnd.Perm(len(statuses)) {
			e.Add(uint32(i+1), statuses[i])
		}
		status, known := e.Verdict(statuses[leader], last6)
		if known {
			certain++
		}
		if known && status != truth {
			t.Fatalf("seed %d: %#x, alone %d, leader %d, last6 %v: got %#x, want %#x", seed, statuses, alone, leader, last6, status, truth)
		}
	}
	if certain < 5000 {
		t.Errorf("got %d certain results of 20000, want at least 5000", certain)
	}
}

func TestCertain(t *testing.T) {
	for status, want := range map[int32]bool{
		0: false, 0x300: false, int32(unix.SIGTERM): true, int32(unix.SIGKILL): false, KilledThread: false,
		int32(unix.SIGSEGV):              false, // another thread may have dumped core
		int32(unix.SIGSEGV) | CoreDumped: true,
		KilledThread | CoreDumped:        true,
	} {
		if got := Certain(status); got != want {
			t.Errorf("%#x: got %v, want %v", status, got, want)
		}
	}
}

// proc is a process in a model of /proc.
type proc struct {
	leader  procfs.Status
	threads map[uint32]procfs.Status // without the leader
	gone    bool
}

const pid = 10

func (p *proc) Tasks(uint32) (tids []uint32) {
	for tid := range p.threads {
		tids = append(tids, tid)
	}
	if !p.gone {
		tids = append(tids, pid)
	}
	return tids
}

func (p *proc) Status(uint32) (st procfs.Status, start uint64, err error) {
	if p.gone {
		return st, 0, procfs.ErrVanished
	}
	return p.leader, 0, nil
}

func (p *proc) ThreadStatus(_, tid uint32) (st procfs.Status, start uint64, err error) {
	st, ok := p.threads[tid]
	if !ok {
		return st, 0, procfs.ErrVanished
	}
	return st, 0, nil
}

func TestRuns(t *testing.T) {
	sleeps, runs := procfs.Status{State: 'S'}, procfs.Status{State: 'R'}
	zombie, ending := procfs.Status{State: 'Z'}, procfs.Status{State: 'S', Ending: true}
	with := func(st procfs.Status) map[uint32]procfs.Status { return map[uint32]procfs.Status{11: st} }
	for _, c := range []struct {
		name          string
		p             proc
		leaderDone    bool
		alive, ending bool
	}{
		{"it sleeps", proc{leader: sleeps}, false, true, false},
		{"it runs, and can be at its end", proc{leader: runs}, false, false, false},
		{"it is gone", proc{gone: true}, false, false, true},
		{"its leader ends", proc{leader: ending}, false, false, true},
		{"the leader has ended, another thread sleeps", proc{leader: zombie, threads: with(sleeps)}, true, true, false},
		{"the leader has ended, another thread ends", proc{leader: zombie, threads: with(ending)}, true, false, true},
		{"the leader has ended, and no thread is left", proc{leader: zombie}, true, false, true},
		{"the leader has ended, another thread has taken its place", proc{leader: sleeps}, true, true, false},
	} {
		if alive, ending := Runs(&c.p, pid, c.leaderDone); alive != c.alive || ending != c.ending {
			t.Errorf("%s: alive %v, ending %v", c.name, alive, ending)
		}
	}
}
