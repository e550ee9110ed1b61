package debian

import "testing"

func TestCodename(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"NAME=x\nVERSION_CODENAME=bookworm\n", "bookworm"},
		{"VERSION_CODENAME=\"trixie\"", "trixie"},
		{"NAME=x\n", ""},
	} {
		if got, err := codename(c.text); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q: got %q, error %v", c.text, got, err)
		}
	}
}
