package kprobe

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/perf"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/conform"
	"github.com/quark-linux/quark/internal/tracefs"
)

// parseDefinition parses a definition in the kernel's syntax. The fetches have only the parts that
// a layout needs.
func parseDefinition(t testing.TB, def string) (args []fetch) {
	t.Helper()
	types := map[string]fetchType{}
	for _, typ := range []fetchType{typeU8, typeU32, typeS32, typeX64, typeString, typeExiting} {
		types[typ.name] = typ
	}
	for _, word := range strings.Fields(def)[2:] {
		name, body, _ := strings.Cut(word, "=")
		_, typ, _ := strings.Cut(body, ":")
		if typ == "" {
			typ = "x64"
		}
		typ, count, _ := strings.Cut(typ, "[")
		f := fetch{typ: types[typ]}
		f.slot = slot(decimal(t, name[1:]))
		if count != "" {
			f.count = decimal(t, strings.TrimSuffix(count, "]"))
		}
		args = append(args, f)
	}
	return args
}

func decimal(t testing.TB, s string) (n int) {
	t.Helper()
	if s == "" {
		t.Fatal("missing number")
	}
	for _, c := range s {
		if c < '0' || c > '9' {
			t.Fatalf("%q is not a number", s)
		}
		n = n*10 + int(c-'0')
	}
	return n
}

// readProbes returns the probes of one kernel from a file that TestFormats printed.
func readProbes(t testing.TB, file string) map[string]*probe {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]*probe{}
	for _, one := range strings.Split(string(b), "@@\n@@") {
		name, rest, _ := strings.Cut(strings.TrimPrefix(one, "@@"), "\n")
		format, def, ok := strings.Cut(rest, "@@\n")
		if !ok {
			t.Fatalf("%s: %s has no definition", file, name)
		}
		event, err := tracefs.ParseFormat([]byte(format))
		if err != nil {
			t.Fatalf("%s: %s: %v", file, name, err)
		}
		def, _, _ = strings.Cut(def, "\n")
		args := parseDefinition(t, def)
		l, err := newLayout(args, event)
		if err != nil {
			t.Fatalf("%s: %s: %v", file, name, err)
		}
		m[name] = &probe{layout: l, def: definition{name: name, args: args}}
	}
	return m
}

// TestLayout reads the formats of real kernels.
func TestLayout(t *testing.T) {
	files, _ := filepath.Glob("testdata/format/*")
	if len(files) != 4 {
		t.Fatalf("got formats of %d kernels, want 4", len(files))
	}
	for _, file := range files {
		probes := readProbes(t, file)
		for _, name := range []string{"fork", "fork_cwd0", "exec", "exec_argv0", "exec_exe0", "exit", "comm", "ids", "sid"} {
			p := probes[name]
			if p == nil {
				t.Errorf("%s: probe %s is missing", file, name)
				continue
			}
			for i, pl := range p.layout.places {
				// The values follow the common fields and the probed address.
				if pl.off < 16 || int(pl.off)+int(pl.size)*int(pl.count) > p.layout.size {
					t.Errorf("%s: %s: value %d at invalid offset %d", file, name, i, pl.off)
				}
			}
			if p.layout.size > maxRecord {
				t.Errorf("%s: %s: records of %d bytes exceed the limit", file, name, p.layout.size)
			}
		}
	}
}

// record returns the raw record of a probe with the given numbers and texts.
func record(p *probe, numbers map[slot]uint64, texts map[slot]string) []byte {
	raw := make([]byte, p.layout.size)
	binary.NativeEndian.PutUint16(raw, p.layout.id)
	for _, pl := range p.layout.places {
		switch pl.kind {
		case placeString:
			text := texts[pl.slot] + "\x00"
			binary.NativeEndian.PutUint32(raw[pl.off:], uint32(len(raw)|len(text)<<16))
			raw = append(raw, text...)
		case placeByte, placeHalf, placeWord:
			for n := range slot(pl.count) {
				b := raw[int(pl.off)+int(n)*int(pl.size):]
				switch v := numbers[pl.slot+n]; pl.size {
				case 1:
					b[0] = byte(v)
				case 4:
					binary.NativeEndian.PutUint32(b, uint32(v))
				default:
					binary.NativeEndian.PutUint64(b, v)
				}
			}
		}
	}
	return raw
}

