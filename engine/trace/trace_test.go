package trace

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/quark-linux/quark/engine"
)

// list is a sink that stores events.
type list struct {
	events []*engine.RawEvent
	room   int
}

func (l *list) Room() int                  { return l.room - len(l.events) }
func (l *list) Reserve() *engine.RawEvent  { return new(engine.RawEvent) }
func (l *list) Insert(r *engine.RawEvent)  { l.events = append(l.events, r) }
func (l *list) Release(r *engine.RawEvent) {}

// randomize sets some of the exported numbers and flags below v, half of them to 0.
func randomize(rnd *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				randomize(rnd, v.Field(i))
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			randomize(rnd, v.Index(i))
		}
	case reflect.Bool:
		v.SetBool(rnd.IntN(2) == 0)
	case reflect.Pointer: // the gap
	default:
		n := []uint64{0, 1, uint64(rnd.IntN(100)), rnd.Uint64()}[rnd.IntN(4)]
		if v.CanInt() {
			v.SetInt(int64(int32(n)))
		} else {
			v.SetUint(n & (1<<v.Type().Bits() - 1))
		}
	}
}

func random(rnd *rand.Rand) *engine.RawEvent {
	r := new(engine.RawEvent)
	randomize(rnd, reflect.ValueOf(r).Elem())
	if r.Kind %= engine.NumKinds; r.Kind == engine.KindGap {
		r.Gap = new(engine.Gap)
		randomize(rnd, reflect.ValueOf(r.Gap).Elem())
		r.Gap.Cause %= engine.NumLosses
	}
	var texts engine.Fields
	for _, f := range textFields {
		texts |= f.Set()
	}
	r.Task.Known &= engine.AllFields &^ texts
	for _, f := range textFields {
		if rnd.IntN(2) == 0 {
			r.Set(f, bytes.Repeat([]byte{byte(rnd.IntN(3))}, []int{0, 1, 20, maxKeptLen, 5000}[rnd.IntN(5)]))
		}
	}
	return r
}

// fake is a source for a writer. It has lost 3 events.
type fake struct {
	engine.Source
	unread uint64
}

func (fake) Name() string                          { return "fake" }
func (fake) Capabilities() *engine.CapabilityTable { return new(engine.CapabilityTable) }
func (f fake) Stats() (s engine.SourceStats, err error) {
	s.Produced, s.Lost[engine.LossRingFull], s.Bound, s.Unread = 3, 3, true, f.unread
	return s, nil
}

