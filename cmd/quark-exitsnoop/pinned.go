package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/quark-linux/quark/exitsnoop"
)

// trace traces processes, and prints how they end.
func trace(ctx context.Context, o *options) (int, error) {
	pids, err := parsePids(o.args)
	if err != nil {
		return 0, err
	}
	pids, failed := selectTraceable(pids)
	if len(pids) == 0 {
		return 0, failed // do not start exitsnoop
	}
	if err := exitsnoop.EnsureRunning(o.root); err != nil {
		return 0, err
	}
	s, err := exitsnoop.NewStore(o.root)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	before, err := s.Stats()
	if err != nil {
		return 0, err
	}
	var ids []uint64
	for _, pid := range pids {
		id, err := startTrace(s, pid, o.tree)
		failed = errors.Join(failed, err)
		if id == 0 {
			continue
		}
		ids = append(ids, id)
		t := exitsnoop.Task{Pid: pid, TaskInfo: exitsnoop.TaskInfo{TraceID: id}}
		if err := o.out.tracing(t); err != nil {
			return 0, err
		}
	}
	if !o.noWait && len(ids) > 0 {
		failed = errors.Join(failed, report(ctx, o, s, ids), checkUntraced(s, before))
	}
	return 0, failed
}

// startTrace starts the trace of a process and, if tree is set, of its existing and future
// descendants.
func startTrace(s *exitsnoop.Store, pid uint32, tree bool) (id uint64, err error) {
	if tree {
		return s.TraceTree(pid, exitsnoop.TreeOptions{Existing: true})
	}
	return s.TraceProcess(pid)
}

// checkUntraced returns an error if since before some descendants were not traced because a map was
// full.
func checkUntraced(s *exitsnoop.Store, before exitsnoop.Stats) error {
	now, err := s.Stats()
	if n := now.Untraced - before.Untraced; err == nil && n > 0 {
		err = fmt.Errorf("%d descendants, and their own, were not traced: %w", n, exitsnoop.ErrFull)
	}
	return err
}

func parsePids(args []string) (pids []uint32, err error) {
	for _, a := range args {
		pid, err := strconv.ParseUint(a, 10, 31)
		if err != nil || pid == 0 {
			return nil, fmt.Errorf("trace: %q is not a pid (%w)", a, errUsage)
		}
		pids = append(pids, uint32(pid))
	}
	return pids, nil
}

// selectTraceable returns the pids of processes that can be traced, and an error for each other
// process.
func selectTraceable(pids []uint32) (found []uint32, err error) {
	for _, pid := range pids {
		if e := exitsnoop.CanTrace(pid); e == nil {
			found = append(found, pid)
		} else {
			err = errors.Join(err, e)
		}
	}
	return found, err
}

// report waits until the traced processes and their trees have ended. It prints and deletes their
// records.
func report(ctx context.Context, o *options, s *exitsnoop.Store, ids []uint64) error {
	for ev, err := range s.Events(ctx, ids...) {
		switch {
		case errors.Is(err, exitsnoop.ErrLost):
			err = o.out.lost(ev.TraceID, ev.Pid)
		case err == nil:
			err = o.out.exit(ev, nil)
		}
		if err == nil {
			err = s.DeleteExitedEvent(ev.TraceID)
		}
		if err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return errors.New("interrupted: running processes stay traced, see quark-exitsnoop list")
	}
	return nil
}

// list prints the traced processes and the recorded exits.
func list(_ context.Context, o *options) (int, error) {
	s, err := exitsnoop.NewStore(o.root)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	if _, err := s.Collect(0); err != nil {
		return 0, err
	}
	tasks, err1 := s.Tasks()
	exits, err2 := s.ExitedEvents()
	lost, err3 := s.LostTraces()
	if err := errors.Join(err1, err2, err3); err != nil {
		return 0, err
	}
	for _, t := range tasks {
		if err := o.out.tracing(t); err != nil {
			return 0, err
		}
	}
	for _, e := range exits {
		if err := o.out.exit(e, nil); err != nil {
			return 0, err
		}
	}
	for _, id := range lost {
		if err := o.out.lost(id, 0); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// state is the output of status.
type state struct {
	Running bool `json:"running"`
	Version int  `json:"version"`
	exitsnoop.Stats
}

// status prints the state. The exit status is 1 if exitsnoop is not running.
func status(_ context.Context, o *options) (int, error) {
	st := state{Version: exitsnoop.Version}
	err := exitsnoop.Verify(o.root)
	if errors.Is(err, exitsnoop.ErrNotRunning) {
		return statusFailed, o.out.print("not running", st)
	}
	if err != nil {
		return 0, err
	}
	s, err := exitsnoop.NewStore(o.root)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	st.Running = true
	if st.Stats, err = s.Stats(); err != nil {
		return 0, err
	}
	text := fmt.Sprintf("running, version %d\ntracing %d of at most %d\nuncollected %d; at most %d traces exist at once\n"+
		"recorded %d, lost %d, unseen %d, refused %d, wrong namespace %d, wrong start %d\ndescendants %d, not traced %d",
		st.Version, st.Tracing, st.MaxTracing, st.Uncollected, st.MaxEvents,
		st.Recorded, st.Lost, st.Unseen, st.Refused, st.WrongNamespace, st.WrongStart, st.Descendants, st.Untraced)
	return 0, o.out.print(text, st)
}

// clean removes all state, or only old records with --older. Missing state is not an error.
func clean(_ context.Context, o *options) (int, error) {
	if o.older == 0 {
		err := exitsnoop.Clean(o.root)
		if errors.Is(err, exitsnoop.ErrNotRunning) {
			err = nil
		}
		return 0, err
	}
	s, err := exitsnoop.NewStore(o.root)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	done, err := s.Collect(o.older)
	if err != nil {
		return 0, err
	}
	return 0, o.out.print(fmt.Sprintf("%d deleted", done.Deleted), map[string]int{"deleted": done.Deleted, "lost": done.Lost})
}
