package selection

import (
	"os"
	"path/filepath"
	"testing"
)

// What a file gives as an id is one, or the error has the file and the line.
func TestHostID(t *testing.T) {
	file := filepath.Join(t.TempDir(), "passwd")
	if err := os.WriteFile(file, []byte("plus:x:+7006:1::/:\n #neg:\nnegative:x:2:\n neg:x:-1:7007::/:\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, id, want, err string }{
		{name: "plus", id: "+7006", want: "7006"},
		{name: "max", id: "4294967295", want: "4294967295"},
		{name: "neg", id: "-1", err: file + `:4 gives user "neg" the id "-1", which is none: correct it`},
		{name: "elsewhere", id: "4294974305", err: file + ` gives user "elsewhere" the id "4294974305", which is none: correct it`},
		{name: "17", id: "18", want: "17"},
	} {
		got, err := hostID("user", file, c.name, func() (string, error) { return c.id, nil })
		if got != c.want || err == nil && c.err != "" || err != nil && err.Error() != c.err {
			t.Errorf("%s: %q, %v, not %q, %s", c.name, got, err, c.want, c.err)
		}
	}
}
