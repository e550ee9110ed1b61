package record

import (
	"bytes"
	"testing"
)

func TestBlobs(t *testing.T) {
	var f Files
	content := make(map[string][]byte)
	var mixed []Blob
	for i, size := range []int{0, 1, blobPart, blobPart + 1, 3*blobPart - 1} {
		name := "cover/" + string(rune('a'+i))
		content[name] = bytes.Repeat([]byte{byte(i), 7}, size)[:size]
		mixed = append(mixed, Blobs(name, content[name])...)
	}
	for i, b := range mixed {
		line, err := Encode(b)
		if err != nil {
			t.Fatal(err)
		}
		rec, err := Decode(line)
		if err != nil {
			t.Fatal(err)
		}
		if i == len(mixed)-1 && f.Missing() != b.Name {
			t.Errorf("before the last part: got missing file %q", f.Missing())
		}
		if err := f.Add(rec.(Blob)); err != nil {
			t.Fatal(err)
		}
	}
	if f.Missing() != "" || len(f.Whole) != len(content) {
		t.Errorf("got missing file %q, %d complete files", f.Missing(), len(f.Whole))
	}
	for name, want := range content {
		if !bytes.Equal(f.Whole[name], want) {
			t.Errorf("%s: %d bytes, want %d", name, len(f.Whole[name]), len(want))
		}
	}
	for _, bad := range []Blob{
		{Name: "../x"}, {Name: "/x"}, {Name: "a//b"}, {Name: ""},
		{Name: "new", Offset: 1, Size: 2}, {Name: "new", Size: -1}, {Name: "new", Size: 1, Data: []byte("xx")}, {Name: "new", Offset: -1, Size: 1}, {Name: "cover/a"},
	} {
		if err := f.Add(bad); err == nil {
			t.Errorf("%+v: got no error", bad)
		}
	}
}