// newOfflineSource returns a source with recorded probes, without a kernel.
func newOfflineSource(t testing.TB, file string) (*Source, *cpu, map[string]*probe) {
	probes := readProbes(t, file)
	s := &Source{endings: endings{byPID: map[uint32]ending{}}}
	for n := range families {
		f := &families[n]
		set := &set{family: n, kind: f.kind}
		for _, name := range append([]string{f.name}, partNames(f)...) {
			p := probes[name]
			if p == nil {
				continue
			}
			set.add(p)
			for _, x := range f.texts {
				if strings.HasPrefix(name, f.name+"_"+x.name) {
					set.texts = append(set.texts, setText{x, p.part})
				}
			}
			for int(p.layout.id) >= len(s.byID) {
				s.byID = append(s.byID, nil)
			}
			s.byID[p.layout.id] = p
		}
		s.sets = append(s.sets, set)
	}
	return s, &cpu{}, probes
}

func partNames(f *family) (names []string) {
	for _, x := range f.texts {
		for i := range 9 {
			names = append(names, f.name+"_"+x.name+string(rune('0'+i)))
		}
	}
	return names
}

const testFormats = "testdata/format/6.1"

func TestJoin(t *testing.T) {
	s, c, probes := newOfflineSource(t, testFormats)
	send := func(to engine.Sink, name string, count uint64, numbers map[slot]uint64) {
		s.sample(c, to, &perf.Sample{PID: 5, TID: 5, Time: 1000 + count, Count: count, Raw: record(probes[name], numbers, nil)})
	}
	id := map[slot]uint64{slotTGID: 7, slotTID: 7, slotArgStart: 4096, slotArgEnd: 4096 + 600}
	all := s.sets[familyExec].probes

	t.Run("any order", func(t *testing.T) {
		var l conform.Events
		for i := range all {
			send(&l, all[len(all)-1-i].def.name, 1, id)
		}
		if len(l) != 1 || l[0].PID != 7 || len(l[0].Bytes(engine.FieldArgs)) != 600 || l[0].Task.Truncated != 0 {
			t.Fatalf("got %d events, want one complete EXEC", len(l))
		}
	})
	t.Run("a part is missing", func(t *testing.T) {
		var l conform.Events
		for _, p := range all {
			if p.def.name != "exec_argv0" {
				send(&l, p.def.name, 2, id)
			}
		}
		if len(l) != 0 {
			t.Fatal("got an event before all its parts were read")
		}
		send(&l, "exit", 1, map[slot]uint64{slotTGID: 9, slotTID: 9, slotGroupDead: 1})
		if len(l) != 2 || l[0].Bytes(engine.FieldArgs) != nil || l[1].Kind != engine.KindExit {
			t.Fatalf("got %d events, want an EXEC without arguments and an EXIT", len(l))
		}
	})
	t.Run("the first is missing", func(t *testing.T) {
		var l conform.Events
		send(&l, "exec_argv0", 3, id)
		for _, p := range all {
			send(&l, p.def.name, 4, id)
		}
		if len(l) != 1 || s.lost != 1 {
			t.Fatalf("got %d events, %d lost; want 1 and 1", len(l), s.lost)
		}
	})
	if s.decode != 0 || s.inserted != 4 {
		t.Errorf("got %d inserted, %d not decoded; want 4 and 0", s.inserted, s.decode)
	}
}

// If a task releases or replaces its namespaces or its terminal while the probe reads them, the
// fields are unknown.
func TestGivenUp(t *testing.T) {
	s, c, probes := newOfflineSource(t, testFormats)
	for _, of := range []struct {
		before, after slot
		fields        engine.Fields
	}{
		{slotNSProxy, slotNSProxyAfter, ofNSProxy},
		{slotTTY, slotTTYAfter, engine.FieldTTY.Set()},
	} {
		for _, address := range [][2]uint64{{64, 64}, {64, 0}, {64, 128}} {
			var l conform.Events
			s.sample(c, &l, &perf.Sample{Time: 1, Count: 1, Raw: record(probes["exit"], map[slot]uint64{
				slotTGID: 7, slotTID: 7, slotGroupDead: 1, slotTTY: 8, slotTTYAfter: 8, slotNSProxy: 8, slotNSProxyAfter: 8,
				of.before: address[0], of.after: address[1],
			}, nil)})
			all := ofNSProxy | engine.FieldTTY.Set()
			if address[0] != address[1] {
				all &^= of.fields
			}
			if len(l) != 1 || l[0].Task.Known&(ofNSProxy|engine.FieldTTY.Set()) != all {
				t.Errorf("%s: address %d, then %d: got %d events, known %v", of.fields, address[0], address[1], len(l), l[0].Task.Known)
			}
		}
	}
}

