package enginetest_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/engine/enginetest"
)

// All events of a machine are delivered in order, whatever the buffer, the hold time and the time
// of each drain.
func TestMachineLosesNothing(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 0))
		m := enginetest.NewMachine()
		live := []*enginetest.Process{m.Running("/bin/sh")}
		for range 500 {
			p := live[random.IntN(len(live))]
			switch random.IntN(6) {
			case 0:
				live = append(live, p.Fork())
			case 1:
				p.Exec("/bin/true", "x")
			case 2:
				p.SetUID(p.State.Task.Cred.UID + 1)
			case 3:
				m.Sleep(time.Duration(random.Int64N(int64(time.Second))))
			case 4:
				m.Miss(engine.LossDecode, 1)
			case 5:
				if last := len(live) - 1; last > 0 {
					live[last].Exit(0)
					live = live[:last]
				}
			}
		}
		e, err := engine.New(m, m.Clock(), engine.Options{
			MaxLength: 1 + random.IntN(300), HoldTime: engine.MinHoldTime + time.Duration(random.Int64N(int64(time.Second))), Matrix: new(engine.Matrix),
		})
		if err != nil {
			t.Fatal(err)
		}
		delivered, last, drain := uint64(0), uint64(0), random.IntN(600)
		for n := 0; !e.Drained(); n++ {
			if n == drain {
				if err := e.Drain(); err != nil {
					t.Fatal(err)
				}
			}
			ev, err := e.Get()
			if errors.Is(err, engine.ErrNothing) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if ev.Events != engine.EventGap {
				delivered++
			}
			if ev.Time < last {
				t.Errorf("seed %d: %v at time %d follows an event at time %d", seed, ev.Events, ev.Time, last)
			}
			last = ev.Time
		}
		st, err := e.Stats()
		if err != nil || delivered+st.Lost() != st.Source.Produced || st.Late != 0 {
			t.Errorf("seed %d: got %d events, stats %+v, error %v", seed, delivered, st, err)
		}
	}
}

// A cause of loss that does not exist is a mistake of the test, and panics.
func TestMissOfNoCause(t *testing.T) {
	defer func() {
		if text := fmt.Sprint(recover()); !strings.Contains(text, "99 is no cause of loss") {
			t.Errorf("got panic %s", text)
		}
	}()
	enginetest.NewMachine().Miss(99, 1)
}

// Actions that are impossible in a kernel panic, too.
func TestMachineRefusesTheImpossible(t *testing.T) {
	for _, c := range []struct {
		want string // "" for a possible action
		do   func(m *enginetest.Machine, p, dead *enginetest.Process)
	}{
		{"Kill(999): signals are 1 to 64", func(_ *enginetest.Machine, p, _ *enginetest.Process) { p.Kill(999) }},
		{"Kill(0): ", func(_ *enginetest.Machine, p, _ *enginetest.Process) { p.Kill(0) }},
		{"Kill(-1): ", func(_ *enginetest.Machine, p, _ *enginetest.Process) { p.Kill(-1) }},
		{"", func(_ *enginetest.Machine, p, _ *enginetest.Process) { p.Kill(64) }},
		{"", func(_ *enginetest.Machine, p, _ *enginetest.Process) { p.Exit(256) }},
		{"EXIT of process 3, which has ended", func(_ *enginetest.Machine, _, dead *enginetest.Process) { dead.Exit(2) }},
		{"EXIT of process 3, which has ended", func(_ *enginetest.Machine, _, dead *enginetest.Process) { dead.Kill(9) }},
		{"FORK of process 3, which has ended", func(_ *enginetest.Machine, _, dead *enginetest.Process) { dead.Fork() }},
		{"EXEC of process 3, which has ended", func(_ *enginetest.Machine, _, dead *enginetest.Process) { dead.Exec("/bin/true") }},
		{"of process 3, which has ended", func(_ *enginetest.Machine, _, dead *enginetest.Process) { dead.ExecFails("/none", 2) }},
		{"of process 3, which has ended", func(_ *enginetest.Machine, _, dead *enginetest.Process) { dead.SetUID(7) }},
		{"of process 3, which has ended", func(_ *enginetest.Machine, _, dead *enginetest.Process) { dead.SetComm("x") }},
		{"Sleep(-5s): time does not go back", func(m *enginetest.Machine, _, _ *enginetest.Process) { m.Sleep(-5 * time.Second) }},
		{"", func(m *enginetest.Machine, _, _ *enginetest.Process) { m.Sleep(0) }},
	} {
		func() {
			defer func() {
				r := recover()
				if c.want == "" && r != nil || c.want != "" && (r == nil || !strings.Contains(fmt.Sprint(r), c.want)) {
					t.Errorf("got panic %v, want %q", r, c.want)
				}
			}()
			m := enginetest.NewMachine()
			p := m.Running("/bin/sh")
			c.do(m, p, p.Fork().Exit(1))
		}()
	}
}
