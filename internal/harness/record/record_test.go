package record

import (
	"bytes"
	"errors"
	"math/rand"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// samples of each type, as Decode returns them.
var samples = []any{
	Hello{Kernel: "6.1.0", Arch: "amd64", CPUs: 2, Features: map[string]bool{"btf": true, "bpf": false}},
	Plan{Jobs: []Job{{"t_a", "ebpf"}, {"t @ b", "none"}}},
	Start{Test: "t_a", Backend: "ebpf"},
	Result{Test: "t_a", Backend: "ebpf", State: Fail, Reason: "lost \"3\"\n", DurationMS: 7, Log: "ü\x00"},
	Blob{Name: "cov/a", Offset: 48, Size: 144, Data: []byte{0, 1, 255, '\n'}},
	Output{FD: 2, Data: []byte("a\r\n\x00")},
	End{Status: 139, Signal: 11, CoreDumped: true, DurationMS: 5, Error: "x"},
}

func TestRoundTrip(t *testing.T) {
	for _, want := range samples {
		line, err := Encode(want)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Count(line, []byte("\n")) != 1 || line[len(line)-1] != '\n' {
			t.Errorf("not one line: %q", line)
		}
		got, err := Decode(line)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if _, err := Encode(3); err == nil {
		t.Error("a number: got no error")
	}
	if _, err := Encode(Result{Log: strings.Repeat("x", MaxLine)}); err == nil {
		t.Error("a line longer than MaxLine: got no error")
	}
}

// TestForm pins the form of the lines, because other programs read them.
func TestForm(t *testing.T) {
	for _, tt := range []struct {
		record any
		want   string
	}{
		{End{Status: 3, DurationMS: 5}, `{"type":"end","status":3,"duration_ms":5,"crc":"4d133c64"}`},
		{End{Status: 125, Error: "mount \"x\"\nfailed"}, `{"type":"end","status":125,"duration_ms":0,"error":"mount \"x\"\nfailed","crc":"258c6e67"}`},
		{Hello{Kernel: "6.1.0"}, `{"type":"hello","kernel":"6.1.0","version":"","arch":"","cpus":0,"memory_kb":0,"features":null,"crc":"25164f1c"}`},
	} {
		got, err := Encode(tt.record)
		if err != nil || string(got) != tt.want+"\n" {
			t.Errorf("got  %swant %s, %v", got, tt.want, err)
		}
	}
}

// TestEveryFlipIsFound: a changed bit or a missing byte is always detected.
func TestEveryFlipIsFound(t *testing.T) {
	line, err := Encode(samples[3])
	if err != nil {
		t.Fatal(err)
	}
	line = line[:len(line)-1]
	for i := range line {
		for bit := range 8 {
			b := bytes.Clone(line)
			b[i] ^= 1 << bit
			if _, err := Decode(b); !errors.Is(err, ErrDamaged) {
				t.Fatalf("bit %d of byte %d flipped: got error %v", bit, i, err)
			}
		}
		if _, err := Decode(append(bytes.Clone(line[:i]), line[i+1:]...)); !errors.Is(err, ErrDamaged) {
			t.Fatalf("without byte %d: got error %v", i, err)
		}
	}
}

// TestSplitter: the records do not depend on how the bytes are cut, and garbage between them loses
// no record.
func TestSplitter(t *testing.T) {
	var stream []byte
	var want []any
	for i, rec := range samples {
		line, err := Encode(rec)
		if err != nil {
			t.Fatal(err)
		}
		stream = append(stream, line...)
		want = append(want, rec)
		if i%2 == 0 {
			stream = append(stream, "\xff garbage {\n\n"...)
			want = append(want, nil)
		}
	}
	stream = append(stream, `{"type":"en`...)
	want = append(want, nil)
	random := rand.New(rand.NewSource(1))
	for range 100 {
		var got []any
		collect := func(rec any, err error) {
			if (rec == nil) != errors.Is(err, ErrDamaged) {
				t.Fatalf("got record %v, error %v", rec, err)
			}
			got = append(got, rec)
		}
		var s Splitter
		for rest := stream; len(rest) > 0; {
			n := min(len(rest), 1+random.Intn(40))
			s.Feed(rest[:n], collect)
			rest = rest[n:]
		}
		s.Flush(collect)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}
}

func TestSplitterIsBounded(t *testing.T) {
	var s Splitter
	damaged := 0
	for range 5 {
		s.Feed(make([]byte, MaxLine/2), func(any, error) { damaged++ })
	}
	if damaged != 1 || cap(s.rest) > 4*MaxLine {
		t.Errorf("got %d damaged lines, %d buffered bytes", damaged, cap(s.rest))
	}
}

func FuzzDecode(f *testing.F) {
	for _, rec := range samples {
		line, err := Encode(rec)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(line)
	}
	f.Add([]byte(`{,"crc":"00000000"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		rec, err := Decode(line)
		if (rec == nil) == (err == nil) {
			t.Fatalf("got record %v, error %v", rec, err)
		}
		if err != nil {
			return
		}
		again, err := Encode(rec)
		if err != nil {
			return // a longer form of an escape may not fit
		}
		second, err := Decode(again)
		if err != nil || !cmp.Equal(rec, second) {
			t.Fatalf("%v: got %v, error %v", rec, second, err)
		}
	})
}

func TestCutLog(t *testing.T) {
	if got := CutLog("abc\n", 4); got != "abc\n" {
		t.Errorf("%q", got)
	}
	if got, want := CutLog("line 1\nline 2\nline 3\n", 10), "[14 bytes omitted]\nline 3\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