// A replay has the counters of the source, also if some are 0.
func TestStats(t *testing.T) {
	for _, source := range []fake{{}, {unread: 2}, {unread: 1 << 40}} {
		var b bytes.Buffer
		now := uint64(time.Second)
		w, err := NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		w.Begin(source, engine.NewClock(func() uint64 { return now }, engine.Host{}, engine.Offset{}))
		for range 3 { // each is a block
			now += blockAge
			w.Read(now)
			w.Record(random(rand.New(rand.NewPCG(1, 2))))
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		r, err := NewReader(&b)
		if err != nil {
			t.Fatal(err)
		}
		got := list{room: 9}
		for err == nil {
			r.Arm(true)
			err = r.Populate(&got)
		}
		want, _ := source.Stats()
		if s, _ := r.Stats(); s != want || r.Torn() != nil || len(got.events) != 3 {
			t.Errorf("got counters %+v, error %v, %d events, want counters %+v", s, r.Torn(), len(got.events), want)
		}
	}
}

// Recording a replay gives the same trace, also if the last reads of the source returned no event.
func TestRecordedAgain(t *testing.T) {
	var first, second bytes.Buffer
	now := uint64(time.Second)
	w := newWriter(t, &first, func() uint64 { return now })
	for i := range 3 {
		now += uint64(interval)
		w.Read(now)
		w.Record(random(rand.New(rand.NewPCG(1, uint64(i)))))
	}
	for range 30 {
		now += uint64(interval)
		w.Read(now)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := NewReader(bytes.NewReader(first.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	again, err := NewWriter(&second)
	if err != nil {
		t.Fatal(err)
	}
	clock := r.Clock()
	again.Begin(r, clock)
	for err == nil {
		r.Arm(true)
		again.Read(clock.Now())
		got := list{room: 9}
		err = r.Populate(&got)
		for _, e := range got.events {
			again.Record(e)
		}
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	header := len(firstLine) // after it comes the header, with this machine's kernel
	for _, b := range []*bytes.Buffer{&first, &second} {
		b.Next(header)
		b.Next(int(binary.LittleEndian.Uint32(b.Next(8))))
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Errorf("got %d bytes in the second recording, want %d", second.Len(), first.Len())
	}
}

// newWriter returns a writer after Begin.
func newWriter(t testing.TB, to io.Writer, clock func() uint64) *Writer {
	t.Helper()
	w, err := NewWriter(to)
	if err != nil {
		t.Fatal(err)
	}
	w.Begin(fake{}, engine.NewClock(clock, engine.Host{}, engine.Offset{Boot: 5, WallError: 7, Wall: time.Unix(0, 0)}))
	return w
}

// interval is the default time between two reads.
const interval = 100 * time.Millisecond

// record returns the trace of the given reads of a source.
func record(t testing.TB, every time.Duration, processes []*engine.RawEvent, readings ...[]*engine.RawEvent) []byte {
	t.Helper()
	var b bytes.Buffer
	now := uint64(time.Second)
	w := newWriter(t, &b, func() uint64 { return now })
	for _, r := range processes {
		w.Record(r)
	}
	for _, reading := range readings {
		now += uint64(every)
		w.Read(now)
		for _, r := range reading {
			w.Record(r)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// textFields are the fields that are texts.
var textFields = func() (all []engine.Field) {
	for _, c := range newRow().columns {
		if c.get == nil {
			all = append(all, c.text)
		}
	}
	return all
}()

// equal returns the difference of two events in members that a source may set.
func equal(a, b *engine.RawEvent) string {
	texts := func(r *engine.RawEvent) (all []string) {
		for _, f := range textFields {
			all = append(all, fmt.Sprintf("%q", r.Bytes(f)))
		}
		return all
	}
	return cmp.Diff(a, b, cmpopts.IgnoreUnexported(engine.RawEvent{})) + cmp.Diff(texts(a), texts(b))
}

// A replay returns the recorded events.
func TestRoundTrip(t *testing.T) {
	for seed := range uint64(30) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		var all [][]*engine.RawEvent
		for range 30 {
			var reading []*engine.RawEvent
			for range rnd.IntN(20) {
				reading = append(reading, random(rnd))
			}
			all = append(all, reading)
		}
		r, err := NewReader(bytes.NewReader(record(t, interval, all[0], all[1:]...)))
		if err != nil {
			t.Fatal(err)
		}
		if c, o := r.Clock(), r.Clock().Newest(); c.Now() != uint64(time.Second) || o.Boot != 5 || o.WallError != 7 || !o.Wall.Equal(time.Unix(0, 0)) || r.Name() != "fake" {
			t.Errorf("got offset %+v", o)
		}
		var got list
		if err := r.Scan(func(e *engine.RawEvent) error {
			c := new(engine.RawEvent)
			r.row.fill(c, r.texts)
			got.Insert(c)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for i, reading := range all {
			if i > 0 && len(reading) > 0 {
				got = list{room: len(reading)}
				for at := uint64(time.Second) + uint64(i)*1e8; r.Clock().Now() < at; {
					if len(got.events) > 0 {
						t.Fatalf("got events at %d, before their read", r.Clock().Now())
					}
					r.Arm(true)
					if err := r.Populate(&got); err != nil || r.Clock().Now() > at {
						t.Fatalf("got error %v, at %d", err, r.Clock().Now())
					}
				}
			}
			if len(got.events) != len(reading) {
				t.Fatalf("seed %d: read %d: got %d events, want %d", seed, i, len(got.events), len(reading))
			}
			for k := range reading {
				if diff := equal(reading[k], got.events[k]); diff != "" {
					t.Fatalf("seed %d: event %d of read %d: %s", seed, k, i, diff)
				}
			}
			got.events = nil
		}
		r.Arm(true)
		got.room = 1
		if err := r.Populate(&got); !errors.Is(err, io.EOF) || r.Torn() != nil {
			t.Errorf("at the end: got %v and Torn %v", err, r.Torn())
		}
		want, _ := fake{}.Stats()
		if s, _ := r.Stats(); s != want {
			t.Errorf("got counters %+v", s)
		}
	}
}

// A trace that is truncated, or has a wrong byte, is read up to that point, and the error is
// reported.
func TestTorn(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var readings [][]*engine.RawEvent
	for range 40 { // every 100 ms: a block has ten
		readings = append(readings, []*engine.RawEvent{random(rnd), random(rnd)})
	}
	whole := record(t, interval, nil, readings...)
	read := func(b []byte) (n int, torn error) {
		r, err := NewReader(bytes.NewReader(b))
		if err != nil {
			return 0, err
		}
		got := list{room: 1000}
		for err = error(nil); err == nil; err = r.Populate(&got) {
			r.Arm(true)
		}
		if !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		return len(got.events), r.Torn()
	}
	if n, torn := read(whole); n != 80 || torn != nil {
		t.Fatalf("whole trace: got %d events, error %v", n, torn)
	}
	for _, more := range [][]byte{whole, []byte("x")} {
		if n, torn := read(slices.Concat(whole, more)); n != 80 || torn == nil || !strings.Contains(torn.Error(), "data after the end") {
			t.Errorf("trace and %d bytes: got %d events, error %v", len(more), n, torn)
		}
	}
	most := 0
	for cut := range whole {
		if cut%7 != 0 && cut < len(whole)-20 {
			continue
		}
		n, torn := read(whole[:cut])
		if torn == nil || n < most || n%20 != 0 {
			t.Fatalf("truncated at %d of %d: got %d events, at the previous length %d, error %v", cut, len(whole), n, most, torn)
		}
		most = n
		bad := bytes.Clone(whole)
		bad[cut] ^= 0x10
		if n, torn := read(bad); torn == nil && n != 80 {
			t.Fatalf("wrong byte %d: got %d events, error %v", cut, n, torn)
		}
	}
	if most != 80 {
		t.Errorf("trace without its end: got %d events", most)
	}
}

// A small trace can have many events with one long text. A replay inserts only as many events as
// fit, and texts no longer than a source's texts.
func TestLongTexts(t *testing.T) {
	const events = 10000
	for _, c := range []struct{ long, least, most int }{{maxText, 1000, 1300}, {maxText + 1, 0, 0}} {
		var b bytes.Buffer
		w := newWriter(t, &b, func() uint64 { return 1 })
		w.Read(2)
		w.block = append(w.block, readRecord, 2)
		for i := range events {
			r := &engine.RawEvent{Kind: engine.KindExec, PID: uint32(i), Time: 1}
			r.Grow(engine.FieldArgs, c.long)
			w.block = w.row.append(w.block, r, func([]byte) (uint64, bool) { return 0, i == 0 })
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		r, err := NewReader(&b)
		if err != nil {
			t.Fatal(err)
		}
		to := engine.NewBuffer(events)
		for range 10 {
			r.Populate(to)
			r.Arm(true)
		}
		if n := to.Len(); n < c.least || n > c.most || (r.Torn() != nil) != (c.most == 0) {
			t.Errorf("got %d events with texts of %d bytes, error %v", n, c.long, r.Torn())
		}
	}
	w := newWriter(t, io.Discard, func() uint64 { return 1 })
	r := new(engine.RawEvent)
	r.Grow(engine.FieldArgs, maxText+1)
	if w.Record(r); w.Err() == nil {
		t.Error("a text was recorded that a reader rejects")
	}
}

// FuzzReader reads the input as a trace, and as the records of a block.
func FuzzReader(f *testing.F) {
	rnd := rand.New(rand.NewPCG(1, 2))
	f.Add(record(f, interval, []*engine.RawEvent{random(rnd)}, []*engine.RawEvent{random(rnd), random(rnd)}))
	f.Add([]byte{readRecord, 1, firstColumn + 8, 2, endOfEvent})
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := NewReader(bytes.NewReader(b)); err == nil {
			got := list{room: 100}
			for err = nil; err == nil && got.Room() > 0; err = r.Populate(&got) {
				r.Arm(true)
			}
			r.Close()
		}
		r := &Reader{row: newRow(), cursor: cursor{b: b}}
		for len(r.cursor.b) > 0 {
			event, err := r.next()
			if err != nil {
				break
			}
			if event {
				e := new(engine.RawEvent)
				r.row.fill(e, r.texts)
			}
		}
	})
}

// life returns the events of a short process, as from an eBPF source.
func life(pid uint32, now uint64) []*engine.RawEvent {
	texts := [][]byte{[]byte("sh"), []byte("/usr/bin/true"), []byte("true\x00this\x00is\x00nop!\x00"), []byte("/root"), []byte("/system.slice/cron.service")}
	var l []*engine.RawEvent
	for i, k := range []engine.Kind{engine.KindFork, engine.KindExec, engine.KindExit} {
		r := &engine.RawEvent{Kind: k, PID: pid, TID: pid, CPU: pid % 4, Seq: now + uint64(i), Creator: 1, Time: now + uint64(i)*300_000}
		r.Task = engine.Task{Start: now, StartUnit: 1, PPID: 1, PGID: pid, SID: 1}
		r.Task.Caps.Bounding = 1<<41 - 1
		r.Task.NS = engine.Namespaces{UTS: 4026531838, IPC: 4026531839, Mnt: 4026531841, Net: 4026531840}
		r.Task.Known = engine.AllFields
		if k == engine.KindExit {
			r.Task.Exit.Time = r.Time
		} else {
			r.Task.Known &^= engine.FieldExit.Set()
		}
		for i, v := range texts {
			r.Set(textFields[i], v)
		}
		l = append(l, r)
	}
	return l
}

// lives returns the events of n short processes, 2000 per second, in reads every 10 ms.
func lives(n int) (readings [][]*engine.RawEvent) {
	now := uint64(time.Second)
	for i := range n {
		l := life(uint32(i%30000+2), now+uint64(i)*500_000)
		if i%20 == 0 {
			readings = append(readings, nil)
		}
		readings[len(readings)-1] = append(readings[len(readings)-1], l...)
	}
	return readings
}

// A warm writer allocates nothing.
func TestRecordAllocatesNothing(t *testing.T) {
	w := newWriter(t, io.Discard, func() uint64 { return 0 })
	events, now := life(7, 0), uint64(0)
	step := func() {
		now += 10_000
		w.Read(now)
		for _, r := range events {
			r.Time, r.PID = now, r.PID+1
			w.Record(r)
		}
	}
	for range 50_000 {
		step()
	}
	if n := testing.AllocsPerRun(50_000, step); n != 0 {
		t.Errorf("got %v allocations for three raw events, want none", n)
	}
}

// BenchmarkReplay reports the cost per raw event of a replay through an engine.
func BenchmarkReplay(b *testing.B) {
	const n = 200_000 // with fewer, the growth of the engine takes much of the time
	file := record(b, 10*time.Millisecond, nil, lives(n)...)
	for name, opts := range map[string]engine.Options{"joined": {}, "apart": {Matrix: new(engine.Matrix)}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				r, err := NewReader(bytes.NewReader(file))
				if err != nil {
					b.Fatal(err)
				}
				e, err := engine.New(r, r.Clock(), opts)
				if err != nil {
					b.Fatal(err)
				}
				for !e.Drained() {
					if _, err := e.Get(); err != nil {
						r.Arm(true)
					}
				}
				if s, _ := e.Stats(); s.Insertions != 3*n {
					b.Fatalf("got %+v", s)
				}
			}
			b.ReportMetric(float64(3*n*b.N)/b.Elapsed().Seconds()/1e6, "Mraw/s")
			b.ReportMetric(float64(len(file))/(3*n), "bytes/raw")
		})
	}
}

// A replay has the recorded offsets of the clock, and each offset begins at its recorded event.
func TestClockChange(t *testing.T) {
	var b bytes.Buffer
	now := uint64(time.Second)
	first := engine.Offset{Boot: 5, WallError: 7, Wall: time.Unix(-3, 0)}
	clock := engine.NewClock(func() uint64 { return now }, engine.Host{}, first)
	w, err := NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	w.Begin(fake{}, clock)
	want := []engine.Offset{first}
	for i := range uint64(3) {
		now += uint64(time.Second)
		w.Read(now)
		o := engine.Offset{From: now - 1, Boot: 1 << i, WallError: 3, Wall: time.Unix(-int64(i), 1<<i)}
		clock.Add(o)
		want = append(want, o)
		w.Record(random(rand.New(rand.NewPCG(1, i))))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := NewReader(&b)
	if err != nil {
		t.Fatal(err)
	}
	got := list{room: 100}
	for err == nil {
		r.Arm(true)
		err = r.Populate(&got)
	}
	if !errors.Is(err, io.EOF) || len(got.events) != 3 {
		t.Fatalf("got %d events, error %v", len(got.events), err)
	}
	for _, o := range want {
		if diff := cmp.Diff(r.Clock().Offset(o.From), o); diff != "" {
			t.Error(diff)
		}
	}
}
