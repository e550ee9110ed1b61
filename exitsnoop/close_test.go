package exitsnoop

import (
	"context"
	"errors"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"
)

// TestCloseFromAnywhere closes a store from several goroutines at any time during all other calls:
// each call ends as documented for Close.
func TestCloseFromAnywhere(t *testing.T) {
	tries := 20
	if testing.Short() {
		tries = 4
	}
	if os.Getenv("QUARK_TRIES") != "" {
		tries, _ = strconv.Atoi(os.Getenv("QUARK_TRIES"))
	}
	needKernel(t)
	dir := root(t)
	ok(t, EnsureRunning(dir))
	types, err := kernelTypes(new(Options)) // read once, as it takes a part of each try
	ok(t, err)
	waited, traced := sleeper(t), sleeper(t)
	for name, open := range map[string]func() (*Store, error){
		"pinned":  func() (*Store, error) { return NewStore(dir) },
		"private": func() (*Store, error) { return NewStoreFromAttachWith(Options{types: types}) },
	} {
		t.Run(name, func(t *testing.T) {
			for try := range tries {
				s, err := open()
				ok(t, err)
				if err := s.Trace(waited, &TaskInfo{TraceID: 1}); err != nil && !errors.Is(err, ErrDuplicateID) {
					t.Fatal(err)
				}
				closeFromAnywhere(t, s, time.Duration(try%7)*time.Millisecond, traced)
			}
		})
	}
}

// closeFromAnywhere closes a store that others use. Trace 1 is a process that does not end.
func closeFromAnywhere(t *testing.T, s *Store, after time.Duration, pid uint32) {
	ctx, giveUp := context.WithCancel(context.Background())
	defer giveUp()
	var users sync.WaitGroup
	uses := map[string]func() error{
		"Wait":   func() error { _, err := s.Wait(ctx, 1); return err },
		"Stats":  func() error { _, err := s.Stats(); return err },
		"Tasks":  func() error { _, err := s.Tasks(); return err },
		"Lost":   func() error { _, err := s.LostTraces(); return err },
		"Exits":  func() error { _, err := s.ExitedEvents(); return err },
		"Get":    func() error { _, err := s.GetExitedEvent(1); return err },
		"Trace":  func() error { _, err := s.TraceTree(pid, TreeOptions{}); return err },
		"Delete": func() error { return s.DeleteTracingTask(pid) },
		"Sweep":  func() error { _, err := s.Collect(0); return err },
	}
	for name, use := range uses {
		users.Go(func() {
			var err error
			for !errors.Is(err, os.ErrClosed) && ctx.Err() == nil {
				err = use()
			}
			if again := use(); !errors.Is(err, os.ErrClosed) || !errors.Is(again, os.ErrClosed) {
				t.Errorf("%s: %v, and again: %v", name, err, again)
			}
		})
	}
	users.Go(func() {
		for ev, err := range s.Events(ctx) {
			if err != nil {
				t.Errorf("Events yields %v, %+v", err, ev)
			}
		}
	})
	time.Sleep(after)
	for range 3 {
		users.Go(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	done := make(chan struct{})
	go func() { users.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(6 * soon): // an emulated machine is slow
		t.Fatalf("calls still run %v after Close", 6*soon)
	}
	for range s.Events(ctx) {
		t.Error("Events of a closed store yields an event")
	}
}
