package argv

import (
	"slices"
	"strings"
	"testing"
)

func TestEncode(t *testing.T) {
	many := strings.Fields(strings.Repeat("w ", maxWords+2))
	for _, tt := range []struct {
		words []string
		want  string
	}{
		{[]string{"quark-test", "-b", "t_exit*"}, "quark-test -b t_exit%2A"},
		{[]string{"sh", "-c", `echo "a b" 100%`}, "sh -c echo%20%22a%20b%22%20100%25"},
		{[]string{"a", "", "", "b"}, "a%00%00 b"},
		{[]string{"ü", "--"}, "%C3%BC --"},
		{many, strings.Repeat("w ", maxWords-1) + "w%00w%00w"},
	} {
		if got := Encode(tt.words); got != tt.want {
			t.Errorf("%q: %s, want %s", tt.words, got, tt.want)
		}
	}
}

func TestDecode(t *testing.T) {
	for _, tt := range []struct {
		line, bad string
		want      []string
	}{
		{"a%20b %22 100%25", "", []string{"a b", `"`, "100%"}},
		{"a%00b%00%00c d%00", "", []string{"a", "b", "", "c", "d", ""}},
		{"%c3%bc", "", []string{"ü"}},
		{"a%2", "invalid URL escape", nil},
		{"%", "invalid URL escape", nil},
		{"a%zz", "invalid URL escape", nil},
		{"a%+1", "invalid URL escape", nil},
	} {
		got, err := Decode(strings.Fields(tt.line))
		if (err != nil) != (tt.bad != "") || err != nil && !strings.Contains(err.Error(), tt.bad) || !slices.Equal(got, tt.want) {
			t.Errorf("%q: %q, %v; want %q %s", tt.line, got, err, tt.want, tt.bad)
		}
	}
}

// FuzzRoundTrip: Decode returns the arguments of Encode, with any bytes, and the kernel does not
// change the encoded words.
func FuzzRoundTrip(f *testing.F) {
	f.Add("quark-test\x00-b\x00t_exec")
	f.Add("a\x00\x00\"b c\"\x00%\x00\xff\n")
	f.Fuzz(func(t *testing.T, joined string) {
		words := strings.Split(joined, "\x00")
		if words[0] == "" {
			t.Skip("no command")
		}
		line := Encode(words)
		if got := strings.Fields(line); len(got) > maxWords || strings.ContainsAny(line, "\"'\\\n") {
			t.Fatalf("%q: got %q", words, line)
		}
		got, err := Decode(strings.Fields(line))
		if err != nil || !slices.Equal(got, words) {
			t.Errorf("%q: got %q, error %v", words, got, err)
		}
	})
}
