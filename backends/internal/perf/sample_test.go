package perf

import (
	"encoding/binary"
	"slices"
	"testing"
)

func sample(raw string) []byte {
	e := binary.NativeEndian
	var b []byte
	b = e.AppendUint32(b, 11)
	b = e.AppendUint32(b, 12)
	b = e.AppendUint64(b, 13)
	b = e.AppendUint32(b, 14)
	b = e.AppendUint32(b, 0)
	b = e.AppendUint64(b, 15)
	b = e.AppendUint32(b, uint32(len(raw)))
	return append(b, raw...)
}

func TestParseSample(t *testing.T) {
	whole := sample("four")
	var s Sample
	if err := s.ParseSample(whole); err != nil {
		t.Fatal(err)
	}
	if s.PID != 11 || s.TID != 12 || s.Time != 13 || s.CPU != 14 || s.Count != 15 || string(s.Raw) != "four" {
		t.Errorf("got sample %+v", s)
	}
	for n := range whole {
		if s.ParseSample(whole[:n:n]) == nil {
			t.Errorf("parsed %d of %d bytes without an error", n, len(whole))
		}
	}
}

// output returns written as the kernel returns a program's output, with padding.
func output(written string) []byte {
	e := binary.NativeEndian
	b := e.AppendUint32(nil, 0)
	b = e.AppendUint32(b, uint32(len(written)))
	b = append(b, written...)
	for len(b)%8 != 0 {
		b = append(b, 0xff)
	}
	e.PutUint32(b, uint32(len(b)-4))
	return b
}

func TestParseOutput(t *testing.T) {
	for _, written := range []string{"", "7 bytes", "8 bytes.", "9 bytes.."} {
		whole := output(written)
		if got, err := ParseOutput(whole); err != nil || string(got) != written || cap(got) != len(written) {
			t.Errorf("%q: got %q, error %v", written, got, err)
		}
		for n := range whole {
			if _, err := ParseOutput(whole[:n:n]); err == nil {
				t.Errorf("%q: parsed %d of %d bytes without an error", written, n, len(whole))
			}
		}
		binary.NativeEndian.PutUint32(whole[4:], uint32(len(whole)-7))
		if _, err := ParseOutput(whole); err == nil {
			t.Errorf("%q: parsed a length beyond the kernel's without an error", written)
		}
	}
}

func FuzzParseOutput(f *testing.F) {
	f.Add(output(""))
	f.Add(output("some bytes"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, err := ParseOutput(b); err == nil && len(got)+8 > len(b) {
			t.Error("got more output than the record has bytes")
		}
	})
}

func TestParseCPUs(t *testing.T) {
	for _, tc := range []struct {
		list string
		want []int
		ok   bool
	}{
		{"0\n", []int{0}, true},
		{"0-3,8\n", []int{0, 1, 2, 3, 8}, true},
		{"", nil, true},
		{"1-0", nil, false},
		{"0,", nil, false},
		{"a", nil, false},
		{"0-999999999", nil, false},
	} {
		got, err := ParseCPUs(nil, tc.list)
		if (err == nil) != tc.ok || tc.ok && !slices.Equal(got, tc.want) {
			t.Errorf("%q: got %v, error %v", tc.list, got, err)
		}
	}
}

func FuzzParseSample(f *testing.F) {
	f.Add(sample(""))
	f.Add(sample("some bytes"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s Sample
		if s.ParseSample(b) == nil && len(s.Raw) > len(b) {
			t.Error("got more data than the record has bytes")
		}
	})
}

func FuzzParseCPUs(f *testing.F) {
	f.Add("0-3,8\n")
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) < 40 {
			ParseCPUs(nil, s)
		}
	})
}
