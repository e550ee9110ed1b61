package spool

import (
	"context"
	"errors"
	"time"
)

// run delivers until all is delivered after Close, or ctx ends.
func (s *Spool[T]) run(ctx context.Context) {
	defer close(s.done)
	report := reporter{o: &s.o}
	var batch []T
	for {
		var n int
		if batch, n = s.next(ctx, batch[:0]); n == 0 {
			return
		}
		s.deliver(ctx, batch, n, &report)
		clear(batch)
	}
}

// next waits for a batch and appends its items; n is 0 at the end.
func (s *Spool[T]) next(ctx context.Context, batch []T) (items []T, n int) {
	var due <-chan time.Time // of a batch that is not full
	for {
		s.mu.Lock()
		full := len(s.waiting) >= s.o.Batch || s.bytes >= s.o.BatchBytes || s.closed || ctx.Err() != nil
		some := len(s.waiting) > 0
		if some && full {
			batch, n = s.take(batch)
		}
		ended := s.closed && !some
		s.mu.Unlock()
		if n > 0 || ended {
			return batch, n
		}
		if some && due == nil {
			timer := time.NewTimer(s.o.Delay)
			defer timer.Stop()
			due = timer.C
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			s.mu.Lock()
			s.closed = true
			s.mu.Unlock()
		case <-due:
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.take(batch)
		}
	}
}

// take appends the items of the next batch, which go on waiting until they are accounted for.
func (s *Spool[T]) take(batch []T) ([]T, int) {
	size := 0
	for i := range min(len(s.waiting), s.o.Batch) {
		e := &s.waiting[i]
		if size += e.size; size > s.o.BatchBytes && i > 0 {
			break
		}
		batch = append(batch, e.item)
	}
	return batch, len(batch)
}

// deliver delivers the first n of what waits, again and again until that is over.
func (s *Spool[T]) deliver(ctx context.Context, batch []T, n int, report *reporter) {
	pause, sent := s.o.RetryMin, false
	closing := s.closing
	for {
		if ctx.Err() != nil {
			s.account(n, n, map[bool]string{true: Unconfirmed, false: Ended}[sent])
			report.ended()
			return
		}
		out := s.target.Deliver(ctx, batch)
		if !out.Retry {
			s.account(n-out.Skip, out.Dropped, out.Cause)
			report.delivered(out.Err)
			return
		}
		sent = sent || out.Sent
		if out.Done > 0 {
			s.account(out.Done, 0, "")
			batch, n = batch[out.Done:], n-out.Done
			pause, sent = s.o.RetryMin, out.Sent
		}
		if ctx.Err() == nil {
			report.failing(out.Err)
		}
		wait := time.NewTimer(max(pause, min(out.After, s.o.RetryMax)))
		hurry := closing
		if out.After > 0 {
			hurry = nil // the target has asked for the pause
		}
		select {
		case <-wait.C:
			pause = min(2*pause, s.o.RetryMax)
		case <-hurry:
			// A long pause would outlast the grace, though the target may be back.
			closing, pause = nil, s.o.RetryMin
		case <-ctx.Done():
		}
		wait.Stop()
	}
}

// account removes the first n of what waits, of which some are dropped and the others delivered.
func (s *Spool[T]) account(n, dropped int, cause string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	items := 0
	for i := range s.waiting[:n] {
		s.bytes -= s.waiting[i].size
		if s.waiting[i].own {
			s.own--
		} else {
			items++
		}
	}
	if dropped = min(max(dropped, 0), items); dropped > 0 {
		s.counts.Dropped[cause] += uint64(dropped)
	}
	s.counts.Delivered += uint64(items - dropped)
	rest := copy(s.waiting, s.waiting[n:])
	clear(s.waiting[rest:])
	s.waiting = s.waiting[:rest]
}

// reporter reports changes, and of what goes on only now and then.
type reporter struct {
	o       *Options
	fails   bool
	failed  time.Time // when the next failure is reported, at the earliest
	refused time.Time // the same of what is refused
}

// due reports whether now is not before next, which it moves on then.
func (r *reporter) due(next *time.Time) bool {
	now := time.Now()
	if now.Before(*next) {
		return false
	}
	*next = now.Add(r.o.ReportEvery)
	return true
}

// failing is called at each failure: one that begins soon after the last one is reported later, if
// it lasts.
func (r *reporter) failing(err error) {
	if !r.fails && r.due(&r.failed) {
		r.fails = true
		r.o.Report(err)
	}
}

var errSlow = errors.New("the target had not taken all when the time for that was over")

// ended is called where a batch is left at the end: why is said, unless that was already.
func (r *reporter) ended() {
	if !r.fails {
		r.fails = true
		r.o.Report(errSlow)
	}
}

// delivered is called where a batch is done with, err being what of it was refused.
func (r *reporter) delivered(err error) {
	if r.fails {
		r.fails = false
		r.o.Report(nil)
	}
	if err != nil && r.due(&r.refused) {
		r.o.Report(err)
	}
}