// The record of the last thread can precede or follow the record of its leader. The EXIT needs
// both.
func TestEndings(t *testing.T) {
	s, c, probes := newOfflineSource(t, testFormats)
	var l conform.Events
	n := uint64(0)
	end := func(tid uint64, dead, code uint64) {
		n++
		s.sample(c, &l, &perf.Sample{Time: n, Count: n, Raw: record(probes["exit"], map[slot]uint64{
			slotTGID: 7, slotTID: tid, slotStart: 77, slotGroupDead: dead, slotOwnCode: code,
		}, nil)})
	}
	end(8, 1, 1<<8) // the last thread; the leader's record comes later
	if len(l) != 0 {
		t.Fatal("got an event before its status was known")
	}
	end(7, 0, 5<<8)
	if len(l) != 1 || l[0].Task.Exit.Code() != 5 || l[0].TID != 7 || l[0].Thread {
		t.Fatalf("got %d events, want one EXIT with code 5: %+v", len(l), l)
	}
	end(7, 0, 6<<8) // the leader's record comes first
	end(8, 1, 1<<8)
	if len(l) != 2 || l[1].Task.Exit.Code() != 6 {
		t.Fatalf("got %d events, want 2, the last with code 6", len(l))
	}
	end(8, 1, 1<<8) // the leader's record never arrives
	s.endings.parked[0].Time = 1
	if s.endings.overdue(500e6) != nil {
		t.Error("got an EXIT while the leader's record may still arrive")
	}
	if ev := s.endings.overdue(maxWait + 1); ev == nil || ev.Task.Known.Has(engine.FieldExit) {
		t.Error("got no EXIT, or an EXIT with a status, after the longest wait")
	}
}

// TestGroupStatus tests the first process of a pid namespace in which reboot(2) was called.
func TestGroupStatus(t *testing.T) {
	for _, c := range []struct {
		level, pid uint64
		lacks      slot // first slot that is not fetched
		want       unix.Signal
		certain    bool
	}{
		{level: 0, pid: 1, want: unix.SIGKILL, certain: true},
		{level: 2, pid: 1, want: unix.SIGHUP, certain: true},
		{level: 2, pid: 7, want: unix.SIGKILL, certain: true},
		{level: 2, pid: 1, lacks: slotReboots, want: unix.SIGKILL},
		{level: 2, pid: 7, lacks: slotPIDs, want: unix.SIGKILL},
		{level: pidLevels + 1, pid: 7, want: unix.SIGKILL},
	} {
		r := newTestRecord()
		for s, n := range map[slot]uint64{slotGroupCode: uint64(unix.SIGKILL), slotPIDLevel: c.level, slotPIDs: 3, slotPIDs + 2: c.pid,
			slotReboots: 0, slotReboots + 1: uint64(unix.SIGHUP)} {
			if c.lacks == 0 || s < c.lacks {
				r.set(s, n)
			}
		}
		v := r.values()
		if got, certain := v.groupStatus(); unix.Signal(got) != c.want || certain != c.certain {
			t.Errorf("%+v: got %#x, certain %v", c, got, certain)
		}
	}
}

// Held returns the time of the oldest event that waits for other records.
func TestHeld(t *testing.T) {
	type ids = map[slot]uint64
	s, c, probes := newOfflineSource(t, testFormats)
	s.cpus = []*cpu{c}
	var l conform.Events
	n := uint64(0)
	send := func(name string, values ids) {
		n++
		s.sample(c, &l, &perf.Sample{Time: 100 * n, Count: n, PID: 7, TID: 7, Raw: record(probes[name], values, nil)})
	}
	want := func(what string, want uint64) {
		t.Helper()
		if s.held = s.oldestHeld(); s.held != want {
			t.Errorf("%s: got held time %d, want %d", what, s.held, want)
		}
		if _, some := s.Held(); some != (want != 0) {
			t.Errorf("%s: got held %v", what, some)
		}
	}
	want("nothing read", 0)
	send("exit", ids{slotTGID: 7, slotTID: 8, slotGroupDead: 1})
	want("an end whose status is to come", 100)
	send("exit", ids{slotTGID: 7, slotTID: 7})
	want("the status came", 0)
	send("exec", ids{slotTGID: 9, slotTID: 9})
	want("the first record of several", 300)
	send("exit", ids{slotTGID: 9, slotTID: 9, slotGroupDead: 1})
	want("the next event of that CPU", 0)
}

