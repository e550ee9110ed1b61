package kprobe

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/quark-linux/quark/backends/internal/perf"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/conform"
)

// testRecord is a set with one record. Tests set its slots one by one.
type testRecord struct {
	slots *slotPlaces
	raw   []byte
}

func newTestRecord() *testRecord { return &testRecord{new(slotPlaces), make([]byte, 8*numSlots)} }

func (r *testRecord) set(s slot, n uint64) {
	r.slots[s] = slotPlace{fetched: true, kind: placeWord, off: 8 * uint16(s)}
	binary.NativeEndian.PutUint64(r.raw[8*s:], n)
}

func (r *testRecord) setText(s slot, text string) {
	r.slots[s] = slotPlace{fetched: true, kind: placeString, off: 8 * uint16(s)}
	binary.NativeEndian.PutUint32(r.raw[8*s:], uint32(len(r.raw)|(len(text)+1)<<16))
	r.raw = append(r.raw, text+"\x00"...)
}

func (r *testRecord) values() (v values) {
	v.slots = r.slots
	v.add(0, r.raw)
	return v
}

// The position of a text begins or ends outside of the record.
func TestTextOutside(t *testing.T) {
	r := newTestRecord()
	r.setText(slotGroupName, "name")
	v := r.values()
	if got := string(v.name(slotGroupName)); got != "name" {
		t.Fatalf("got %q, want name", got)
	}
	for _, where := range []uint32{0, uint32(len(r.raw)) | 1<<16, uint32(len(r.raw)-2) | 3<<16, 0xffffffff} {
		binary.NativeEndian.PutUint32(r.raw[8*slotGroupName:], where)
		if got := v.name(slotGroupName); got != nil {
			t.Errorf("%#x: got %q, want nil", where, got)
		}
	}
}

// The ring reuses the memory of a record before the next record of the event is read. So the record
// must be copied.
func TestKeep(t *testing.T) {
	for _, keep := range []bool{false, true} {
		s, c, probes := newOfflineSource(t, testFormats)
		id := map[slot]uint64{slotTGID: 7, slotTID: 7, slotUID: 5}
		var l conform.Events
		all := s.sets[familyFork].probes
		for i, p := range all {
			raw := record(probes[p.def.name], id, nil)
			s.sample(c, &l, &perf.Sample{Time: 1, Count: 1, Raw: raw})
			if i == len(all)-1 {
				break
			}
			if keep {
				c.now.values.keep()
			}
			copy(raw, bytes.Repeat([]byte{0xff}, len(raw)))
		}
		if len(l) != 1 {
			t.Fatalf("got %d events, want 1", len(l))
		}
		if right := l[0].PID == 7 && l[0].Task.Cred.UID == 5; right != keep {
			t.Errorf("keep=%v: got pid %d, uid %d", keep, l[0].PID, l[0].Task.Cred.UID)
		}
	}
}

// The I/O sum of released threads includes the I/O of children that were waited for.
func TestIO(t *testing.T) {
	const own, leader, sum = 1, 20, 300 // bytes
	for _, c := range []struct {
		name                               string
		threads, released                  uint64 // live threads; ns of released threads
		childUser, childSystem, childPages uint64
		want                               uint64 // 0 means unknown
	}{
		{name: "one thread", threads: 1, want: own + sum},
		{name: "others were released", threads: 1, released: 5, want: own + sum},
		{name: "a leader is left", threads: 2, released: 5, want: own + leader + sum},
		{name: "a child", threads: 1, childUser: 1, childPages: 1, want: own},
		{name: "a child, and a leader is left", threads: 2, childSystem: 1, want: own + leader},
		{name: "a child that took no time", threads: 1, childPages: 1, want: own},
		{name: "both", threads: 1, released: 5, childUser: 1},
		{name: "both, in the kernel", threads: 2, released: 5, childSystem: 1},
		{name: "both, without time", threads: 1, released: 5, childPages: 1},
	} {
		r := newTestRecord()
		r.set(slotThreads, c.threads)
		r.set(slotReleasedUse+useRun, c.released)
		r.set(slotChildTimes, c.childUser)
		r.set(slotChildTimes+1, c.childSystem)
		r.set(slotChildRSS, c.childPages)
		for n := slot(useRChar); n <= useWriteBytes; n++ {
			r.set(slotOwnUse+n, own)
			r.set(slotLeaderUse+n, leader)
			r.set(slotReleasedUse+n, sum)
		}
		ev, v := engine.RawEvent{Task: engine.Task{Known: engine.FieldsUsage}}, r.values()
		setIO(&ev, &v)
		want := engine.RawEvent{Task: engine.Task{Known: engine.FieldsUsage}, Usage: engine.Usage{RChar: c.want, WChar: c.want, ReadBytes: c.want, WriteBytes: c.want}}
		if c.want == 0 {
			want.Task.Known &^= engine.FieldIO.Set()
		}
		if ev.Usage != want.Usage || ev.Task.Known != want.Task.Known {
			t.Errorf("%s: got %+v, known %v, want %d", c.name, ev.Usage, ev.Task.Known, c.want)
		}
	}
}
