package conform

import (
	"testing"
	"time"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
)

// Kinds tests the options Kinds and Exits: a source must report only the chosen events of a
// process, with right values. It calls opened with each open source.
func Kinds(t *testing.T, open Open, opened func(testing.TB, engine.Source, source.Options)) {
	checked := func(t testing.TB, shared source.Options) engine.Source {
		s := open(t, shared)
		opened(t, s, shared)
		return s
	}
	for kinds := engine.EventFork; kinds <= engine.EventFork|engine.EventExec|engine.EventExit; kinds++ {
		t.Run(kinds.String(), func(t *testing.T) {
			shared := source.Options{Kinds: kinds}
			wantKinds(t, checked, shared, "exit", kinds)
			// The recorder needs EXIT to detect the last event. With -short it scores
			// only the smallest such set, as emulated processors are slow.
			if kinds == engine.EventExit || kinds.Has(engine.EventExit) && !testing.Short() {
				Score(t, open(t, shared), "fork-exec-exit", "setres-ids", "exec-chain-2", "comm", "end-together", "leader-first", "exec-from-thread")
			}
		})
	}
	for _, kinds := range []engine.Events{0, engine.EventExec | engine.EventExit, engine.EventExit} {
		shared := source.Options{Kinds: kinds, Exits: source.ExitsNonzero}
		t.Run(kinds.String()+" nonzero", func(t *testing.T) {
			want := engine.EventFork | engine.EventExec | engine.EventExit
			if kinds != 0 {
				want = kinds
			}
			s := wantKinds(t, checked, shared, "exit", want)
			// A source drops an EXIT only if it has the status and the status is 0.
			if exit := s.Capabilities().Fields[engine.FieldExit]; exit.Origin == engine.OriginKernel {
				wantKinds(t, checked, shared, "succeed", want&^engine.EventExit)
			}
		})
	}
}

// wantKinds runs a program, expects these events of its process and no loss, and returns the last
// source. It tries several times: without buffering, an uncertain end of another process can count
// as lost on a busy machine. A source that counts excluded events as lost fails each time.
func wantKinds(t *testing.T, open Open, shared source.Options, program string, want engine.Events) engine.Source {
	t.Helper()
	for try := 1; ; try++ {
		s := open(t, shared)
		if got := kindsOf(t, s, program, want); got != want {
			t.Errorf("%s: got %s, want %s", program, got, want)
		}
		st, err := s.Stats()
		if err == nil && st.LostTotal() == 0 {
			return s
		}
		if err != nil || try == 3 {
			t.Errorf("got %v lost events, error %v, want none", st.Lost, err)
			return s
		}
	}
}

// kindsOf runs a program and returns the kinds of its process's events, once they include want or
// after two seconds.
func kindsOf(t *testing.T, s engine.Source, program string, want engine.Events) (got engine.Events) {
	t.Helper()
	if f, ok := s.(engine.Finisher); ok {
		f.Finish() // no event is buffered
	}
	c := Child(program)
	Drain(t, s)
	c.Run()
	for end := time.Now().Add(2 * time.Second); got != want && time.Now().Before(end); time.Sleep(time.Millisecond) {
		got |= seen(t, s, c.Process.Pid)
	}
	time.Sleep(10 * time.Millisecond)
	return got | seen(t, s, c.Process.Pid)
}

func seen(t *testing.T, s engine.Source, pid int) (kinds engine.Events) {
	t.Helper()
	for _, ev := range Drain(t, s) {
		if int(ev.PID) == pid && !ev.Thread && ev.Kind <= engine.KindExit {
			kinds |= ev.Kind.Events()
		}
	}
	return kinds
}