// With hooks that see only the number of live threads, several threads can seem to be the last one.
// The record of an execve may arrive late.
func TestEndingsByNumber(t *testing.T) {
	e := endings{byPID: map[uint32]ending{}}
	end := func(tid, time uint64) endKind {
		r := newTestRecord()
		r.set(slotTGID, 7)
		r.set(slotTID, tid)
		r.set(slotStart, 1)
		r.set(slotLive, 0)
		r.set(slotSignalFlags, signalGroupExit)
		r.set(slotGroupCode, 5<<8)
		a := assembly{set: &set{slots: *r.slots}, time: time, values: r.values()}
		what, _, _ := e.classify(&a)
		return what
	}
	if end(8, 200) != groupEnded {
		t.Error("got no end of the group")
	}
	e.executed(7, 100) // before the end
	if end(7, 201) != notTheGroup || end(9, 202) != notTheGroup {
		t.Error("got the end of the group twice")
	}
	e.executed(7, 300) // the process executed after the reported end, so it lives
	if end(7, 400) != groupEnded {
		t.Error("got no end of the group after the exec")
	}
}

// An execve changes ids too. Only its EXEC reports the change.
func TestIDs(t *testing.T) {
	for _, tt := range []struct {
		which, owner uint64
		want         engine.IDChange
	}{
		{which: whichUID, want: engine.ChangedUID},
		{which: whichGID, want: engine.ChangedGID},
		{which: whichUID, owner: 128, want: engine.ChangedUID},
		{which: whichUID, owner: 64},
		{which: whichGID, owner: 64 | 3},
		{which: 0},
	} {
		r := newTestRecord()
		r.set(slotWhichID, tt.which)
		r.set(slotTask, 64)
		r.set(slotExecOwner, tt.owner)
		v := r.values()
		if got := v.changedIDs(); got != tt.want {
			t.Errorf("call %#x, mutex owned by %d: got %v, want %v", tt.which, tt.owner, got, tt.want)
		}
	}
}

// Only the first page of the arguments is readable. The event must not contain bytes of the
// previous record.
func TestGuard(t *testing.T) {
	s, c, probes := newOfflineSource(t, testFormats)
	for _, readable := range []int{4096, 1000, 513, 512, 8, 0} {
		c.now.set = nil
		var l conform.Events
		for _, p := range s.sets[familyExec].probes {
			raw := record(probes[p.def.name], map[slot]uint64{slotTGID: 7, slotTID: 7, slotArgStart: 4096, slotArgEnd: 4096 + 2000}, nil)
			for _, pl := range p.layout.places {
				for at := 0; pl.kind == placeChunk && at < chunkSize; at += 8 {
					word := binary.NativeEndian.Uint64([]byte("argument"))
					if int(pl.slot-slotArgv)*chunkSize+at+8 > readable {
						word = guardWord
					}
					binary.NativeEndian.PutUint64(raw[int(pl.off)+at:], word)
				}
			}
			s.sample(c, &l, &perf.Sample{Time: 1, Count: uint64(readable + 1), Raw: raw})
		}
		if len(l) != 1 {
			t.Fatalf("got %d events, want 1", len(l))
		}
		got, cut := string(l[0].Bytes(engine.FieldArgs)), l[0].Task.Truncated.Has(engine.FieldArgs)
		want := strings.Repeat("argument", 250)[:min(readable&^7, 2000)]
		if got != want || cut != (readable < 2000 && readable >= 8) || l[0].Task.Known.Has(engine.FieldArgs) != (readable >= 8) {
			t.Errorf("%d readable bytes: got %d, cut %v", readable, len(got), cut)
		}
	}
}

func TestWarmSourceDoesNotAllocate(t *testing.T) {
	s, c, probes := newOfflineSource(t, testFormats)
	id := map[slot]uint64{slotTGID: 7, slotTID: 7, slotArgStart: 4096, slotArgEnd: 4096 + 200, slotGroupDead: 1}
	var records [][]byte
	for _, f := range []int{familyFork, familyExec, familyExit} {
		for _, p := range s.sets[f].probes {
			records = append(records, record(probes[p.def.name], id, nil))
		}
	}
	ev := new(engine.RawEvent)
	one := &oneEventSink{ev}
	var n uint64
	if a := testing.AllocsPerRun(100, func() {
		n++
		for _, r := range records {
			s.sample(c, one, &perf.Sample{Time: n, Count: n, Raw: r})
		}
	}); a != 0 {
		t.Errorf("got %v allocations for three events, want 0", a)
	}
	if s.inserted != 3*n {
		t.Errorf("got %d events, want %d", s.inserted, 3*n)
	}
}

