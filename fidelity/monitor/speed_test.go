package monitor

import (
	"bytes"
	"math"
	"os"
	"testing"
	"time"

	"github.com/quark-linux/quark/fidelity/meter"
	"github.com/quark-linux/quark/fidelity/truth"
)

// recorded returns real output of a monitor, and the monitor.
func recorded(t testing.TB, m *Monitor) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/" + m.Name + ".sample")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// rate is how many events a second the judge has to keep up with.
const rate = 10_000

// BenchmarkDecode measures the CPU time that it takes to translate and deliver an event of each
// monitor.
func BenchmarkDecode(b *testing.B) {
	for _, m := range All() {
		b.Run(m.Name, func(b *testing.B) {
			text := bytes.Repeat(recorded(b, m), 50)
			b.ReportAllocs()
			n, spent := 0, time.Duration(0)
			for b.Loop() {
				q := newQueue(m)
				spent += meter.Spent(func() { q.read(text, 1) })
				n += len(q.events)
			}
			b.ReportMetric(float64(spent.Nanoseconds())/float64(n), "cpu-ns/event")
		})
	}
}

// The judge can read, translate and deliver 10,000 events a second of each monitor, and a format.
func TestKeepsUp(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures CPU time")
	}
	const most = time.Second // many times what it takes: emulated it is slower
	for _, m := range append(All(), formatOf(t, "quark-mon")) {
		t.Run(m.Name, func(t *testing.T) {
			file := "testdata/" + m.Name + ".sample"
			if _, err := os.Stat(file); err != nil {
				file = "testdata/" + m.Name + ".jsonl"
			}
			output, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			least := time.Duration(math.MaxInt64)
			for range 3 { // the machine's other work can make it slower, not faster
				n, spent := deliver(t, m, output)
				least = min(least, spent*rate/time.Duration(n))
			}
			t.Logf("%.1f %% of a CPU", 100*least.Seconds())
			if least > most {
				t.Errorf("%v for %d events, at most %v is wanted", least, rate, most)
			}
		})
	}
}

// deliver has a queue read output again and again from a pipe, until there are some thousand
// events, and returns how many there were and the CPU time of the reader.
func deliver(t *testing.T, m *Monitor, output []byte) (n int, spent time.Duration) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	go func() {
		defer w.Close()
		for range 400 {
			if _, err := w.Write(output); err != nil {
				return
			}
		}
	}()
	q := newQueue(m)
	buf := make([]byte, 1<<18)
	for {
		got, err := r.Read(buf)
		if err != nil {
			break
		}
		spent += meter.Spent(func() {
			q.read(buf[:got], truth.Clock())
			for {
				if _, err := q.Get(); err != nil {
					break
				}
				n++
			}
		})
	}
	if n == 0 {
		t.Fatal("the output has no event")
	}
	return n, spent
}

// formatOf returns the monitor of a committed format.
func formatOf(t testing.TB, name string) *Monitor {
	t.Helper()
	m, err := ReadFormat("formats/"+name+".json", "none")
	if err != nil {
		t.Fatal(err)
	}
	return m
}
