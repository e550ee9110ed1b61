package quark

import (
	"encoding/binary"
	"testing"
)

func TestParseFileCaps(t *testing.T) {
	for attribute, want := range map[string]FileCaps{
		// setcap cap_net_raw+ep
		"\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00": {Permitted: 1 << 13, Effective: true},
		// setcap cap_bpf,cap_chown+ip -n 100000
		"\x00\x00\x00\x03\x01\x00\x00\x00\x01\x00\x00\x00\x80\x00\x00\x00\x80\x00\x00\x00\xa0\x86\x01\x00": {
			Permitted: 1<<39 | 1, Inheritable: 1<<39 | 1, Root: 100000},
	} {
		if got, ok := parseFileCaps([]byte(attribute)); !ok || got != want {
			t.Errorf("%x: %+v, %v", attribute, got, ok)
		}
		for n := range attribute {
			if got, ok := parseFileCaps([]byte(attribute[:n])); ok || got != (FileCaps{}) {
				t.Errorf("%d bytes of %x: %+v, %v", n, attribute, got, ok)
			}
		}
	}
}

// What is accepted is written back as it was.
func FuzzParseFileCaps(f *testing.F) {
	for _, n := range []int{0, 12, 19, 20, 21, 23, 24, 25} {
		for version := range byte(5) {
			b := make([]byte, n)
			if n > 3 {
				b[3] = version
			}
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, ok := parseFileCaps(b)
		if !ok {
			if c != (FileCaps{}) {
				t.Fatalf("%+v of what makes no sense", c)
			}
			return
		}
		again := append([]byte(nil), b[:4]...)
		for _, v := range []uint64{c.Permitted, c.Inheritable, c.Permitted >> 32, c.Inheritable >> 32} {
			again = binary.LittleEndian.AppendUint32(again, uint32(v))
		}
		if b[3] == 3 {
			again = binary.LittleEndian.AppendUint32(again, c.Root)
		}
		if string(again) != string(b) || c.Effective != (b[0]&1 != 0) {
			t.Fatalf("%x is read as %+v", b, c)
		}
	})
}
