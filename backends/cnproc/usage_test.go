package cnproc

import (
	"encoding/binary"
	"errors"
	"os"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/clock"
)

const testFamily = 31

// statsRecord makes a message of taskstats of a thread, and of its group if that is not nil, with
// so many bytes of the structure.
func statsRecord(size int, own, all *unix.Taskstats) []byte {
	e := binary.NativeEndian
	attribute := func(kind uint16, data []byte) []byte {
		b := e.AppendUint16(e.AppendUint16(nil, uint16(4+len(data))), kind)
		return append(append(b, data...), make([]byte, -len(data)&3)...)
	}
	aggregate := func(kind, number uint16, s *unix.Taskstats) []byte {
		data := (*[sizeStats]byte)(unsafe.Pointer(s))[:min(size, sizeStats)]
		return attribute(kind, append(attribute(number, e.AppendUint32(nil, s.Ac_pid)), attribute(unix.TASKSTATS_TYPE_STATS, data)...))
	}
	b := []byte{unix.TASKSTATS_CMD_NEW, 1, 0, 0}
	b = append(b, aggregate(unix.TASKSTATS_TYPE_AGGR_PID, unix.TASKSTATS_TYPE_PID, own)...)
	if all != nil {
		b = append(b, aggregate(unix.TASKSTATS_TYPE_AGGR_TGID, unix.TASKSTATS_TYPE_TGID, all)...)
	}
	header := e.AppendUint32(nil, uint32(sizeNlmsghdr+len(b)))
	header = e.AppendUint16(header, testFamily)
	return append(append(header, make([]byte, 10)...), b...)
}

func exampleStats() *unix.Taskstats {
	return &unix.Taskstats{Version: 16, Ac_flag: flagGroup, Cpu_count: 2, Cpu_run_virtual_total: 1000, Ac_pid: 11, Ac_tgid: 10,
		Hiwater_rss: 3, Read_char: 1024, Write_char: 2048, Read_bytes: 4096, Write_bytes: 8192}
}

// silent returns usages of a socket to which nothing is sent.
func silent(t testing.TB, marked bool) *usages {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(pair[0]); unix.Close(pair[1]) })
	return &usages{fd: pair[0], batch: newBatch(1, 1), family: testFamily, marked: marked, kinds: engine.FieldsUsage, records: make(map[uint32]held)}
}

func TestDecodeUsage(t *testing.T) {
	const cpu, rss, io = engine.FieldCPUTime, engine.FieldPeakRSS, engine.FieldIO
	base := used{number: 10, known: engine.FieldsUsage, carried: rss.Set(),
		usage: engine.Usage{UserTime: 1000, PeakRSS: 3072, RChar: 1024, WChar: 2048, ReadBytes: 4096, WriteBytes: 8192}}
	with := func(f func(*used)) used { r := base; f(&r); return r }
	for _, c := range []struct {
		name   string
		older  bool // than Linux 5.19
		kinds  engine.Fields
		change func(*unix.Taskstats)
		all    *unix.Taskstats
		want   used
	}{
		{name: "one thread", want: base},
		{name: "not executed", change: func(s *unix.Taskstats) { s.Ac_flag |= flagForked }, want: with(func(r *used) { r.carried = 0 })},
		{name: "in the kernel", change: func(s *unix.Taskstats) { s.Ac_utime, s.Ac_stime = 4000, 12000 },
			want: with(func(r *used) {
				r.usage.UserTime, r.usage.SystemTime, r.carried = 250, 750, r.carried.With(cpu)
			})},
		{name: "no accounting", change: func(s *unix.Taskstats) { s.Cpu_count = 0 },
			want: with(func(r *used) { r.known &^= cpu.Set(); r.usage.UserTime = 0 })},
		{name: "several threads", all: &unix.Taskstats{Cpu_count: 5, Cpu_run_virtual_total: 9000, Cpu_run_real_total: 4e6, Ac_utime: 4000},
			want: with(func(r *used) {
				r.known, r.carried, r.usage = r.known&^io.Set(), r.carried.With(cpu), engine.Usage{UserTime: 9000, PeakRSS: 3072}
			})},
		{name: "several threads whose times are not summed up", all: &unix.Taskstats{Cpu_count: 5, Cpu_run_virtual_total: 9000, Cpu_run_real_total: 4e6},
			want: with(func(r *used) { r.known, r.usage = rss.Set(), engine.Usage{PeakRSS: 3072} })},
		{name: "not the last thread", change: func(s *unix.Taskstats) { s.Ac_flag = 0 }, want: with(func(r *used) { r.skip = true })},
		{name: "an older kernel", older: true, change: func(s *unix.Taskstats) { s.Ac_flag = 0 }, want: with(func(r *used) { r.number = 11 })},
		{name: "CPU time alone is counted", kinds: cpu.Set(), want: with(func(r *used) { r.known, r.carried = cpu.Set(), 0 })},
	} {
		u, s := silent(t, !c.older), exampleStats()
		if c.kinds != 0 {
			u.kinds = c.kinds
		}
		if c.change != nil {
			c.change(s)
		}
		size := sizeStats
		if c.older {
			size = 352 // Linux 5.10
		}
		var got used
		b := statsRecord(size, s, c.all)
		if err := got.decode(b, u); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", c.name, got, err, c.want)
		}
		for n := range b {
			if got.decode(b[:n], u) == nil {
				t.Errorf("%s: %d bytes of %d were taken", c.name, n, len(b))
			}
		}
	}
	for name, b := range map[string][]byte{
		"of another family": append([]byte{4: testFamily + 1}, make([]byte, 600)...),
		"too short":         statsRecord(minStats-8, exampleStats(), nil),
		"of no process":     statsRecord(sizeStats, new(unix.Taskstats), nil),
	} {
		if r := new(used); r.decode(b, silent(t, true)) == nil {
			t.Errorf("a record %s was taken", name)
		}
	}
}

