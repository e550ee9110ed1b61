package auditrule

import (
	"bytes"
	"reflect"
	"testing"
)

func example() Rule {
	r := Rule{List: ListExit, Action: Always, Fields: []Field{
		{Field: FieldArch, Value: 0xc000003e}, {Field: 105, Text: "/etc/"}, {Field: FieldSuccess, Value: 1}, {Field: FieldKey, Text: "some key"},
	}}
	r.Select(59)
	r.Select(322)
	return r
}

// A rule is decoded and encoded to the same bytes.
func TestRule(t *testing.T) {
	want := example()
	b := want.Bytes()
	got, err := Parse(append(bytes.Clone(b), 0, 0, 0)) // messages are padded
	if err != nil || got.Key() != "some key" || !got.Selects(59) || !got.Selects(322) || got.Selects(60) || got.Selects(1<<31) {
		t.Errorf("got %+v, error %v", got, err)
	}
	for i := range want.Fields {
		if hasText(want.Fields[i].Field) {
			want.Fields[i].Value = uint32(len(want.Fields[i].Text))
		}
	}
	if !reflect.DeepEqual(got, want) || !bytes.Equal(got.Bytes(), b) {
		t.Errorf("%+v, not %+v", got, want)
	}
	for _, n := range []int{0, 12, len(b) - 1} {
		if _, err := Parse(b[:n]); err == nil {
			t.Errorf("%d bytes were parsed as a rule", n)
		}
	}
}

func FuzzParse(f *testing.F) {
	r := example()
	f.Add(r.Bytes())
	f.Add(r.Bytes()[:100])
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Parse(b)
		if err != nil {
			return
		}
		again, err := Parse(r.Bytes())
		if err != nil || !reflect.DeepEqual(again, r) {
			t.Errorf("%+v: got %+v, error %v", r, again, err)
		}
	})
}

func FuzzStatus(f *testing.F) {
	f.Add(uint16(messageGet), make([]byte, 44))
	f.Fuzz(func(t *testing.T, kind uint16, b []byte) {
		if _, ok := parseStatus(kind, b); ok && len(b) < 28 {
			t.Errorf("%d bytes were parsed as a status", len(b))
		}
	})
}
