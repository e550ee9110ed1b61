package owner

import "testing"

func FuzzParse(f *testing.F) {
	f.Add("quark_1_2_3")
	f.Add("quark_0_2_3")
	f.Fuzz(func(t *testing.T, s string) {
		if o, _, ok := Parse(s); ok && o.pid <= 0 {
			t.Errorf("Parse(%q): got pid %d", s, o.pid)
		}
	})
}

func TestOwner(t *testing.T) {
	me, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	name := me.Name(7)
	if len(name) > 63 { // MAX_EVENT_NAME_LEN is 64
		t.Errorf("%q is too long", name)
	}
	if o, number, ok := Parse(name); !ok || o != me || me.State() != Alive || me.Name(number) != name {
		t.Errorf("got owner %v from the name of %v, state %v", o, me, me.State())
	}
	other := me
	other.start++
	if other.State() != Gone {
		t.Error("another process with the same pid is not Gone")
	}
	for _, bad := range []string{"", "quark", "quark_1_2", "quark_1_2_3_4", "quark_x_2_3", "kprobes", "quark_-1_2_3", "quark_1_2_3 "} {
		if _, _, ok := Parse(bad); ok {
			t.Errorf("Parse(%q): got ok", bad)
		}
	}
}
