package auditrecord

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		text string
		want Record
		good bool
	}{
		{"audit(1795347948.563:5): arch=c000003e", Record{Syscall, 1795347948563, 5, []byte("arch=c000003e")}, true},
		{"audit(1795347948.563:4294967295): \x00", Record{Syscall, 1795347948563, 1<<32 - 1, []byte{}}, true},
		{"audit(0.000:0):", Record{Syscall, 0, 0, []byte{}}, true},
		{text: "audit(1795347948.56:5): x=1"},
		{text: "audit(1795347948.563:4294967296): x=1"},
		{text: "audit(99999999999999.563:1): x=1"},
		{text: "audit(1795347948:5): x=1"},
		{text: "audit(-1.563:5): x=1"},
		{text: "audit(1795347948.563:5"},
		{text: "audit"},
		{text: ""},
	} {
		var r Record
		if err := r.Parse(Syscall, []byte(c.text)); (err == nil) != c.good {
			t.Errorf("%q: got error %v", c.text, err)
		} else if c.good && (r.Type != c.want.Type || r.Time != c.want.Time || r.Serial != c.want.Serial || !bytes.Equal(r.Body, c.want.Body)) {
			t.Errorf("%q: got %+v", c.text, r)
		}
	}
}

func list(body string) string {
	var b strings.Builder
	r := Record{Body: []byte(body)}
	for m := r.Members(); ; {
		name, value, ok := m.Next()
		if !ok {
			return b.String()
		}
		fmt.Fprintf(&b, "%s:%s;", name, value)
	}
}

func TestMembers(t *testing.T) {
	for body, want := range map[string]string{
		`a=1 b="x y" c=6120 d=(none)`: `a:1;b:"x y";c:6120;d:(none);`,
		`  a1[1]=62  x y=`:            `a1[1]:62;y:;`,
		`a="open`:                     "",
		`=1 a=2`:                      "a:2;",
		"":                            "",
		"word":                        "",
	} {
		if got := list(body); got != want {
			t.Errorf("%q: %q, not %q", body, got, want)
		}
	}
}

func TestText(t *testing.T) {
	for value, want := range map[string]string{
		`"plain"`: "plain", `""`: "", "612062": "a b", "FF0a": "\xff\n", "(null)": "?", "(none)": "?", "616": "?", "": "?", `"`: "?", "6x": "?",
	} {
		got, ok := AppendText([]byte("."), []byte(value))
		if want == "?" && (ok || string(got) != ".") || want != "?" && (!ok || string(got) != "."+want) {
			t.Errorf("%q: got %q, %v", value, got, ok)
		}
	}
}

func TestArguments(t *testing.T) {
	for _, c := range []struct {
		name    string
		records []string
		limit   int
		want    string
		cut     bool
		bad     bool
	}{
		{name: "three", records: []string{`argc=3 a0="/bin/true" a1=612062 a2="plain"`}, want: "/bin/true\x00a b\x00plain\x00"},
		{name: "none", records: []string{"argc=0"}},
		{name: "an empty one", records: []string{`argc=2 a0="x" a1=""`}, want: "x\x00\x00"},
		{name: "a long one in digits", records: []string{`argc=3 a0="x" a1_len=12 a1[0]=616161`, ` a1[1]=626262`, `a2="y"`}, want: "x\x00aaabbb\x00y\x00"},
		{name: "a long one in quotes", records: []string{`argc=1 a0_len=6 a0[0]="aaa"`, `a0[1]="bbb"`}, want: "aaabbb\x00"},
		{name: "in two records", records: []string{`argc=2 a0="x"`, `a1="y"`}, want: "x\x00y\x00"},
		{name: "cut", records: []string{`argc=2 a0="abc" a1="def"`}, limit: 5, want: "abc\x00d", cut: true},
		{name: "no record", bad: true},
		{name: "one is missing", records: []string{`argc=2 a0="x"`}, bad: true},
		{name: "the first record is missing", records: []string{`a1="y"`}, bad: true},
		{name: "a record in the middle is missing", records: []string{`argc=3 a0="x"`, `a2="y"`}, bad: true},
		{name: "a part is missing", records: []string{`argc=2 a0_len=18 a0[0]=616161`, ` a0[2]=626262 a1="y"`}, bad: true},
		{name: "the last part is missing", records: []string{`argc=1 a0_len=12 a0[0]=616161`}, bad: true},
		{name: "no text", records: []string{`argc=1 a0=(null)`}, bad: true},
	} {
		a := Arguments{Limit: c.limit, Text: []byte("of before"), bad: true}
		a.Reset()
		for _, r := range c.records {
			a.Add(&Record{Type: Execve, Body: []byte(r)})
		}
		if a.Complete() == c.bad || !c.bad && (string(a.Text) != c.want || a.Cut != c.cut) {
			t.Errorf("%s: got %q, cut %v; bad record: %v", c.name, a.Text, a.Cut, c.bad)
		}
	}
}

// The calls of an ABI and of its neighbour differ, and each ABI has all calls.
func TestCalls(t *testing.T) {
	if ABIAMD64.Call(59) != Exec || ABI386.Call(59) != NoCall || ABIARM64.Call(220) != Clone || ABI(1).Call(59) != NoCall {
		t.Error("two calls are confused")
	}
	for _, arch := range []string{"amd64", "arm64"} {
		for _, abi := range Native(arch) {
			calls := slices.Collect(maps.Values(abi.Calls()))
			for c := Exec; c <= SetSID; c++ {
				some := slices.Contains(calls, c)
				if want := c != Fork || abi != ABIARM64; some != want {
					t.Errorf("%#x: call %d: got found %v", abi, c, some)
				}
			}
		}
	}
}

// FuzzRecord decodes arbitrary input as a record, and as arguments. The seeds are records of a
// guest.
func FuzzRecord(f *testing.F) {
	b, err := os.ReadFile("testdata/records")
	if err != nil {
		f.Fatal(err)
	}
	for line := range bytes.Lines(b) {
		_, text, _ := bytes.Cut(line, []byte{' '}) // the name of the type
		f.Add(bytes.TrimPrefix(text, []byte("msg=")))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var r Record
		if r.Parse(Execve, text) != nil {
			return
		}
		a := Arguments{Limit: 100}
		a.Add(&r)
		a.Add(&r)
		a.Complete()
		if len(a.Text) > a.Limit {
			t.Errorf("got %d bytes of arguments", len(a.Text))
		}
		total := 0
		for m := r.Members(); ; {
			name, value, ok := m.Next()
			if !ok {
				break
			}
			total += len(name) + len(value)
			if text, ok := AppendText(nil, value); ok && len(text) > len(value) {
				t.Errorf("%q: got text %q", value, text)
			}
		}
		if total > len(r.Body) {
			t.Errorf("got %d bytes of members in a body of %d", total, len(r.Body))
		}
	})
}
