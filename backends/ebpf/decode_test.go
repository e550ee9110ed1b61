package ebpf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"testing"
	"unsafe"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"golang.org/x/sys/unix"
)

// record returns the bytes of a record. The texts are in the order of textFields; they precede the
// executable.
func record(e programsEvent, texts ...text) []byte {
	b := append([]byte(nil), unsafe.Slice((*byte)(unsafe.Pointer(&e)), eventSize)...)
	for _, t := range texts {
		b = binary.LittleEndian.AppendUint32(b, t.length)
		b = binary.LittleEndian.AppendUint32(b, uint32(t.form))
	}
	if len(texts) == len(textFields) {
		x := programsExecutable{Inode: 41, CtimeSec: 42, CtimeNsec: 43, Device: 254<<20 | 300, Uid: 44, Gid: 45, Mode: 0o104755}
		b = append(b, unsafe.Slice((*byte)(unsafe.Pointer(&x)), unsafe.Sizeof(x))...)
	}
	return b
}

// exampleExec returns an exec record with all texts.
func exampleExec() []byte {
	e := programsEvent{
		Time: 5, Start: 4, Kind: programsEventKindEVENT_EXEC, Known: programsEventKnownKNOWN_CPU_TIME - 1 | programsEventKnownKNOWN_STDIO, Cpu: 3, Tgid: 10, Tid: 10,
		Ppid: 9, Pgid: 8, Sid: 7, Uid: 1, Gid: 2, Suid: 3, Sgid: 4, Euid: 5, Egid: 6,
		Caps: [5]uint64{1, 2, 3, 4, 5}, TtyMajor: 136, TtyMinor: 1, Uts: 21, Ipc: 22, Mnt: 23, Net: 24, LoginUid: 31, AuditSession: 32,
		Pidns: 25, Userns: 26, Cgroupns: 27, Timens: 28, NsPid: 29,
	}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&e.Comm)), 16), "true")
	b := record(e, text{7, programsTextFormTEXT_BYTES}, text{9, programsTextFormTEXT_PATH},
		text{0, programsTextFormTEXT_PATH}, text{6, programsTextFormTEXT_PATH_CUT}, text{7, programsTextFormTEXT_BYTES})
	b = append(b, "true\x00a\x00true\x00bin\x00abc\x00d\x00./true\x00gap"...)
	streams := [3]programsStream{{Inode: 7, Device: 9, Magic: unix.SOCKFS_MAGIC, Mode: unix.S_IFSOCK, Detail: unix.AF_INET}, {},
		{Inode: 8, Device: 6, Mode: unix.S_IFCHR, Rdev: 136<<20 | 1}}
	return append(b, unsafe.Slice((*byte)(unsafe.Pointer(&streams)), unsafe.Sizeof(streams))...)
}

func TestDecode(t *testing.T) {
	var ev engine.RawEvent
	if err := decode(&ev, exampleExec(), nil); err != nil {
		t.Fatal(err)
	}
	if ev.Kind != engine.KindExec || ev.PID != 10 || ev.TID != 10 || ev.CPU != 3 || ev.Time != 5 || ev.Thread {
		t.Errorf("got event %+v", ev)
	}
	if ev.Task.Known != engine.AllFields&^(engine.FieldsUsage|engine.FieldEnviron.Set()) || ev.Task.Truncated != engine.FieldCgroup.Set() {
		t.Errorf("got known %v, truncated %v", ev.Task.Known, ev.Task.Truncated)
	}
	if want := (engine.Credentials{UID: 1, GID: 2, SUID: 3, SGID: 4, EUID: 5, EGID: 6}); ev.Task.Cred != want {
		t.Errorf("got ids %v, want %v", ev.Task.Cred, want)
	}
	if want := (engine.Capabilities{Inheritable: 1, Permitted: 2, Effective: 3, Bounding: 4, Ambient: 5}); ev.Task.Caps != want {
		t.Errorf("got capabilities %v, want %v", ev.Task.Caps, want)
	}
	if want := (engine.Login{UID: 31, Session: 32}); ev.Task.Login != want {
		t.Errorf("got login %v, want %v", ev.Task.Login, want)
	}
	x := engine.ExeFile{Inode: 41, Ctime: 42e9 + 43, Device: 1<<20 | 254<<8 | 44, UID: 44, GID: 45, Mode: 0o104755, Removed: true}
	if got := ev.Task.ExeFile; got != x || got.Major() != 254 || got.Minor() != 300 {
		t.Errorf("got executable %+v, want %+v", got, x)
	}
	streams := [3]engine.Stream{{Inode: 7, Device: 9, Family: unix.AF_INET, Type: engine.StreamSocket}, {Type: engine.StreamClosed}, {Inode: 8, Device: 6, Type: engine.StreamTTY}}
	if ev.Task.Stdio != streams {
		t.Errorf("got streams %+v, want %+v", ev.Task.Stdio, streams)
	}
	for f, want := range map[engine.Field]string{
		engine.FieldComm: "true", engine.FieldArgs: "true\x00a\x00", engine.FieldExe: "/bin/true",
		engine.FieldCwd: "/", engine.FieldCgroup: "d/abc", engine.FieldExecPath: "./true",
	} {
		if got := string(ev.Bytes(f)); got != want {
			t.Errorf("%v: got %q, want %q", f, got, want)
		}
	}
}

