package main

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/backends/ebpf"
	"github.com/quark-linux/quark/backends/kprobe"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/tinyelf"
)

// wrapRounds is how many processes recordWrap has: each takes a quarter of the
// ring at least, so that it comes round more than ten times.
const wrapRounds = 40

// recordWrap has rings so small that many records go over their end. What is
// delivered has to be right, and what is not has to be counted: on a machine
// where others are busy too something may be lost.
func recordWrap(t *test) {
	opts := quark.Options{MinAgg: true} // so that each event is of one raw event
	switch t.Backend {
	case "ebpf":
		opts.EBPF = ebpf.Options{RingSize: 8 << 10}
	case "kprobe":
		opts.KProbe = kprobe.Options{RingSize: 32 << 10}
	default:
		t.Skipf("%s has no ring", t.Backend)
	}
	q := t.open(opts)
	dir := t.TempDir()
	tiny := filepath.Join(dir, "tiny")
	if err := tinyelf.Write(tiny, 0); err != nil {
		t.Fatalf("%v", err)
	}
	type round struct {
		*proc
		cmdline string
	}
	var all []round
	var missing uint64
	for i := range wrapRounds {
		// Records of all lengths, so that the end of the ring is at every place in them.
		argv := []string{"tiny", itoa(i), strings.Repeat(string(rune('a'+i%26)), 1500+i*37%500)}
		p := t.spawn(script().Call("chdir", unix.SYS_CHDIR, dir).Exec(tiny, argv, nil), barefork{Share: true})
		t.reap(p)
		t.pump()
		all = append(all, round{p, strings.Join(argv, "\x00") + "\x00"})
	}
	t.settleAfterLoss(onlineCPUs(t))

	var whole int
	for _, r := range all {
		for _, kind := range []engine.Events{engine.EventFork, engine.EventExec, engine.EventExit} {
			switch n := t.count(r.proc, kind); {
			case n == 0:
				missing++
				t.Logf("pid %d has no %s: %s", r.PID, kind, t.history(r.proc))
			case n > 1:
				t.Errorf("pid %d: %d events with %s: %s", r.PID, n, kind, t.history(r.proc))
			}
		}
		for _, ev := range t.of(r.proc) {
			if ev.Events&engine.EventExit != 0 {
				t.checkExit(ev, r.proc, true)
			}
			if ev.Events&engine.EventExec == 0 {
				continue
			}
			p := ev.Process
			known := 0
			for f, v := range map[engine.Field][2]string{
				engine.FieldCmdline: {string(p.Cmdline), r.cmdline}, engine.FieldFilename: {p.Filename, tiny},
				engine.FieldCwd: {p.Cwd, dir}, engine.FieldComm: {p.Comm, "tiny"}, engine.FieldPPID: {itoa(int(p.PPID)), itoa(os.Getpid())},
			} {
				switch {
				case !p.Known.Has(f) || p.Truncated.Has(f):
				case v[0] != v[1]:
					t.Errorf("pid %d: %s is %q, want %q", r.PID, f, v[0], v[1])
				default:
					known++
				}
			}
			if known == 5 {
				whole++
			}
		}
	}
	s, err := q.Stats()
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Logf("%d of %d EXEC are whole, %d events are missing, %d lost %v", whole, len(all), missing, s.Lost(), s.Source.Lost)
	if s.Lost() < missing {
		t.Errorf("%d events are missing, %d are counted as lost", missing, s.Lost())
	}
	if n := s.Source.Lost[engine.LossDecode]; n > 0 {
		t.Errorf("%d records made no sense", n)
	}
	if uint64(whole)+s.Lost() < uint64(len(all)) {
		t.Errorf("%d of %d EXEC are whole, and only %d events were lost", whole, len(all), s.Lost())
	}
	if whole < len(all)/4 {
		t.Errorf("%d of %d EXEC are whole: too few to show that records go over the end of the ring", whole, len(all))
	}
}
