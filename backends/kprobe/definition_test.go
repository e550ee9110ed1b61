package kprobe

import (
	"runtime"
	"testing"
)

// onAMD64 skips a test if its expected texts name registers of amd64.
func onAMD64(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("needs amd64: the expected texts name its registers")
	}
}

func TestExpr(t *testing.T) {
	onAMD64(t)
	task := argument(0)
	for _, tc := range []struct {
		e    expr
		want string
	}{
		{task, "%di"},
		{argument(1), "%si"},
		{argument(2), "%dx"},
		{task.at(0), "+0(%di)"},
		{task.at(16).at(8), "+8(+16(%di))"},
		{task.at(16).at(-24).at(0), "+0(-24(+16(%di)))"},
	} {
		if got := tc.e.String(); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
	// Expressions are values: a longer expression does not change the expression that it starts
	// with.
	a := task.at(1)
	b, c := a.at(2), a.at(3)
	if b.String() != "+2(+1(%di))" || c.String() != "+3(+1(%di))" || a.steps() != 1 {
		t.Error(a, b, c)
	}
}

func TestFetch(t *testing.T) {
	onAMD64(t)
	e := argument(0).at(8)
	for _, tc := range []struct {
		f    fetch
		want string
		size int
	}{
		{fetch{slot: 3, value: e, typ: typeX64, count: 0}, "f3=+8(%di)", 8},
		{fetch{slot: 3, value: e, typ: typeX64, count: 5}, "f3=+8(%di):x64[5]", 40},
		{fetch{slot: 4, value: e, typ: typeU32, count: 0}, "f4=+8(%di):u32", 4},
		{fetch{slot: 4, value: e, typ: typeU32, count: 6}, "f4=+8(%di):u32[6]", 24},
		{fetch{slot: 5, value: e.at(0), typ: typeString, count: 0}, "f5=+0(+8(%di)):string", 260},
		{fetch{slot: 6, value: e, typ: typeExiting, count: 0}, "f6=+8(%di):b1@2/32", 4},
	} {
		if got := tc.f.String(); got != tc.want || tc.f.size() != tc.size {
			t.Errorf("got %q of %d bytes, want %q of %d", got, tc.f.size(), tc.want, tc.size)
		}
	}
}

func TestDefinition(t *testing.T) {
	onAMD64(t)
	d := definition{"g", "n", "f", []fetch{{slot: 1, value: argument(0).at(4), typ: typeS32}, {slot: 2, value: argument(1), typ: typeX64}}, 0}
	if got, want := d.String(), "p:g/n f f1=+4(%di):s32 f2=%si"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	d.place = 0xffffffff81000040
	if got, want := d.String(), "p:g/n 0xffffffff81000040 f1=+4(%di):s32 f2=%si"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := d.removal(); got != "-:g/n" {
		t.Errorf("removal: got %q", got)
	}
	if err := d.check(maxReads); err != nil {
		t.Error(err)
	}
}

func TestLimits(t *testing.T) {
	many := func(n int, f fetch) (args []fetch) {
		for range n {
			args = append(args, f)
		}
		return args
	}
	word := fetch{value: argument(0), typ: typeX64}
	nested := func(n int) expr {
		e := argument(0)
		for range n {
			e = e.at(0)
		}
		return e
	}
	for name, tc := range map[string]struct {
		args []fetch
		ok   bool
	}{
		"most arguments":     {many(128, word), true},
		"too many arguments": {many(129, word), false},
		"most reads":         {many(1, fetch{value: nested(8), typ: typeX64}), true},
		"too many reads":     {many(1, fetch{value: nested(9), typ: typeX64}), false},
		"long argument":      {many(1, fetch{value: argument(0).at(1e9).at(1e9).at(1e9).at(1e9).at(1e9).at(1e9), typ: typeX64}), false},
		"large array":        {many(1, fetch{value: argument(0), typ: typeX64, count: 65}), false},
		"large record":       {many(4, fetch{value: argument(0), typ: typeX64, count: 64}), false},
		"many names":         {many(8, fetch{value: argument(0), typ: typeString}), false},
		"long definition":    {many(100, fetch{slot: 1000, value: nested(8), typ: typeU32}), false},
	} {
		d := definition{"g", "n", "f", tc.args, 0}
		if err := d.check(8); (err == nil) != tc.ok {
			t.Errorf("%s: got error %v, want ok=%v", name, err, tc.ok)
		}
	}
}
