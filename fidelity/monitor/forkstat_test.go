package monitor

import "testing"

func TestForkstat(t *testing.T) { sample(t, forkstat(), 0) }

func FuzzForkstat(f *testing.F) { fuzz(f, forkstat(), "forkstat.sample") }