// oneEventSink is an [engine.Sink] that reuses one event.
type oneEventSink struct{ ev *engine.RawEvent }

func (r *oneEventSink) Room() int                 { return 1 }
func (r *oneEventSink) Reserve() *engine.RawEvent { r.ev.Reset(); return r.ev }
func (r *oneEventSink) Release(*engine.RawEvent)  {}
func (r *oneEventSink) Insert(*engine.RawEvent)   {}

func FuzzRecord(f *testing.F) {
	s, c, probes := newOfflineSource(f, testFormats)
	for name, p := range probes {
		f.Add(record(p, map[slot]uint64{slotTGID: 7, slotTID: 7}, map[slot]string{pathNameSlot(slotCwd, 0, 0): name}), uint64(1))
	}
	f.Fuzz(func(t *testing.T, raw []byte, count uint64) {
		if len(raw) < 2 {
			return
		}
		var l conform.Events
		s.sample(c, &l, &perf.Sample{Time: 1, Count: count, Raw: raw})
		s.finishAll(c, &l)
		for _, ev := range l {
			for _, field := range []engine.Field{engine.FieldComm, engine.FieldExe, engine.FieldArgs, engine.FieldCwd, engine.FieldCgroup} {
				if b := ev.Bytes(field); len(b) > chunks*chunkSize+len(raw) {
					t.Errorf("got %v of %d bytes from a record of %d", field, len(b), len(raw))
				}
			}
			if bytes.IndexByte(ev.Bytes(engine.FieldComm), 0) >= 0 {
				t.Error("got a comm with a NUL")
			}
		}
	})
}

func (s *Source) finishAll(c *cpu, b engine.Sink) {
	if c.now.set != nil {
		s.finish(c, b)
	}
}

// The EXIT of a thread has its own comm and ids, not the leader's.
func TestThreadEnd(t *testing.T) {
	r := newTestRecord()
	for s := range slotArgv {
		r.set(s, 1)
	}
	for s := slotOwnComm; s < numSlots; s++ {
		r.set(s, uint64(s))
	}
	r.set(slotOwnComm, binary.NativeEndian.Uint64([]byte("own name")))
	r.set(slotOwnComm+1, 0)
	own := assembly{set: new(set), values: r.values()}
	own.set.slots = *r.slots
	ev := &engine.RawEvent{Task: engine.Task{Known: engine.AllFields &^ engine.FieldExit.Set()}}
	ev.Set(engine.FieldComm, []byte("leader"))
	own.fillThread(ev)
	if got := string(ev.Bytes(engine.FieldComm)); got != "own name" || ev.Task.Cred.UID != uint32(slotOwnUID) || ev.Task.Caps.Ambient != uint64(slotLeaderSignal-1) {
		t.Errorf("got comm %q, ids %+v, capabilities %+v", got, ev.Task.Cred, ev.Task.Caps)
	}
	if want := ofGroup | engine.FieldsIDs | engine.FieldCaps.Set() | engine.FieldComm.Set(); ev.Task.Known != want {
		t.Errorf("got known %v, want %v", ev.Task.Known, want)
	}
	r.slots[slotOwnUID].fetched = false
	own.fillThread(ev)
	if ev.Task.Known != ofGroup {
		t.Errorf("got known %v without fetched values, want %v", ev.Task.Known, ofGroup)
	}
}

// newExec returns an EXEC with the fields that build fetches, with the given values.
func newExec(build func(*builder), values map[slot]uint64) (ev engine.RawEvent) {
	s := set{kind: engine.KindExec}
	b := builder{kernel: kernel{offsets: &recorder{asked: make(map[string]bool)}, reads: minReads}}
	b.addIdentity()
	build(&b)
	l := layout{}
	for _, a := range b.args {
		n := max(a.count, 1)
		l.places = append(l.places, place{slot: a.slot, off: uint16(l.size), size: 8, kind: placeWord, count: uint8(n)})
		l.size += 8 * n
	}
	s.add(&probe{layout: &l})
	a, raw := new(assembly), make([]byte, l.size)
	a.begin(&s, 1)
	for _, p := range l.places {
		for i := range slot(p.count) {
			binary.NativeEndian.PutUint64(raw[p.off+8*uint16(i):], values[p.slot+i])
		}
	}
	a.values.add(0, raw)
	a.fill(&ev)
	return ev
}