func FuzzDecodeUsage(f *testing.F) {
	f.Add(statsRecord(sizeStats, exampleStats(), nil), true)
	f.Add(statsRecord(352, exampleStats(), new(unix.Taskstats)), false)
	f.Fuzz(func(t *testing.T, b []byte, marked bool) {
		u := usages{family: testFamily, marked: marked, kinds: engine.SetOf(engine.FieldCPUTime, engine.FieldIO)}
		if r := new(used); r.decode(b, &u) == nil && (r.number == 0 || r.known&^u.kinds != 0 || r.carried&^r.known&^u.kinds != 0) {
			t.Errorf("%+v", r)
		}
	})
}

// An end gets the record of its number if it is certain to be its own.
func TestMatch(t *testing.T) {
	end := func(time uint64) *fact {
		return &fact{kind: engine.KindExit, m: &message{what: Exit, tid: 10, pid: 10, time: time}}
	}
	with := func(f *fact, change func(*fact)) *fact { change(f); return f }
	const now = 1000
	for _, c := range []struct {
		name  string
		older bool
		do    func(u *usages, record func(number uint32, user uint64), take func(*fact) *engine.RawEvent)
		want  []uint64 // user time of each event, 0 for unknown
	}{
		{name: "one of each", do: func(_ *usages, record func(uint32, uint64), take func(*fact) *engine.RawEvent) {
			take(end(1))
			record(10, 7)
		}, want: []uint64{7}},
		{name: "none", do: func(_ *usages, record func(uint32, uint64), take func(*fact) *engine.RawEvent) {
			take(end(1))
			record(12, 7)
		}, want: []uint64{0}},
		{name: "two records, as another process of the number has ended", do: func(_ *usages, record func(uint32, uint64), take func(*fact) *engine.RawEvent) {
			take(end(1))
			record(10, 7)
			record(10, 8)
		}, want: []uint64{0}},
		{name: "two ends and one record", do: func(_ *usages, record func(uint32, uint64), take func(*fact) *engine.RawEvent) {
			take(end(1))
			take(end(2))
			record(10, 7)
		}, want: []uint64{0, 0}},
		{name: "the number is another's by now", do: func(_ *usages, record func(uint32, uint64), take func(*fact) *engine.RawEvent) {
			take(with(end(1), func(f *fact) { f.gone = true }))
			take(end(2))
			record(10, 7)
		}, want: []uint64{0, 0}},
		{name: "an end is lost", do: func(_ *usages, record func(uint32, uint64), take func(*fact) *engine.RawEvent) {
			take(with(end(1), func(f *fact) { f.kind = engine.KindGap }))
			take(end(2))
			record(10, 7)
		}, want: []uint64{0}},
		{name: "a record of before the birth", do: func(u *usages, record func(uint32, uint64), take func(*fact) *engine.RawEvent) {
			record(10, 7)
			u.born(10, now+1)
			take(end(now + 2))
			record(10, 8)
		}, want: []uint64{8}},
		{name: "a record that may be of after the birth", do: func(u *usages, record func(uint32, uint64), take func(*fact) *engine.RawEvent) {
			record(10, 7)
			u.born(10, now-1)
			take(end(now))
		}, want: []uint64{7}},
		{name: "records were lost", do: func(u *usages, record func(uint32, uint64), take func(*fact) *engine.RawEvent) {
			u.lose(now)
			take(end(now + maxStraggle))
			record(10, 7)
		}, want: []uint64{0}},
		{name: "records were lost long ago", do: func(u *usages, record func(uint32, uint64), take func(*fact) *engine.RawEvent) {
			u.lose(now)
			take(end(now + maxStraggle + 1))
			record(10, 7)
		}, want: []uint64{7}},
		{name: "of a thread", do: func(_ *usages, record func(uint32, uint64), take func(*fact) *engine.RawEvent) {
			take(with(end(1), func(f *fact) { f.thread = true }))
			take(end(2))
			record(10, 7)
		}, want: []uint64{0, 7}},
		{name: "of a thread, on an older kernel", older: true, do: func(_ *usages, record func(uint32, uint64), take func(*fact) *engine.RawEvent) {
			take(with(end(1), func(f *fact) { f.m.tid, f.thread = 11, true }))
			take(end(2))
			record(11, 5)
			record(10, 7)
		}, want: []uint64{0, 7}},
		{name: "of a process with threads, on an older kernel", older: true, do: func(_ *usages, record func(uint32, uint64), take func(*fact) *engine.RawEvent) {
			take(with(end(1), func(f *fact) { f.m.threads = true }))
			record(10, 7)
		}, want: []uint64{0}},
	} {
		u := silent(t, !c.older)
		var events []*engine.RawEvent
		c.do(u, func(number uint32, user uint64) {
			s := exampleStats()
			s.Ac_pid, s.Ac_tgid, s.Cpu_run_virtual_total = number, number, user
			u.add(statsRecord(sizeStats, s, nil), now)
		}, func(f *fact) *engine.RawEvent {
			var ev *engine.RawEvent
			if f.kind == engine.KindExit {
				ev = &engine.RawEvent{Kind: engine.KindExit, Time: f.m.time}
				events = append(events, ev)
			}
			u.take(f, ev)
			return ev
		})
		u.match()
		for i, ev := range events {
			known := ev.Task.Known&engine.FieldsUsage == engine.FieldsUsage && ev.Task.Truncated == engine.FieldIO.Set()
			if known != (c.want[i] != 0) || ev.Usage.UserTime != c.want[i] {
				t.Errorf("%s: end %d: %+v, known %v; want %d", c.name, i, ev.Usage, ev.Task.Known, c.want[i])
			}
		}
		if len(u.ends) != 0 || u.records[10].records > 0 {
			t.Errorf("%s: left are %+v, %+v", c.name, u.ends, u.records)
		}
	}
}

