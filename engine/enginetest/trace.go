package enginetest

import (
	"bytes"
	"os"
	"testing"

	"github.com/quark-linux/quark/engine/trace"
)

// Trace returns a source that replays a file of quark-mon -w at full speed. The test fails if the
// file can't be read to its end.
func Trace(t testing.TB, file string) *trace.Reader {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r, err := trace.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	t.Cleanup(func() {
		if err := r.Torn(); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		r.Close()
	})
	return r
}
