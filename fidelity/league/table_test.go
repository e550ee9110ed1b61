package league

import (
	"slices"
	"testing"
	"time"

	"github.com/quark-linux/quark/fidelity"
	"github.com/quark-linux/quark/fidelity/truth"
)

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.01: "<0.1", 0.05: "0.05", 0.123: "0.12", 1: "1", 9.87: "9.9", 10: "10", 12.34: "12.3", 99.9: "99.9", 99.96: ">99.9", 100: "100", 1234.5: "1234",
	} {
		if got := number(v); got != want {
			t.Errorf("%v is %q, not %q", v, got, want)
		}
	}
}

// Who says less than what was missing in one repeat is not honest; who counts tasks means two
// events with each.
func TestSaid(t *testing.T) {
	for _, c := range []struct {
		name  string
		p     Participant
		rows  []*Row
		text  string
		class string
	}{
		{"nothing missing", Participant{Name: "a"}, []*Row{{Truth: 10, Seen: 10}}, "0", ""},
		{"all said", Participant{Name: "a"}, []*Row{{Truth: 10, Seen: 8, Lost: 2}, {Truth: 10, Seen: 10}}, "10 (0-20)", ""},
		{"once too little", Participant{Name: "a"}, []*Row{{Truth: 10, Seen: 8, Lost: 1}, {Truth: 10, Seen: 10}}, "5 (0-10)", "bad"},
		{"more, of others", Participant{Name: "a"}, []*Row{{Truth: 10, Seen: 8, Lost: 12}}, "120", ""},
		{"not counted", Participant{Name: "a", Silent: true}, []*Row{{Truth: 10, Seen: 8}}, "does not count", "bad"},
		{"not counted, nothing missing", Participant{Name: "a", Silent: true}, []*Row{{Truth: 10, Seen: 10}}, "does not count", ""},
		{"tasks", Participant{Name: "procpoll", Own: true}, []*Row{{Truth: 10, Seen: 0, Lost: 5}}, "100", ""},
		{"too few tasks", Participant{Name: "procpoll", Own: true}, []*Row{{Truth: 10, Seen: 0, Lost: 4}}, "80", "bad"},
		{"not measured", Participant{Name: "a"}, nil, "-", ""},
	} {
		if got := saidCell(&c.p, c.rows); got.Text != c.text || got.Class != c.class {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

func TestNotesAreSaidOnce(t *testing.T) {
	r := new(Run)
	for _, reason := range []string{"it lost 5 times", "it lost 7 times", "it lost", "it lost 7 times"} {
		r.add(line{Note: &fidelity.Absence{Backend: "a", Reason: reason}})
	}
	r.add(line{Note: &fidelity.Absence{Backend: "b", Reason: "it lost 5 times"}})
	if len(r.Notes) != 3 {
		t.Errorf("%+v", r.Notes)
	}
}

// A slow machine has more time, but not without end.
func TestPatience(t *testing.T) {
	for top, want := range map[float64]time.Duration{9000: 10 * time.Second, 4000: 10 * time.Second, 2000: 20 * time.Second, 10: 2 * time.Minute, 0: 2 * time.Minute} {
		if got := patience(top); got != want {
			t.Errorf("%v lives a second: %v, not %v", top, got, want)
		}
	}
}

// What the judge took is that of the samples around the lives.
func TestDuring(t *testing.T) {
	w := &selfWatch{samples: []sample{{100, 1}, {200, 3}, {300, 7}, {400, 20}}}
	life := func(born, ended uint64) *truth.Life {
		return &truth.Life{Events: []*truth.Event{{Earliest: born}, {Latest: ended}}}
	}
	for _, c := range []struct {
		lives []*truth.Life
		want  time.Duration
	}{
		{nil, 0}, {[]*truth.Life{life(210, 220)}, 4}, {[]*truth.Life{life(210, 220), life(150, 290)}, 6}, {[]*truth.Life{life(50, 900)}, 19},
	} {
		if got := w.during(c.lives); got != c.want {
			t.Errorf("%d lives: %d, not %d", len(c.lives), got, c.want)
		}
	}
}

// The loads are of rates that the machine makes, and have lives enough to say something.
func TestLoads(t *testing.T) {
	for _, c := range []struct {
		top   float64
		cpus  int
		quick bool
		rates []int
		full  []int
	}{
		{9000, 2, false, []int{100, 1000, 3000}, []int{1, 2}},
		{60000, 6, false, []int{100, 1000, 3000, 10000, 30000}, []int{1, 2, 4, 6}},
		{90, 1, false, []int{45}, []int{1}},
		{300, 2, false, []int{100, 150}, []int{1, 2}},
		{9000, 2, true, []int{1000}, []int{2}},
		{0, 1, true, []int{1}, []int{1}},
	} {
		var rates, full []int
		kinds := make(map[string]int)
		for _, l := range loads(&Options{Quick: c.quick}, c.top, c.cpus) {
			kinds[l.kind]++
			switch s := l.storm; l.kind {
			case Rate:
				rates = append(rates, s.Rate)
				if n := float64(s.Rate) * s.Length.Seconds(); n < 0.99*leastPaced {
					t.Errorf("%v lives at %d a second", n, s.Rate)
				}
			case Full:
				full = append(full, s.Workers)
				if n := c.top * s.Length.Seconds(); c.top > 0 && n < 0.99*leastFull {
					t.Errorf("%v lives at full speed", n)
				}
			}
		}
		if !slices.Equal(rates, c.rates) || !slices.Equal(full, c.full) || kinds[Lifetime]*kinds[Stopped]*kinds[Programs]*kinds[Counted] != 1 {
			t.Errorf("%v lives a second, %d CPUs: rates %v, workers %v, %v", c.top, c.cpus, rates, full, kinds)
		}
	}
}