// withUsages opens a source that asks for usages, or skips the test.
func withUsages(t *testing.T) *Source {
	s := kernel(t, Options{Enrich: EnrichNone, TaskStats: true})
	if s.usages == nil {
		t.Skip(s.noUsages)
	}
	return s
}

// What the socket of records drops is counted, and unknown; then all is well again.
func TestUsageLoss(t *testing.T) {
	s, to := withUsages(t), &sink{room: 1 << 20}
	if err := setReceiveBuffer(s.usages.fd, 16<<10); err != nil {
		t.Fatal(err)
	}
	storm(t, 60)
	ends := func() (n int) {
		for _, ev := range to.events {
			if ev.Kind == engine.KindExit && !ev.Thread {
				n++
			}
		}
		return n
	}
	watch(t, s, to, func() bool { return ends() >= 60 })
	st, err := s.Stats()
	if err != nil || st.UsageLost == 0 || st.LostTotal() != 0 {
		t.Fatalf("%+v, %v", st, err)
	}
	for _, ev := range to.events[:10] {
		if ev.Task.Known&engine.FieldsUsage != 0 {
			t.Errorf("%d has %v", ev.PID, ev.Task.Known)
		}
	}
	if err := setReceiveBuffer(s.usages.fd, defaultReceiveBuffer); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Duration(s.usages.blind - min(clock.Monotonic(), s.usages.blind)))
	cmd := command(t, "true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	watch(t, s, to, func() bool { return len(to.events.Of(cmd.Process.Pid, engine.KindExit)) > 0 })
	if ev := to.events.One(t, cmd.Process.Pid, engine.KindExit); ev.Task.Known&engine.FieldsUsage != s.usages.kinds {
		t.Errorf("after the loss %v is known", ev.Task.Known)
	}
	if st, err = s.Stats(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if after, err := s.Stats(); err != nil || after.UsageLost != st.UsageLost {
		t.Errorf("after Close %d records were lost, before it %d: %v", after.UsageLost, st.UsageLost, err)
	}
}

// Without the privilege the reason is in the table, and the rest works.
func TestUsageWithoutPrivilege(t *testing.T) {
	withUsages(t)
	lockThread() // which ends with the test, and its capabilities
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&header, &caps[0]); err != nil {
		t.Fatal(err)
	}
	caps[0].Effective &^= 1 << unix.CAP_NET_ADMIN
	if err := unix.Capset(&header, &caps[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := openUsages(defaultReceiveBuffer); !errors.Is(err, unix.EPERM) {
		t.Errorf("without CAP_NET_ADMIN: %v", err)
	}
}

// The table says why usage is unknown.
func TestUsageReasons(t *testing.T) {
	for _, c := range []struct {
		o      Options
		shared source.Options
		change func(*Source)
		want   string
	}{
		{want: "needs CNProcOptions.TaskStats"},
		{o: Options{TaskStats: true}, shared: source.Options{Kinds: engine.EventFork}, want: "ends are not asked for"},
		{o: Options{TaskStats: true}, change: func(s *Source) { s.noUsages = os.ErrPermission }, want: os.ErrPermission.Error()},
		{o: Options{TaskStats: true}, change: func(s *Source) { s.usages = new(usages) }, want: "the kernel has no CONFIG_TASK_XACCT"},
	} {
		c.o.Enrich = EnrichNone
		s := offline(c.o, c.shared)
		if c.change != nil {
			c.change(s)
		}
		table := s.capabilities()
		if row := table.Fields[engine.FieldPeakRSS]; row.Via != c.want || row.Origin != engine.OriginNone {
			t.Errorf("%+v, want %q", row, c.want)
		}
	}
}
