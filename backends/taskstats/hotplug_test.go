package taskstats

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/conform"
)

// The sockets are of CPUs that may come and go: what ends on a CPU before it goes and after it came
// back is told, who has room loses nothing, and who has not knows exactly how much.
func TestHotplug(t *testing.T) {
	const control = "/sys/devices/system/cpu/cpu1/online"
	if os.Getenv("QUARK_INITRAMFS") != "1" {
		t.Skip("it takes a CPU away, which is for guests only (QUARK_INITRAMFS=1)")
	}
	if _, err := os.Stat(control); err != nil {
		t.Skip("no second CPU that can be taken offline")
	}
	set := func(v string) {
		t.Helper()
		if err := os.WriteFile(control, []byte(v), 0); err != nil {
			t.Fatal(err)
		}
	}
	defer os.WriteFile(control, []byte("1"), 0)

	shared := source.Options{Kinds: engine.EventExit}
	shared.Threads = kernel(t, Options{}).kernel.Marked // then every record is an event
	tiny, whole := kernel(t, Options{ReceiveBuffer: 1}, shared), kernel(t, Options{}, shared)
	some, all := new(count), new(count)
	populate := func() {
		t.Helper()
		if err := errors.Join(tiny.Populate(some), whole.Populate(all)); err != nil {
			t.Fatal(err)
		}
	}
	populate()
	produced := func(s *Source) uint64 {
		st, err := s.Stats()
		if err != nil {
			t.Fatal(err)
		}
		return st.Produced
	}
	tinyBefore, wholeBefore := produced(tiny), produced(whole)
	var pids []int
	storm := func(cpu, n int) {
		t.Helper()
		pids = append(pids, conform.Pinned(t, cpu, n)...)
	}
	for round := range 4 {
		storm(1, 50)
		storm(0, 50)
		if round%2 == 0 {
			populate() // else what CPU 1 has sent is read while it is away
		}
		done := make(chan bool)
		go func() { // ends amid the change
			defer close(done)
			storm(0, 50)
		}()
		set("0")
		<-done
		storm(0, 20)
		if round < 2 {
			populate()
		}
		set("1")
		storm(1, 50)
	}
	for range 6 { // the numbers of these show what was lost before them
		populate()
		storm(0, 2)
		storm(1, 2)
	}
	time.Sleep(10 * time.Millisecond)
	populate()

	for _, pid := range pids {
		all.One(t, pid, engine.KindExit)
	}
	if st, _ := whole.Stats(); st.LostTotal() != 0 || len(all.gaps) != 0 {
		t.Errorf("who has room lost %v, and was told %+v", st.Lost, all.gaps)
	}
	st, _ := tiny.Stats()
	var told uint64
	for _, g := range some.gaps {
		told += g.Count
	}
	got, want := produced(tiny)-tinyBefore, produced(whole)-wholeBefore
	t.Logf("%d processes: who has room is told of %d, who has not of %d, with %d lost", len(pids), want, got, told)
	if st.Lost[engine.LossSocketFull] == 0 || told != st.LostTotal() || st.LostTotal() != st.Lost[engine.LossSocketFull] {
		t.Errorf("%v lost, gaps tell of %d", st.Lost, told)
	}
	// Where not every record is an event, a lost one may be of a thread.
	if got < want || got > want && whole.kernel.Marked {
		t.Errorf("%d ends, with those that were lost, and %d by who has room", got, want)
	}
}
