package taskstats

import (
	"github.com/quark-linux/quark/backends/internal/groupstatus"
	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/backends/internal/taskrecord"
	"github.com/quark-linux/quark/internal/clock"
	"github.com/quark-linux/quark/internal/stock"
)

// doubts are records of before Linux 5.19 that are of the end of a process, or of a thread. That of
// the last of several threads tells its process. Of others only those of leaders tell that they
// are, by a status or by the flag of a process that has not executed; /proc tells of a process
// that was not waited for yet. A leader whose record is not of the last of several threads was
// alone, or has ended before the others: then /proc has it as long as they run, and the record of
// the last one comes.
type doubts struct {
	held []doubt
	// ended are processes whose last threads' records have come since none was held.
	ended stock.Map[uint32, bool]
}

// doubt is a record that was received at a time.
type doubt struct {
	r    taskrecord.Record
	time uint64
	// received is that time by CLOCK_BOOTTIME, that start times are of.
	received uint64
	cpu      uint32
	end      bool // of a process, if no record of a last thread comes
}

// unmarked handles a record of before Linux 5.19.
func (s *Source) unmarked(r *taskrecord.Record) {
	if !r.Last {
		s.doubts.held = append(s.doubts.held, doubt{r: *r, time: s.arrived, received: clock.Boottime(), cpu: s.current.cpu})
		return
	}
	s.doubts.ended.Put(r.TGID, true)
	s.end(r, s.current.cpu, s.arrived, r.Status, groupstatus.Certain(r.Status))
}

// look looks at what /proc has of them, and returns their number.
func (d *doubts) look(proc *procfs.Reader) int {
	for i := range d.held {
		d.held[i].look(proc)
	}
	return len(d.held)
}

func (d *doubt) look(proc *procfs.Reader) {
	if proc == nil {
		d.decide(procfs.Status{}, 0, false)
		return
	}
	st, start, err := proc.Status(d.r.PID)
	d.decide(st, start, err == nil)
}

// decide says what the record is of, by what /proc has of its number: a process that runs is
// another one, or one in which a thread has executed and taken the leader's place. That has the
// leader's start time.
func (d *doubt) decide(st procfs.Status, start uint64, there bool) {
	runs := there && !st.Zombie() && !st.Ending
	switch {
	case runs && start+d.r.Age <= d.received:
		d.end = false
	case !there, runs: // it is gone
		d.end = d.r.Forked || d.r.Status != 0
	case st.Thread:
		d.end = false
	default:
		d.end = st.Threads <= 1
	}
}

// trim lets go of memory that was not needed since the last call.
func (d *doubts) trim() {
	d.held = stock.Fit(d.held)
	d.ended.Trim()
}

// settleDoubts reports the ends among the first n of them, which were looked at. The sockets have
// been empty since.
func (s *Source) settleDoubts(n int) {
	for i := range s.doubts.held[:n] {
		if d := &s.doubts.held[i]; d.end && !s.doubts.ended.In[d.r.PID] {
			s.end(&d.r, d.cpu, d.time, d.r.Status, true)
		}
	}
	s.doubts.held = s.doubts.held[:copy(s.doubts.held, s.doubts.held[n:])]
	if len(s.doubts.held) == 0 {
		clear(s.doubts.ended.In)
	}
}
