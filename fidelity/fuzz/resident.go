package fuzz

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/proctext"
)

const (
	residentGrace = time.Second
	// residentRest exceeds the time that an ended process stays in a table. The engine waits
	// another 2 s if the EXIT was lost.
	residentRest = residentGrace + 3*time.Second
)

// leak, if not nil, leaks with each sample, for tests.
var leak func()

// resident is a monitor in this process: it keeps a queue of each backend open for the whole run.
type resident struct {
	rest   time.Duration // see Options.Rest
	queues []*quark.Queue
	pause  func() error // ends the reading
}

// openResident opens the queues, and starts to read them. The trials report why a backend cannot be
// opened.
func openResident(set backends.Set, rest time.Duration) (*resident, error) {
	r := &resident{rest: rest}
	for _, name := range set.Names() {
		one, err := backends.Parse(name)
		if err != nil {
			return nil, errors.Join(err, r.close())
		}
		if q, err := quark.Open(quark.Options{Backends: one, Strict: true, CacheGraceTime: residentGrace}); err == nil {
			r.queues = append(r.queues, q)
		}
	}
	r.read()
	return r, nil
}

func (r *resident) close() (err error) {
	if r.pause != nil {
		err = r.pause()
	}
	for _, q := range r.queues {
		err = errors.Join(err, q.Close())
	}
	return err
}

// read drops the events of all queues until pause is called.
func (r *resident) read() {
	ctx, cancel := context.WithCancel(context.Background())
	errs := make([]error, len(r.queues))
	var all sync.WaitGroup
	for i, q := range r.queues {
		all.Go(func() {
			for _, err := range q.Events(ctx) {
				if err != nil && ctx.Err() == nil {
					errs[i] = err
					return
				}
			}
		})
	}
	r.pause = func() error {
		cancel()
		all.Wait()
		return errors.Join(errs...)
	}
}

// sample returns the usage of this process while the queues are not read.
func (r *resident) sample() (map[string]int64, error) {
	time.Sleep(r.rest)
	if err := r.pause(); err != nil {
		return nil, err
	}
	defer r.read()
	if leak != nil {
		leak()
	}
	runtime.GC() // the second run frees objects with finalizers
	debug.FreeOSMemory()
	anonymous, err := anonymousMemory()
	if err != nil {
		return nil, err
	}
	open, err := openDescriptors()
	if err != nil {
		return nil, err
	}
	values := map[string]int64{memory: anonymous, descriptors: open, goroutines: int64(runtime.NumGoroutine())}
	for _, q := range r.queues {
		n := endedIn(q)
		if exit := q.Capabilities().Kinds[engine.KindExit]; exit.Origin == engine.OriginNone || exit.Partial != 0 {
			n = max(0, n-unswept)
		}
		values[tableOf+q.Backend()] = n
	}
	return values, nil
}

// unswept is the number of ended processes that a table may hold if its source does not report
// every EXIT: the engine removes them when there are more.
const unswept = 1024

// endedIn returns the number of ended processes in a queue's table.
func endedIn(q *quark.Queue) (n int64) {
	for p := range q.Processes() {
		st, err := proctext.ReadStat(fmt.Sprintf("/proc/%d/stat", p.PID))
		if err != nil || p.Known.Has(engine.FieldStart) && st.Start != p.Start-p.Start%proctext.Tick {
			n++
		}
	}
	return n
}

// anonymousMemory returns the resident memory of this process in bytes, without files.
func anonymousMemory() (int64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(status) {
		if words := strings.Fields(string(line)); len(words) > 1 && words[0] == "RssAnon:" {
			kb, err := strconv.ParseInt(words[1], 10, 64)
			return kb << 10, err
		}
	}
	return 0, errors.New("/proc/self/status has no RssAnon: Linux 4.5 or later is needed")
}

// unread is the number of pidfds of ended processes that may be open: a source closes them at its
// next read.
const unread = 64

// openDescriptors counts the descriptors of this process, without pidfds of live processes.
func openDescriptors() (n int64, err error) {
	list, err := os.ReadDir("/proc/self/fd")
	ended := int64(0)
	for _, e := range list {
		to, err := os.Readlink("/proc/self/fd/" + e.Name())
		switch {
		case err != nil: // the descriptor of the directory itself
		case !strings.Contains(to, "[pidfd]"):
			n++
		default:
			if info, err := os.ReadFile("/proc/self/fdinfo/" + e.Name()); err == nil && bytes.Contains(info, []byte("\nPid:\t-1\n")) {
				ended++
			}
		}
	}
	return n + max(0, ended-unread), err
}
