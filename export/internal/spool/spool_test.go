package spool

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// quick are options with pauses that a test has time for.
var quick = Options{Length: 100, Batch: 10, Delay: time.Millisecond, RetryMin: time.Millisecond, RetryMax: 2 * time.Millisecond, Grace: 200 * time.Millisecond}

// balanced fails the test if the counts don't say where each item is.
func balanced[T any](t *testing.T, s *Spool[T], taken uint64) {
	t.Helper()
	c := s.Counts()
	if c.Taken != taken || c.Taken != c.Delivered+c.Queued+c.Lost() {
		t.Errorf("taken %d of %d: %+v", c.Taken, taken, c)
	}
}

// Whatever a target does, each item is delivered, dropped or queued, in its order.
func TestConservation(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var mu sync.Mutex
	var got []int
	s := New(quick, Target[int]{Causes: []string{"rejected"}, Deliver: func(_ context.Context, batch []int) Outcome {
		mu.Lock()
		defer mu.Unlock()
		switch r.IntN(5) {
		case 4:
			n := r.IntN(len(batch))
			for _, v := range batch[:n] {
				if v >= 0 {
					got = append(got, v)
				}
			}
			return Outcome{Retry: true, Done: n, Err: errors.New("broken")}
		case 0:
			return Outcome{Retry: true, Sent: r.IntN(2) == 0, Err: errors.New("away")}
		case 1:
			return Outcome{Dropped: r.IntN(2*len(batch)) - len(batch)/2, Cause: "rejected", Err: errors.New("refused")}
		}
		for _, v := range batch {
			if v >= 0 {
				got = append(got, v)
			}
		}
		return Outcome{}
	}, Gap: func(uint64, time.Time, time.Time) (int, int) { return -1, 1 }})
	const items = 20000
	for i := range items {
		if s.Put(i, 10); i%100 == 0 {
			time.Sleep(100 * time.Microsecond)
		}
		if i%1000 == 0 {
			balanced(t, s, uint64(i+1))
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	balanced(t, s, items)
	c := s.Counts()
	if c.Queued != 0 || uint64(len(got)) > c.Delivered || !slices.IsSorted(got) {
		t.Errorf("%d came: %+v", len(got), c)
	}
	if c.Dropped[QueueFull] == 0 || c.Dropped["rejected"] == 0 {
		t.Errorf("the test forces both: %+v", c.Dropped)
	}
}

// What had no room until the end is told there: no Put follows that would.
func TestGapAtClose(t *testing.T) {
	o := quick
	o.Length = 10
	free := make(chan struct{})
	var got []uint64
	s := New(o, Target[uint64]{Deliver: func(_ context.Context, batch []uint64) Outcome {
		<-free
		got = append(got, batch...)
		return Outcome{}
	}, Gap: func(n uint64, _, _ time.Time) (uint64, int) { return 1e6 + n, 1 }})
	for range 15 {
		s.Put(1, 1)
	}
	close(free)
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	balanced(t, s, 15)
	if want := append(slices.Repeat([]uint64{1}, 10), 1e6+5); !slices.Equal(got, want) {
		t.Errorf("got %d, want %d", got, want)
	}
}

// A target that takes nothing delays nobody, and bounds what waits, in number and in bytes; when it
// works again one item says how many are missing.
func TestStuckTarget(t *testing.T) {
	for name, c := range map[string]struct{ size, waiting int }{"number": {1, 100}, "bytes": {200, 50}} {
		t.Run(name, func(t *testing.T) {
			o := quick
			o.Bytes = 10000
			free := make(chan struct{})
			var got []uint64
			s := New(o, Target[uint64]{Deliver: func(_ context.Context, batch []uint64) Outcome {
				<-free
				got = append(got, batch...)
				return Outcome{}
			}, Gap: func(n uint64, from, to time.Time) (uint64, int) {
				if to.Before(from) {
					t.Errorf("from %v to %v", from, to)
				}
				return 1e6 + n, 1
			}})
			begin := time.Now()
			for range 1000 {
				if !s.Full() {
					s.Put(1, c.size)
				}
			}
			if d := time.Since(begin); d > time.Second {
				t.Errorf("1,000 Puts took %v", d)
			}
			balanced(t, s, 1000)
			missing := uint64(1000 - c.waiting)
			if n := s.Counts(); n.Queued != uint64(c.waiting) || n.Dropped[QueueFull] != missing {
				t.Errorf("%+v", n)
			}
			close(free)
			for s.Counts().Queued > 0 {
				time.Sleep(time.Millisecond)
			}
			s.Put(2, c.size)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if want := append(slices.Repeat([]uint64{1}, c.waiting), 1e6+missing, 2); !slices.Equal(got, want) {
				t.Errorf("got %d items, the last %d", len(got), got[max(0, len(got)-3):])
			}
			balanced(t, s, 1001)
		})
	}
}

// What can't be delivered by the end is dropped after the grace, and it is said whether the target
// may have it.
func TestEndWithoutTarget(t *testing.T) {
	for cause, sent := range map[string]bool{Ended: false, Unconfirmed: true} {
		s := New(quick, Target[int]{Deliver: func(ctx context.Context, _ []int) Outcome {
			<-ctx.Done()
			return Outcome{Retry: true, Sent: sent, Err: ctx.Err()}
		}})
		for i := range 30 {
			s.Put(i, 1)
		}
		begin := time.Now()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(begin); d < quick.Grace || d > quick.Grace+2*time.Second {
			t.Errorf("the end took %v", d)
		}
		s.Put(30, 1)
		balanced(t, s, 31)
		if c := s.Counts(); c.Queued != 0 || c.Dropped[cause] < 10 || c.Delivered != 0 {
			t.Errorf("%s: %+v", cause, c)
		}
	}
}

// A delivery that does not heed its context does not hold up the end for ever.
func TestEndWithStuckDelivery(t *testing.T) {
	free := make(chan struct{})
	defer close(free)
	s := New(quick, Target[int]{Deliver: func(context.Context, []int) Outcome {
		<-free
		return Outcome{}
	}})
	s.Put(1, 1)
	time.Sleep(10 * time.Millisecond)
	if err := s.Close(); !errors.Is(err, errStuck) {
		t.Errorf("error %v", err)
	}
	balanced(t, s, 1)
}

// A failure is reported when it begins and when it ends, and refusals not each time.
func TestReport(t *testing.T) {
	var reports []error
	var mu sync.Mutex
	o := quick
	o.Batch = 1
	o.Report = func(err error) {
		mu.Lock()
		defer mu.Unlock()
		reports = append(reports, err)
	}
	away, refused := errors.New("away"), errors.New("refused")
	var try atomic.Int32
	s := New(o, Target[int]{Causes: []string{"x"}, Deliver: func(context.Context, []int) Outcome {
		if try.Add(1) < 5 {
			return Outcome{Retry: true, Err: away}
		}
		return Outcome{Dropped: 1, Cause: "x", Err: refused}
	}})
	for i := range 10 {
		s.Put(i, 1)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if want := []error{away, nil, refused}; !slices.Equal(reports, want) {
		t.Errorf("got %v, want %v", reports, want)
	}
}

// A target that fails now and then is not reported each time, one that goes on failing is.
func TestReportOfFlapping(t *testing.T) {
	var reports []error
	o := quick
	o.Batch, o.ReportEvery, o.Grace = 1, time.Second, 10*time.Second
	o.Report = func(err error) { reports = append(reports, err) }
	var try int
	away := errors.New("away")
	begin := time.Now()
	s := New(o, Target[int]{Deliver: func(context.Context, []int) Outcome {
		if try++; try <= 80 && try%2 == 1 || try > 80 && time.Since(begin) < 1500*time.Millisecond {
			return Outcome{Retry: true, Err: away}
		}
		return Outcome{}
	}})
	for i := range 50 {
		s.Put(i, 1)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if want := []error{away, nil, away, nil}; !slices.Equal(reports, want) {
		t.Errorf("got %v, want %v", reports, want)
	}
}

// What is left at the end is reported, once, also where the first delivery had no answer.
func TestReportAtEnd(t *testing.T) {
	var reports []error
	o := quick
	o.Report = func(err error) { reports = append(reports, err) }
	s := New(o, Target[int]{Deliver: func(ctx context.Context, _ []int) Outcome {
		<-ctx.Done()
		return Outcome{Retry: true, Sent: true, Err: ctx.Err()}
	}})
	for i := range 50 {
		s.Put(i, 1)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	balanced(t, s, 50)
	if !slices.Equal(reports, []error{errSlow}) {
		t.Errorf("got %v", reports)
	}
}

// The end does not wait for a pause that is longer than the grace, unless the target has asked for
// it.
func TestPauseAtEnd(t *testing.T) {
	for _, after := range []time.Duration{0, time.Hour} {
		o := quick
		o.RetryMin, o.RetryMax = time.Hour, time.Hour
		tried := make(chan bool, 10)
		var back atomic.Bool
		s := New(o, Target[int]{Deliver: func(context.Context, []int) Outcome {
			out := Outcome{Retry: !back.Load(), After: after, Err: errors.New("away")}
			tried <- true
			return out
		}})
		s.Put(1, 1)
		<-tried
		back.Store(true)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		balanced(t, s, 1)
		if n := s.Counts().Delivered; n == 1 != (after == 0) {
			t.Errorf("asked to wait %v: %d delivered", after, n)
		}
	}
}

func BenchmarkPut(b *testing.B) {
	s := New(Options{}, Target[int]{Deliver: func(context.Context, []int) Outcome { return Outcome{} }})
	defer s.Close()
	for b.Loop() {
		s.Put(1, 1)
	}
}
