package cnproc

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/quark-linux/quark/backends/source"
)

// record returns the datagram of a proc_event with the given union.
func record(what What, cpu, seq uint32, time uint64, union ...uint32) []byte {
	b := make([]byte, sizeMessage)
	le := binary.NativeEndian
	le.PutUint32(b, uint32(len(b)))
	le.PutUint16(b[4:], nlmsgDone)
	le.PutUint32(b[16:], cnIdxProc)
	le.PutUint32(b[20:], cnValProc)
	le.PutUint32(b[24:], seq)
	le.PutUint16(b[32:], sizeEvent)
	le.PutUint32(b[offEvent:], uint32(what))
	le.PutUint32(b[offEvent+4:], cpu)
	le.PutUint64(b[offEvent+8:], time)
	for i, v := range union {
		le.PutUint32(b[offUnion+4*i:], v)
	}
	return b
}

func TestDecode(t *testing.T) {
	base := message{cpu: 3, seq: 9, time: 77, tid: 11, pid: 10}
	with := func(f func(*message)) message { m := base; f(&m); return m }
	for _, c := range []struct {
		what  What
		union []uint32
		want  message
	}{
		{Fork, []uint32{2, 1, 11, 10}, with(func(m *message) { m.ppid, m.parentTID = 1, 2 })},
		{Exec, []uint32{11, 10}, base},
		{UID, []uint32{11, 10, 5, 6}, with(func(m *message) { m.args = [2]uint32{5, 6} })},
		{GID, []uint32{11, 10, 5, 6}, with(func(m *message) { m.args = [2]uint32{5, 6} })},
		{SID, []uint32{11, 10}, base},
		{Ptrace, []uint32{11, 10, 5, 6}, with(func(m *message) { m.args = [2]uint32{5, 6} })},
		{Comm, []uint32{11, 10, 0x64636261, 0x68676665, 0x6c6b6a69, 0x6f6e6d}, with(func(m *message) { copy(m.comm[:], "abcdefghijklmno") })},
		{CoreDump, []uint32{11, 10, 2, 1}, with(func(m *message) { m.ppid = 1 })},
		{Exit, []uint32{11, 10, 0x8b, 17, 2, 1}, with(func(m *message) { m.status, m.exitSignal, m.ppid = 0x8b, 17, 1 })},
	} {
		c.want.what = c.what
		var m message
		b := record(c.what, 3, 9, 77, c.union...)
		if err := m.decode(b); err != nil || m != c.want {
			t.Errorf("0x%x: %+v, %v; want %+v", uint32(c.what), m, err, c.want)
		}
		for n := range sizeMessage {
			if err := m.decode(b[:n]); err == nil {
				t.Errorf("0x%x: got %d accepted bytes", uint32(c.what), n)
			}
		}
	}
}

func TestDecodeErrors(t *testing.T) {
	put := func(off int, v byte) []byte {
		b := record(Exec, 0, 0, 0, 11, 10)
		b[off] = v
		return b
	}
	for name, c := range map[string]struct {
		data []byte
		want error
	}{
		"another netlink type":  {put(4, 2), errNotOurs},
		"another connector":     {put(16, 2), errNotOurs},
		"another value":         {put(20, 2), errNotOurs},
		"length beyond the end": {put(0, 200), errDecode},
		"length too small":      {put(0, 20), errDecode},
		"payload beyond":        {put(32, 41), errDecode},
		"payload too small":     {put(32, 39), errDecode},
		"unknown kind":          {record(0x400, 0, 0, 0, 11, 10), errDecode},
		"two kinds":             {record(Exec|Fork, 0, 0, 0, 11, 10), errDecode},
		"no process":            {record(Exec, 0, 0, 0, 0, 10), errDecode},
		"absurd processor":      {record(Exec, 1<<31, 0, 0, 11, 10), errDecode},
	} {
		var m message
		if err := m.decode(c.data); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, w := range []What{whatAck, Fork, Exec, UID, GID, SID, Ptrace, Comm, CoreDump, Exit} {
		f.Add(record(w, 1, 2, 3, 11, 10, 12, 13, 14, 15))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m message
		if m.decode(b) == nil && m.what != whatAck && (m.pid == 0 || m.tid == 0 || m.cpu >= maxCPU) {
			t.Errorf("%+v", m)
		}
	})
}

// FuzzMessages sends arbitrary datagrams to the source behind the decoder.
func FuzzMessages(f *testing.F) {
	f.Add(append(record(Fork, 0, 1, 3, 1, 1, 11, 10), record(Exit, 0, 2, 3, 11, 10)...))
	f.Add(append(record(Exit, 0, 9, 3, 10, 10, 5), record(Exit, 0, 2, 3, 11, 10)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := offline(Options{}, source.Options{Threads: true})
		s.to = &sink{room: 1 << 20}
		for n := 1; len(b) > 0; n++ {
			size := min(len(b), sizeMessage)
			s.message(b[:size], true)
			b = b[size:]
			if len(s.track.threads.In) > n {
				t.Fatalf("got %d threads after %d messages", len(s.track.threads.In), n)
			}
		}
		s.release()
		for _, p := range s.track.byPID.In {
			if int(p.live) > len(s.track.threads.In) {
				t.Fatalf("got %[2]d known threads, want %[1]d", p.live, len(s.track.threads.In))
			}
		}
	})
}