// The environment follows the texts. Only the requested variables are decoded.
func TestDecodeEnviron(t *testing.T) {
	e := programsEvent{Kind: programsEventKindEVENT_EXEC, Known: programsEventKnownKNOWN_ENVIRON}
	none := text{0, programsTextFormTEXT_UNKNOWN}
	asked, err := (&source.Environ{Names: []string{"A*", "KEY"}}).Compile()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ all, whole, cut string }{
		{"", "", ""},
		{"A=1\x00B=2\x00A2\x00KEY=3\x00A=\x00", "A=1\x00A2\x00KEY=3\x00A=\x00", "A=1\x00A2\x00KEY=3\x00A=\x00"},
		{"KEY=half", "KEY=half\x00", "KEY=half"},
		{"B=\x00A=half", "A=half\x00", "A=half"},
		{"A=1\x00KE", "A=1\x00", "A=1\x00"},
		{"A=1\x00A2", "A=1\x00A2\x00", "A=1\x00"},
		{"A\xff=\n\x00\x00", "A\xff=\n\x00", "A\xff=\n\x00"},
	} {
		for _, cut := range []bool{false, true} {
			e.Known &^= programsEventKnownKNOWN_ENVIRON_CUT
			want := c.whole
			if cut {
				e.Known |= programsEventKnownKNOWN_ENVIRON_CUT
				want = c.cut
			}
			var ev engine.RawEvent
			if err := decode(&ev, append(record(e, none, none, none, none, none), c.all...), asked); err != nil {
				t.Fatal(err)
			}
			f := engine.FieldEnviron
			if got := string(ev.Bytes(f)); got != want || !ev.Task.Known.Has(f) || ev.Task.Truncated.Has(f) != cut {
				t.Errorf("%q, cut %v: got %q, want %q; task %+v", c.all, cut, got, want, ev.Task)
			}
		}
	}
}

// A failed exec of a path relative to a descriptor is reported with /dev/fd/N, like the kernel's
// name for it.
func TestDecodeFailedExec(t *testing.T) {
	const cwd = ^uint32(99) // AT_FDCWD
	for _, c := range []struct {
		dir        uint32
		form       programsTextForm
		path, want string
	}{
		{cwd, programsTextFormTEXT_BYTES, "a\x00", "a"},
		{cwd, programsTextFormTEXT_BYTES, "\x00", ""},
		{7, programsTextFormTEXT_BYTES, "\x00", "/dev/fd/7"},
		{7, programsTextFormTEXT_BYTES_CUT, "a/b\x00", "/dev/fd/7/a/b"},
		{1<<32 - 1, programsTextFormTEXT_BYTES, "a\x00", "/dev/fd/-1/a"},
		{7, programsTextFormTEXT_BYTES, "/a\x00", "/a"},
		{7, programsTextFormTEXT_UNKNOWN, "", ""},
	} {
		e := programsEvent{Kind: programsEventKindEVENT_EXEC_FAILED, Tgid: 10, Tid: 11, WaitStatus: -13, Tracer: c.dir}
		none := text{0, programsTextFormTEXT_UNKNOWN}
		var ev engine.RawEvent
		if err := decode(&ev, append(record(e, none, text{uint32(len(c.path)), c.form}, none, none, none), c.path...), nil); err != nil {
			t.Fatal(err)
		}
		f, s := engine.FieldExe, &ev.Task
		known := c.form != programsTextFormTEXT_UNKNOWN
		if ev.Kind != engine.KindExecFailed || ev.TID != 11 || ev.Thread || ev.Errno != 13 || ev.Tracer.PID != 0 || ev.Tracer.TID != 0 ||
			string(ev.Bytes(f)) != c.want || s.Known.Has(f) != known || s.Cached.Has(f) != known ||
			s.Truncated.Has(f) != (c.form == programsTextFormTEXT_BYTES_CUT) {
			t.Errorf("%+v: got path %q, event %+v", c, ev.Bytes(f), ev)
		}
	}
}

