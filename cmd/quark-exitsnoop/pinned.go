package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/exitsnoop"
)

// trace begins to trace processes, and prints their ends.
func trace(ctx context.Context, o *options) (int, error) {
	pids, err := parsePids(o.args)
	if err != nil {
		return 0, err
	}
	pids, failed := living(pids)
	if len(pids) == 0 {
		return 0, failed // without starting anything
	}
	if err := exitsnoop.EnsureRunning(o.root); err != nil {
		return 0, err
	}
	s, err := exitsnoop.NewStore(o.root)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	ids := map[uint64]uint32{}
	for _, pid := range pids {
		id, err := s.TraceProcess(pid)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		ids[id] = pid
		if err := o.out.print(fmt.Sprintf("%d traced as %d", pid, id), line{Event: "tracing", TraceID: id, Pid: pid}); err != nil {
			return 0, err
		}
	}
	if !o.noWait {
		failed = errors.Join(failed, report(ctx, o, s, ids))
	}
	return 0, failed
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

// living returns the pids of existing processes, and an error for each other one.
func living(pids []uint32) (found []uint32, err error) {
	for _, pid := range pids {
		if fd, e := unix.PidfdOpen(int(pid), 0); e == nil {
			unix.Close(fd)
			found = append(found, pid)
		} else {
			err = errors.Join(err, fmt.Errorf("trace pid %d: %w", pid, exitsnoop.ErrNoProcess))
		}
	}
	return found, err
}

// report waits for the ends of traces, prints and deletes them.
func report(ctx context.Context, o *options, s *exitsnoop.Store, ids map[uint64]uint32) error {
	if len(ids) == 0 {
		return nil
	}
	for ev, err := range s.Events(ctx) {
		pid, ours := ids[ev.TraceID]
		switch {
		case !ours && ev.TraceID != 0:
			continue
		case errors.Is(err, exitsnoop.ErrLost):
			err = o.out.lost(ev.TraceID, pid)
		case err == nil:
			err = o.out.exit(ev.TraceID, &ev.ExitStatus)
		}
		if err == nil {
			err = s.DeleteExitedEvent(ev.TraceID)
		}
		if err != nil {
			return err
		}
		if delete(ids, ev.TraceID); len(ids) == 0 {
			return nil
		}
	}
	return fmt.Errorf("interrupted: %d still traced, see quark-exitsnoop list", len(ids))
}

// list prints the traced processes and the recorded ends.
func list(_ context.Context, o *options) (int, error) {
	s, err := exitsnoop.NewStore(o.root)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	if _, err := s.Collect(exitsnoop.Collection{}); err != nil {
		return 0, err
	}
	tasks, err1 := s.Tasks()
	exits, err2 := s.ExitedEvents()
	lost, err3 := s.LostTraces()
	if err := errors.Join(err1, err2, err3); err != nil {
		return 0, err
	}
	for _, t := range tasks {
		l := line{Event: "tracing", TraceID: t.TraceID, Pid: t.Pid, Pidns: t.PidnsInfo.Ino}
		if err := o.out.print(fmt.Sprintf("%d traced as %d", t.Pid, t.TraceID), l); err != nil {
			return 0, err
		}
	}
	for _, e := range exits {
		if err := o.out.exit(e.TraceID, &e.ExitStatus); err != nil {
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
	Running        bool   `json:"running"`
	Version        int    `json:"version"`
	Tracing        int    `json:"tracing"`
	MaxTracing     int    `json:"max_tracing"`
	Uncollected    int    `json:"uncollected"`
	MaxEvents      int    `json:"max_events"`
	Recorded       uint64 `json:"recorded"`
	Lost           uint64 `json:"lost"`
	Unseen         uint64 `json:"unseen"`
	Refused        uint64 `json:"refused"`
	WrongNamespace uint64 `json:"wrong_namespace"`
	WrongStart     uint64 `json:"wrong_start"`
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
	n, err := s.Stats()
	if err != nil {
		return 0, err
	}
	st = state{true, exitsnoop.Version, n.Tracing, n.MaxTracing, n.Uncollected, n.MaxEvents,
		n.Recorded, n.Lost, n.Unseen, n.Refused, n.WrongNamespace, n.WrongStart}
	text := fmt.Sprintf("running, version %d\ntracing %d of at most %d\nuncollected %d; at most %d traces exist at once\n"+
		"recorded %d, lost %d, unseen %d, refused %d, wrong namespace %d, wrong start %d",
		st.Version, st.Tracing, st.MaxTracing, st.Uncollected, st.MaxEvents,
		st.Recorded, st.Lost, st.Unseen, st.Refused, st.WrongNamespace, st.WrongStart)
	return 0, o.out.print(text, st)
}

// clean removes all, or with --older the old records.
func clean(_ context.Context, o *options) (int, error) {
	if o.older == 0 {
		return 0, exitsnoop.Clean(o.root)
	}
	s, err := exitsnoop.NewStore(o.root)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	done, err := s.Collect(exitsnoop.Collection{MaxAge: o.older})
	if err != nil {
		return 0, err
	}
	return 0, o.out.print(fmt.Sprintf("%d deleted", done.Deleted), map[string]int{"deleted": done.Deleted, "lost": done.Lost})
}