// The pid in the event is the pid in the process's own pid namespace.
func TestPIDNamespace(t *testing.T) {
	for level, want := range [][2]uint32{{0xeffffffc, 4711}, {31, 30}, {33, 32}, {}} {
		ev := newExec(func(b *builder) { b.addPIDNamespace(firstArgument) },
			map[slot]uint64{slotTGID: 4711, slotTID: 4711, slotPIDLevel: uint64(level), slotPIDs: 30, slotPIDs + 1: 31, slotPIDs + 2: 32, slotPIDs + 3: 33})
		known := ev.Task.Known.Has(engine.FieldPIDNS)
		if got := [2]uint32{ev.Task.NS.PID, ev.Task.NSPID}; known != (level <= pidLevels) || known && got != want {
			t.Errorf("level %d: got %v, known %v", level, got, known)
		}
	}
}

// The executable file is unknown if a read failed, if the inode changed between the reads, or if
// stat(2) may return another inode number.
func TestExecutable(t *testing.T) {
	for _, c := range []struct {
		mode, before, after uint64
		magic               uint64
		lacks               []string // members that are not in the kernel's types
		known               bool
	}{
		{mode: 0o104755, before: 7, after: 7, known: true},
		{mode: 0o104755, before: 7, after: 1<<31 | 7, known: true},
		{mode: 0o104755, before: 7, after: 8},
		{},
		{mode: 0o104755, before: 7, after: 7, magic: unix.OVERLAYFS_SUPER_MAGIC, known: true},
		{mode: 0o104755, before: 7, after: 7, magic: unix.TMPFS_MAGIC, lacks: []string{"nsproxy.time_ns"}, known: true},
		{mode: 0o104755, before: 7, after: 7, magic: unix.OVERLAYFS_SUPER_MAGIC, lacks: []string{"nsproxy.time_ns"}},
		{mode: 0o104755, before: 7, after: 7, lacks: []string{"nsproxy.time_ns", "super_block.s_magic"}},
	} {
		build := func(b *builder) {
			b.offsets.(*recorder).lacks = c.lacks
			b.addExecutable()
		}
		ev := newExec(build, map[slot]uint64{slotTGID: 4711, slotTID: 4711, slotExeMode: 0xabcd<<16 | c.mode, slotExeUID: 1, slotExeGID: 2,
			slotExeMagic: c.magic, slotExeDevice: 8<<20 | 300, slotExeInode: 5, slotExeLinks: 1, slotExeBefore: c.before, slotExeCtime: 3, slotExeCtimeNs: c.after})
		want := engine.ExeFile{Inode: 5, Ctime: 3e9 + 7, Device: 1<<20 | 8<<8 | 44, UID: 1, GID: 2, Mode: 0o104755}
		if known := ev.Task.Known.Has(engine.FieldExeFile); known != c.known || known && ev.Task.ExeFile != want {
			t.Errorf("%+v: got %+v, known %v", c, ev.Task.ExeFile, known)
		}
	}
}

// A closed stream has no file, and the values behind it are of an earlier record.
func TestStdio(t *testing.T) {
	const out, err = slotStdio + streamSlots, slotStdio + 2*streamSlots
	values := map[slot]uint64{slotTGID: 4711, slotTID: 4711,
		slotStdio + streamFile: 1, slotStdio + streamMode: 0xabcd<<16 | unix.S_IFSOCK, slotStdio + streamInode: 5, slotStdio + streamDevice: 9,
		slotStdio + streamMagic: unix.SOCKFS_MAGIC, slotStdio + streamFamily: 0xabcd<<16 | unix.AF_INET6,
		out + streamMode: unix.S_IFREG, out + streamInode: 6,
		err + streamFile: 1, err + streamMode: unix.S_IFCHR, err + streamRdev: 136 << 20, err + streamFamily: 7}
	want := [3]engine.Stream{{Inode: 5, Device: 9, Family: unix.AF_INET6, Type: engine.StreamSocket}, {Type: engine.StreamClosed}, {Type: engine.StreamTTY}}
	if got := newExec((*builder).addStdio, values).Task; got.Stdio != want || !got.Known.Has(engine.FieldStdio) {
		t.Errorf("got %+v, want %+v, known %v", got.Stdio, want, got.Known)
	}
	values[err+streamMode] = 0 // the kernel could not read it
	if got := newExec((*builder).addStdio, values).Task; got.Known.Has(engine.FieldStdio) {
		t.Errorf("got %+v for an inode without a mode, want unknown", got.Stdio)
	}
}
