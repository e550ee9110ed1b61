package monitor

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
	"github.com/quark-linux/quark/internal/golden"
)

// sample decodes testdata/NAME.sample, which is output of the monitor, and compares the events with
// testdata/NAME.golden.
func sample(t *testing.T, m *Monitor, wrong int) {
	t.Helper()
	b, err := os.ReadFile("testdata/" + m.Name + ".sample")
	if err != nil {
		t.Fatal(err)
	}
	d, out, split := m.Decoder(), Output{}, m.split()
	for len(b) > 0 {
		n, line, _ := split(b, true)
		if n == 0 {
			break
		}
		if err := d.Decode(line, 1, &out); err != nil {
			t.Log(err)
			wrong--
		}
		b = b[n:]
	}
	if wrong != 0 {
		t.Errorf("number of invalid lines differs from want by %d", wrong)
	}
	var text strings.Builder
	for _, ev := range out.Events {
		fmt.Fprintf(&text, "%s %d", ev.Events, ev.Process.PID)
		for f := range engine.Field(engine.NumFields) {
			if !ev.Process.Known.Has(f) {
				continue
			}
			v := truth.ValueOf(ev.Process, f)
			if f == engine.FieldExit {
				v = fmt.Sprintf("%#x", ev.Process.Task.Exit.WaitStatus)
			}
			fmt.Fprintf(&text, " %s=%q", f, v)
			if ev.Process.Truncated.Has(f) {
				fmt.Fprint(&text, " (cut)")
			}
		}
		if ev.IDChange != 0 {
			fmt.Fprintf(&text, " %s", ev.IDChange)
		}
		if ev.Events.Has(engine.EventExecFailed) {
			fmt.Fprintf(&text, " %s %q", ev.Failed.ErrnoName(), ev.Failed.Path)
		}
		fmt.Fprintln(&text)
	}
	fmt.Fprintf(&text, "lost %d, and %d times\n", out.Lost, out.Uncounted)
	golden.Compare(t, "testdata/"+m.Name+".golden", []byte(text.String()))
}
