package kprobe

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/quark-linux/quark/backends/internal/perf"
	"github.com/quark-linux/quark/fidelity/conform"
)

// testRecord is the one record of a set, made up slot by slot.
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

// TestTextOutside has texts that begin or end behind their record.
func TestTextOutside(t *testing.T) {
	r := newTestRecord()
	r.setText(slotGroupName, "name")
	v := r.values()
	if got := string(v.name(slotGroupName)); got != "name" {
		t.Fatalf("%q", got)
	}
	for _, where := range []uint32{0, uint32(len(r.raw)) | 1<<16, uint32(len(r.raw)-2) | 3<<16, 0xffffffff} {
		binary.NativeEndian.PutUint32(r.raw[8*slotGroupName:], where)
		if got := v.name(slotGroupName); got != nil {
			t.Errorf("%#x: %q", where, got)
		}
	}
}

// TestKeep has a ring take the memory of records back between those of one event.
func TestKeep(t *testing.T) {
	for _, keep := range []bool{false, true} {
		s, c, probes := offline(t, testFormats)
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
			t.Fatalf("%d events", len(l))
		}
		if right := l[0].PID == 7 && l[0].Task.Cred.UID == 5; right != keep {
			t.Errorf("kept %v: pid %d, uid %d", keep, l[0].PID, l[0].Task.Cred.UID)
		}
	}
}
