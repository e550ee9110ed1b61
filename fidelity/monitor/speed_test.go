package monitor

import (
	"bytes"
	"os"
	"testing"
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

// BenchmarkDecode measures the time to decode an event of each monitor.
func BenchmarkDecode(b *testing.B) {
	for _, m := range All() {
		b.Run(m.Name, func(b *testing.B) {
			text := bytes.Repeat(recorded(b, m), 50)
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				q := newQueue(m)
				q.read(text, 1)
				n += len(q.events)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/event")
		})
	}
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
