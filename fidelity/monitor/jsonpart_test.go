package monitor

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
)

// whole returns the result of package json, without unwanted members.
func whole(text []byte, w wanted) (any, error) {
	in := json.NewDecoder(bytes.NewReader(text))
	in.UseNumber()
	var v any
	if err := in.Decode(&v); err != nil {
		return nil, err
	}
	return trim(v, w, false), nil
}

func trim(v any, w wanted, all bool) any {
	switch v := v.(type) {
	case map[string]any:
		for name, x := range v {
			if sub, ok := w[name]; ok || all {
				v[name] = trim(x, sub, all || sub == nil)
			} else {
				delete(v, name)
			}
		}
	case []any:
		for i := range v {
			v[i] = trim(v[i], nil, all)
		}
	}
	return v
}

func wantedOf(paths ...string) wanted {
	w := make(wanted)
	for _, p := range paths {
		w.add(p)
	}
	return w
}

func TestReadPart(t *testing.T) {
	w := wantedOf("a/b", "c", "a/d/e", "c/x", "f/g", "f")
	for _, c := range []struct{ text, want string }{
		{`{"a":{"b":1,"d":{"e":"x","y":[1,{"z":"}"}]},"z":-1.5e3},"c":{"x":1,"all":[1,"2",null,true,{"q":false}]},"n":"no"}`,
			`{"a":{"b":1,"d":{"e":"x"}},"c":{"x":1,"all":[1,"2",null,true,{"q":false}]}}`},
		{` { "z" : { } , "c" : "\u00e9\n\"" } x`, `{"c":"\u00e9\n\""}`},
		{`{"f":{"g":1,"h":2}}`, `{"f":{"g":1,"h":2}}`},
		{`{"a":[{"b":1}]}`, `{"a":[{}]}`},
		{`[]`, `[]`},
	} {
		got, err := readPart([]byte(c.text), w)
		var want any
		in := json.NewDecoder(strings.NewReader(c.want))
		in.UseNumber()
		if err := in.Decode(&want); err != nil {
			t.Fatal(err)
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, %v, want %v", c.text, got, err, want)
		}
	}
	for _, text := range []string{``, `{`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,}`, `{"a" 1}`, `{a:1}`, `{"c":01}`, `{"c":tru}`, `{"c":"`, `{"c":[1`, `{"z":}`, `{"z":,}`,
		`{"c":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}`} {
		if v, err := readPart([]byte(text), w); err == nil {
			t.Errorf("%s: no error, but %v", text, v)
		}
	}
}

// FuzzReadPart compares readPart with package json for objects.
func FuzzReadPart(f *testing.F) {
	b, err := os.ReadFile("testdata/quark-mon.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	line, _, _ := bytes.Cut(b, []byte("\n"))
	f.Add(line)
	f.Add([]byte(`{"a":{"b":"\ud800","d":[1e5,{"e":0}]},"c":{"x":[]}}`))
	w := wantedOf("a/b", "c", "a/d/e", "process/pid", "process/exit", "events")
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := readPart(text, w)
		want, err2 := whole(text, w)
		if _, isObject := want.(map[string]any); !isObject || err2 != nil || err == errDepth {
			return
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%v, %v, want %v", got, err, want)
		}
	})
}
