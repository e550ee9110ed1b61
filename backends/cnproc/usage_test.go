package cnproc

import (
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/nlsocket"
	"github.com/quark-linux/quark/backends/internal/taskrecord"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/clock"
)

const testFamily = 31

func exampleStats() *unix.Taskstats {
	return &unix.Taskstats{Version: 16, Ac_flag: 0x20, Cpu_count: 2, Cpu_run_virtual_total: 1000, Ac_pid: 11, Ac_tgid: 10,
		Hiwater_rss: 3, Read_char: 1024, Write_char: 2048, Read_bytes: 4096, Write_bytes: 8192}
}

// silent returns usages of a socket to which nothing is sent.
func silent(t testing.TB, marked bool) *usages {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(pair[0]); unix.Close(pair[1]) })
	return &usages{fd: pair[0], batch: nlsocket.NewBatch(1, 1), kernel: taskrecord.Kernel{Family: testFamily, Marked: marked, Kinds: engine.FieldsUsage}}
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
			u.add(u.kernel.Encode(0, 0, s, nil), now)
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
		if len(u.ends) != 0 || u.records.In[10].records > 0 {
			t.Errorf("%s: left are %+v, %+v", c.name, u.ends, u.records.In)
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
	if err := nlsocket.SetReceiveBuffer(s.usages.fd, 16<<10); err != nil {
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
	if err := nlsocket.SetReceiveBuffer(s.usages.fd, defaultReceiveBuffer); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Duration(s.usages.blind - min(clock.Monotonic(), s.usages.blind)))
	cmd := command(t, "true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	watch(t, s, to, func() bool { return len(to.events.Of(cmd.Process.Pid, engine.KindExit)) > 0 })
	if ev := to.events.One(t, cmd.Process.Pid, engine.KindExit); ev.Task.Known&engine.FieldsUsage != s.usages.kernel.Kinds {
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
