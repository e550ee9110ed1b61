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