// TestKnownFields checks that the constants allKnown and allFields agree with knownFields.
// decodeTask compares all bits at once.
func TestKnownFields(t *testing.T) {
	var bits programsEventKnown
	var fields engine.Fields
	for _, k := range knownFields {
		if bits&k.bit != 0 || fields&k.fields != 0 {
			t.Errorf("knownFields has %v twice", k)
		}
		bits |= k.bit
		fields |= k.fields
	}
	if bits != allKnown || fields != allFields {
		t.Errorf("constants: bits %#x, want %#x; fields %v, want %v", bits, allKnown, fields, allFields)
	}
}

func TestDecodeText(t *testing.T) {
	for _, tc := range []struct {
		name string
		form programsTextForm
		in   string
		want string // "?" means unknown
		cut  bool
		err  error
	}{
		{"unknown", programsTextFormTEXT_UNKNOWN, "", "?", false, nil},
		{"root", programsTextFormTEXT_PATH, "", "/", false, nil},
		{"one", programsTextFormTEXT_PATH, "a\x00", "/a", false, nil},
		{"three", programsTextFormTEXT_PATH, "ccc\x00bb\x00a\x00", "/a/bb/ccc", false, nil},
		{"empty name", programsTextFormTEXT_PATH, "\x00a\x00", "/a/", false, nil},
		{"cut", programsTextFormTEXT_PATH_CUT, "ccc\x00bb\x00", "bb/ccc", true, nil},
		{"cut at once", programsTextFormTEXT_PATH_CUT, "", "?", false, nil},
		{"cut before an empty name", programsTextFormTEXT_PATH_CUT, "\x00", "", true, nil},
		{"file without a directory", programsTextFormTEXT_BYTES, "memfd:x\x00", "memfd:x", false, nil},
		{"not terminated", programsTextFormTEXT_PATH, "abc", "", false, errPath},
		{"form", 99, "abc", "", false, errForm},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var ev engine.RawEvent
			err := decodeText(&ev, engine.FieldExe, tc.form, []byte(tc.in))
			if !errors.Is(err, tc.err) {
				t.Fatalf("got error %v, want %v", err, tc.err)
			}
			got := string(ev.Bytes(engine.FieldExe))
			if !ev.Task.Known.Has(engine.FieldExe) {
				got = "?"
			}
			if err == nil && (got != tc.want || ev.Task.Truncated.Has(engine.FieldExe) != tc.cut) {
				t.Errorf("got %q (cut %v), want %q (cut %v)", got, ev.Task.Truncated.Has(engine.FieldExe), tc.want, tc.cut)
			}
		})
	}
}

func TestDecodeUsage(t *testing.T) {
	x := programsExitEvent{Event: programsEvent{Kind: programsEventKindEVENT_EXIT, Known: programsEventKnownKNOWN_ENVIRON - 1}}
	u := &x.Usage
	u.Run, u.Utime, u.Stime, u.PeakRss, u.Rchar, u.Wchar, u.ReadBytes, u.WriteBytes = 1000, 3, 1, 2, 11, 12, 13, 14
	all := unsafe.Slice((*byte)(unsafe.Pointer(&x)), exitSize)
	var ev engine.RawEvent
	if err := decode(&ev, all, nil); err != nil {
		t.Fatal(err)
	}
	want := engine.Usage{UserTime: 750, SystemTime: 250, PeakRSS: 2 * pageSize, RChar: 11, WChar: 12, ReadBytes: 13, WriteBytes: 14}
	if ev.Usage != want || ev.Task.Known&engine.FieldsUsage != engine.FieldsUsage {
		t.Errorf("got %+v, known %v, want %+v", ev.Usage, ev.Task.Known, want)
	}
	x.Event.Known = 0
	ev.Reset()
	if err := decode(&ev, all, nil); err != nil || ev.Usage != (engine.Usage{}) || ev.Task.Known != 0 {
		t.Errorf("got %+v, known %v, error %v, want no usage", ev.Usage, ev.Task.Known, err)
	}
	for n := eventSize + 1; n < exitSize; n++ {
		if err := decode(&ev, all[:n], nil); err == nil {
			t.Errorf("decoded %d bytes of a record of %d bytes without an error", n, exitSize)
		}
	}
}

