package cputime

import "testing"

func TestDivide(t *testing.T) {
	const max = 1<<64 - 1
	for _, c := range []struct {
		t            Times
		user, system uint64
	}{
		{Times{}, 0, 0},
		{Times{Run: 7e5}, 7e5, 0}, // the task ran at no tick
		{Times{Run: 7e5, System: 4e6}, 0, 7e5},
		{Times{Run: 7e5, User: 4e6}, 7e5, 0},
		{Times{Run: 1e9, User: 3e8, System: 1e8}, 75e7, 25e7},
		// The product has more than 64 bits.
		{Times{Run: 1e18, User: 3e18, System: 1e18}, 75e16, 25e16},
		// Neither result is below the time that was shown before.
		{Times{Run: 1000, User: 1, System: 1, ShownUser: 600, ShownSystem: 100}, 600, 400},
		{Times{Run: 1000, User: 1, System: 1, ShownUser: 100, ShownSystem: 600}, 400, 600},
		{Times{Run: 1000, ShownUser: 900, ShownSystem: 200}, 900, 200},
		{Times{Run: 100, User: max, System: 1}, 100, 0}, // impossible input
	} {
		if user, system := c.t.Divide(); user != c.user || system != c.system {
			t.Errorf("%+v: got user %d, system %d, want %d and %d", c.t, user, system, c.user, c.system)
		}
	}
}

func FuzzDivide(f *testing.F) {
	f.Add(uint64(1e9), uint64(3e8), uint64(1e8), uint64(0), uint64(0))
	f.Fuzz(func(t *testing.T, run, user, system, shownUser, shownSystem uint64) {
		u, s := Times{run, user, system, shownUser, shownSystem}.Divide()
		if sum := shownUser + shownSystem; u+s != run && sum < run {
			t.Errorf("%d + %d is not %d", u, s, run)
		}
	})
}
