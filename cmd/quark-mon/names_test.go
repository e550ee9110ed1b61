package main

import (
	"testing"

	"github.com/quark-linux/quark"
)

func TestAppendNames(t *testing.T) {
	p := new(quark.Process)
	p.Login.UID = quark.LoginUnset
	const line = `{"a":1}` + "\n"
	for _, c := range []struct {
		known quark.Fields
		want  string
	}{
		{0, line},
		{quark.SetOf(quark.FieldLogin), line},
		{quark.SetOf(quark.FieldUIDs), `{"a":1,"user":"root","euser":"root"}` + "\n"},
		{quark.SetOf(quark.FieldGIDs), `{"a":1,"group":"root","egroup":"root"}` + "\n"},
	} {
		p.Known = c.known
		if got := string(appendNames([]byte(line), quark.NewNames(), p)); got != c.want {
			t.Errorf("of %v: %s, not %s", c.known, got, c.want)
		}
	}
	if got := string(appendNames([]byte(line), quark.NewNames(), nil)); got != line {
		t.Error(got)
	}
}

// latin names every id in latin-1.
type latin struct{}

func (latin) User(*quark.Process, uint32) string  { return "j\xfcrgen" }
func (latin) Group(*quark.Process, uint32) string { return "group" }

// A name that is not UTF-8 has a twin with its bytes.
func TestAppendNamesNotUTF8(t *testing.T) {
	p := new(quark.Process)
	p.Known = quark.SetOf(quark.FieldUIDs, quark.FieldGIDs)
	const user = `"j\ufffdrgen"`
	const want = `{"a":1,"user":` + user + `,"user_b64":"avxyZ2Vu","euser":` + user + `,"euser_b64":"avxyZ2Vu","group":"group","egroup":"group"}` + "\n"
	if got := string(appendNames([]byte(`{"a":1}`+"\n"), latin{}, p)); got != want {
		t.Errorf("%s, not %s", got, want)
	}
}