func TestDecodeNSChange(t *testing.T) {
	x := programsNsEvent{Event: programsEvent{Kind: programsEventKindEVENT_NS_CHANGE, Known: allKnown, Uts: 1, Mnt: 3, Pidns: 5}, Changed: 1<<2 | 1<<4}
	for i := range x.Now.Of {
		x.Old.Of[i], x.Now.Of[i] = uint32(i+1), uint32(i+11)
	}
	all := unsafe.Slice((*byte)(unsafe.Pointer(&x)), nsSize)
	var ev engine.RawEvent
	want := engine.NSChange{Changed: engine.ChangedMnt | engine.ChangedPID, Old: engine.Namespaces{Mnt: 3, PID: 5}, NewPID: 15}
	if err := decode(&ev, all, nil); err != nil || ev.NSChange != want || ev.Task.NS != (engine.Namespaces{UTS: 1, Mnt: 13, PID: 5}) {
		t.Errorf("got %+v, %+v, error %v, want %+v", ev.NSChange, ev.Task.NS, err, want)
	}
	if err := decode(new(engine.RawEvent), all[:nsSize-8], nil); err == nil {
		t.Error("decoded a short record without an error")
	}
}

func TestDecodeRefuses(t *testing.T) {
	whole := exampleExec()
	for n := range whole {
		if n == eventSize {
			continue // a record without texts
		}
		var ev engine.RawEvent
		if err := decode(&ev, whole[:n], nil); err == nil {
			t.Errorf("decoded the first %d bytes of a record of %d bytes without an error", n, len(whole))
		}
	}
	var ev engine.RawEvent
	if err := decode(&ev, append(whole, 0), nil); err == nil {
		t.Error("decoded a record with an extra byte without an error")
	}
	if err := decode(&ev, record(programsEvent{Kind: programsEventKindEVENT_KINDS}), nil); err == nil {
		t.Error("decoded a record of an unknown kind without an error")
	}
}

// slowJoin is a naive joinPath.
func slowJoin(b []byte, cut bool) string {
	if len(b) == 0 {
		return "/"
	}
	names := strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
	var path string
	for i := len(names) - 1; i >= 0; i-- {
		path += "/" + names[i]
	}
	if cut {
		path = path[1:]
	}
	return path
}

func FuzzJoinPath(f *testing.F) {
	f.Add([]byte("a\x00b\x00"), false)
	f.Add([]byte(""), false)
	f.Add([]byte("\x00\x00"), true)
	f.Fuzz(func(t *testing.T, b []byte, cut bool) {
		if len(b) > 0 {
			b = append(b[:len(b):len(b)], 0)
		} else if cut {
			return
		}
		dst := make([]byte, pathLen(b, cut))
		joinPath(dst, b)
		if want := slowJoin(b, cut); string(dst) != want {
			t.Errorf("%q (cut %v): got %q, want %q", b, cut, dst, want)
		}
	})
}

func FuzzDecode(f *testing.F) {
	environ, err := (&source.Environ{Names: []string{"*"}}).Compile()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(exampleExec())
	f.Add(exampleExec()[:eventSize])
	x := programsExitEvent{Event: programsEvent{Kind: programsEventKindEVENT_EXIT, Known: programsEventKnownKNOWN_ENVIRON - 1}}
	f.Add(bytes.Clone(unsafe.Slice((*byte)(unsafe.Pointer(&x)), exitSize)))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		var ev engine.RawEvent
		if err := decode(&ev, b, environ); err != nil {
			return
		}
		for _, field := range []engine.Field{engine.FieldComm, engine.FieldExe, engine.FieldArgs, engine.FieldCwd, engine.FieldCgroup} {
			if len(ev.Bytes(field)) > len(b) {
				t.Errorf("%v is longer than the record", field)
			}
		}
		if ev.Task.Truncated&^ev.Task.Known != 0 {
			t.Errorf("fields marked as truncated that are unknown: %v", ev.Task.Truncated&^ev.Task.Known)
		}
	})
}

func TestDecodeAllocatesNothing(t *testing.T) {
	var ev engine.RawEvent
	b := exampleExec()
	if n := testing.AllocsPerRun(1000, func() {
		ev.Reset()
		if decode(&ev, b, nil) != nil {
			t.Fatal("decode failed")
		}
	}); n != 0 {
		t.Errorf("got %v allocations for each record, want 0", n)
	}
}

