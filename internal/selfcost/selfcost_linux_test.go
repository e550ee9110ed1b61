package selfcost

import (
	"testing"
	"time"
)

// The meter reports usage, and values in the range of any Go program.
func TestMeter(t *testing.T) {
	m, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	cpu, rss := m.CPU(), m.Resident()
	used := make([]byte, 64<<20)
	for begin := time.Now(); m.CPU() < cpu+20*time.Millisecond; {
		for i := range used {
			used[i]++
		}
		if time.Since(begin) > time.Minute {
			t.Fatal("no CPU time was used in a minute of work")
		}
	}
	if more := m.Resident(); rss < 1<<20 || more < rss+48<<20 {
		t.Errorf("got %d resident bytes, and %d after allocating 64 MiB", rss, more)
	}
}
