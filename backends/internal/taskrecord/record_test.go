package taskrecord

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
)

var testKernel = Kernel{Family: 31, Version: 16, Marked: true, Kinds: engine.FieldsUsage}

func example() *unix.Taskstats {
	return &unix.Taskstats{Version: 16, Ac_flag: flagGroup, Ac_exitcode: 0x300, Cpu_count: 2, Cpu_run_virtual_total: 1000, Ac_pid: 11, Ac_tgid: 10, Ac_ppid: 5,
		Ac_comm: [32]int8{'a', 'b'}, Hiwater_rss: 3, Read_char: 1024, Write_char: 2048, Read_bytes: 4096, Write_bytes: 8192}
}

func TestDecode(t *testing.T) {
	const cpu, rss, io = engine.FieldCPUTime, engine.FieldPeakRSS, engine.FieldIO
	base := Record{Seq: 9, PID: 11, TGID: 10, Last: true, Status: 0x300, PPID: 5, Comm: [16]byte{'a', 'b'}, Known: engine.FieldsUsage, Carried: rss.Set(),
		Usage: engine.Usage{UserTime: 1000, PeakRSS: 3072, RChar: 1024, WChar: 2048, ReadBytes: 4096, WriteBytes: 8192}}
	with := func(f func(*Record)) Record { r := base; f(&r); return r }
	for _, c := range []struct {
		name   string
		older  bool // than Linux 5.19
		kinds  engine.Fields
		change func(*unix.Taskstats)
		all    *unix.Taskstats
		want   Record
	}{
		{name: "one thread", want: base},
		{name: "not executed", change: func(s *unix.Taskstats) { s.Ac_flag |= flagForked }, want: with(func(r *Record) { r.Carried, r.Forked = 0, true })},
		{name: "a name without an end", change: func(s *unix.Taskstats) {
			for i := range s.Ac_comm {
				s.Ac_comm[i] = 'x'
			}
		}, want: with(func(r *Record) { copy(r.Comm[:], "xxxxxxxxxxxxxxx") })},
		{name: "in the kernel", change: func(s *unix.Taskstats) { s.Ac_utime, s.Ac_stime = 4000, 12000 },
			want: with(func(r *Record) {
				r.Usage.UserTime, r.Usage.SystemTime, r.Carried = 250, 750, r.Carried.With(cpu)
			})},
		{name: "no accounting", change: func(s *unix.Taskstats) { s.Cpu_count = 0 },
			want: with(func(r *Record) { r.Known &^= cpu.Set(); r.Usage.UserTime = 0 })},
		{name: "several threads", all: &unix.Taskstats{Cpu_count: 5, Cpu_run_virtual_total: 9000, Cpu_run_real_total: 4e6, Ac_utime: 4000},
			want: with(func(r *Record) {
				r.Several, r.Known, r.Carried, r.Usage = true, r.Known&^io.Set(), r.Carried.With(cpu), engine.Usage{UserTime: 9000, PeakRSS: 3072}
			})},
		{name: "several threads whose times are not summed up", all: &unix.Taskstats{Cpu_count: 5, Cpu_run_virtual_total: 9000, Cpu_run_real_total: 4e6},
			want: with(func(r *Record) { r.Several, r.Known, r.Usage = true, rss.Set(), engine.Usage{PeakRSS: 3072} })},
		{name: "not the last thread", change: func(s *unix.Taskstats) { s.Ac_flag = 0 }, want: with(func(r *Record) { r.Last = false })},
		{name: "an older kernel", older: true, want: with(func(r *Record) { r.TGID, r.Last = 0, false })},
		{name: "several threads on an older kernel", older: true, all: &unix.Taskstats{},
			want: with(func(r *Record) { r.Several, r.Known, r.Usage = true, rss.Set(), engine.Usage{PeakRSS: 3072} })},
		{name: "CPU time alone is counted", kinds: cpu.Set(), want: with(func(r *Record) { r.Known, r.Carried = cpu.Set(), 0 })},
	} {
		k, s, size := testKernel, example(), 0
		if c.kinds != 0 {
			k.Kinds = c.kinds
		}
		if c.change != nil {
			c.change(s)
		}
		if c.older {
			k.Marked, size = false, 352 // Linux 5.10
		}
		var got Record
		b := k.Encode(size, 9, s, c.all)
		if err := got.Decode(b, &k); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", c.name, got, err, c.want)
		}
		for n := range b {
			if got.Decode(b[:n], &k) == nil {
				t.Errorf("%s: %d bytes of %d were taken", c.name, n, len(b))
			}
		}
	}
	for name, b := range map[string][]byte{
		"of another family": append([]byte{4: 32}, make([]byte, 600)...),
		"too short":         testKernel.Encode(minStats-8, 0, example(), nil),
		"of no process":     testKernel.Encode(0, 0, new(unix.Taskstats), nil),
	} {
		if r := new(Record); r.Decode(b, &testKernel) == nil {
			t.Errorf("a record %s was taken", name)
		}
	}
}

// Versions whose members are elsewhere are refused.
func TestVersions(t *testing.T) {
	for version, want := range map[uint16]bool{7: false, 8: true, 9: true, 10: true, 11: true, 12: true, 13: true, 14: true, 15: false, 16: true, 17: true} {
		s := unix.Taskstats{Version: version, Ac_pid: 7, Ac_ppid: 6, Ac_tgid: 7}
		var k Kernel
		err := k.accept(&s, 7, 6)
		if (err == nil) != want || err != nil && !errors.Is(err, errors.ErrUnsupported) || k.Marked != (version >= 12) {
			t.Errorf("version %d: %v, %+v", version, err, k)
		}
		if s.Ac_ppid++; k.accept(&s, 7, 6) == nil {
			t.Errorf("version %d: another parent was taken", version)
		}
	}
}

func FuzzDecode(f *testing.F) {
	older := testKernel
	older.Marked = false
	f.Add(testKernel.Encode(0, 1, example(), nil), true)
	f.Add(older.Encode(352, 2, example(), new(unix.Taskstats)), false)
	f.Fuzz(func(t *testing.T, b []byte, marked bool) {
		k := Kernel{Family: 31, Marked: marked, Kinds: engine.SetOf(engine.FieldCPUTime, engine.FieldIO)}
		if r := new(Record); r.Decode(b, &k) == nil && (r.PID == 0 || (marked || r.Last) && r.TGID == 0 || r.Known&^k.Kinds != 0 || r.Carried&^r.Known&^k.Kinds != 0 || r.Comm[15] != 0) {
			t.Errorf("%+v", r)
		}
	})
}