func BenchmarkDecode(b *testing.B) {
	var ev engine.RawEvent
	rec := exampleExec()
	b.ReportAllocs()
	for b.Loop() {
		ev.Reset()
		decode(&ev, rec, nil)
	}
}

// newMemoryRing returns a ring in memory, and its data.
func newMemoryRing(size int) (*ring, []byte) {
	page, data := os.Getpagesize(), make([]byte, size)
	return newRing(make([]byte, page), make([]byte, page), &window{part: data}, uint32(size)), data
}

// newFileRing returns a ring in a file, and its data. The ring maps one page of the file at a time.
func newFileRing(t *testing.T) (*ring, []byte) {
	page := os.Getpagesize()
	fd, err := unix.MemfdCreate("ring", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Ftruncate(fd, int64(6*page)); err != nil {
		t.Fatal(err)
	}
	data, err := unix.Mmap(fd, int64(2*page), 4*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(data) })
	w := &window{fd: fd, before: int64(2 * page), size: uint64(page)}
	t.Cleanup(w.unmap)
	return newRing(make([]byte, page), make([]byte, page), w, uint32(4*page)), data
}

// TestRing reads records that wrap around the end of the ring or of a mapped part, at every offset,
// with discarded and busy records between them.
func TestRing(t *testing.T) {
	t.Run("whole", func(t *testing.T) {
		r, data := newMemoryRing(4096)
		testRing(t, r, data, 50)
	})
	t.Run("in parts", func(t *testing.T) {
		r, data := newFileRing(t)
		testRing(t, r, data, 3*os.Getpagesize()-100)
	})
}

func testRing(t *testing.T, r *ring, data []byte, longest int) {
	size := uint64(len(data))
	put := func(header uint32, b string) {
		at := *r.producer & r.mask
		all := append(binary.LittleEndian.AppendUint32(nil, header|uint32(len(b))), 0, 0, 0, 0)
		all = append(all, b...)
		for i, c := range all {
			data[(at+uint64(i))%size] = c
		}
		*r.producer += uint64(len(all)+7) &^ 7
	}
	for i := range 3000 {
		want := strings.Repeat(string(rune('a'+i%26)), i*(longest/50)%longest+i%50)
		put(recordDiscard, "not this one")
		put(0, want)
		if got := r.next(); string(got) != want {
			t.Fatalf("record %d: got %q, want %q", i, got, want)
		}
		busyAt := *r.producer & r.mask
		put(recordBusy, "later")
		if got := r.next(); got != nil || !r.pending(false) {
			t.Fatalf("read record %q before it was complete", got)
		}
		binary.LittleEndian.PutUint32(data[busyAt:], 5)
		if got := r.next(); string(got) != "later" {
			t.Fatalf("got record %q, want \"later\"", got)
		}
		if r.next() != nil || r.pending(false) {
			t.Fatal("the ring has more records than were written")
		}
		r.release()
	}
	// The header's length exceeds the bytes in the ring.
	for _, length := range []uint32{100, uint32(size), 1<<30 - 1} {
		binary.LittleEndian.PutUint32(data[r.at&r.mask:], length)
		*r.producer = r.at + 16
		if got := r.next(); got != nil {
			t.Errorf("got a record of %d bytes, want nil", len(got))
		}
	}
	*r.producer = r.at + 1<<40
	if r.next() != nil {
		t.Error("got a record that extends beyond the ring")
	}
}

// If a part of the ring cannot be mapped, reading ends with the error.
func TestWindowFails(t *testing.T) {
	r, _ := newFileRing(t)
	*r.producer = 16
	r.data.fd = -1
	s := &Source{buffer: r, control: &control{nudged: new(uint32)}, counters: new(counters)}
	for range 2 {
		if err := s.Populate(engine.NewBuffer(1)); !errors.Is(err, unix.EBADF) || !r.pending(false) {
			t.Errorf("got error %v at position %d", err, r.at)
		}
	}
}

func TestRingSize(t *testing.T) {
	for _, tc := range []struct {
		size, cpus int
		want       int
	}{
		{0, 1, 4 << 20}, {0, 8, 4 << 20}, {0, 9, 8 << 20}, {0, 64, 32 << 20}, {0, 1000, 64 << 20},
		{1, 1, os.Getpagesize()}, {1<<20 + 1, 1, 2 << 20},
	} {
		got, err := ringSize(Options{RingSize: tc.size}, tc.cpus)
		if err != nil || got != tc.want {
			t.Errorf("size %d on %d CPUs: got %d, error %v, want %d", tc.size, tc.cpus, got, err, tc.want)
		}
	}
}
