package cnproc

import (
	"slices"

	"github.com/quark-linux/quark/backends/internal/groupstatus"
	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/internal/freelist"
)

// state says how much of a process the messages have shown.
type state uint8

const (
	unseen state = iota // there may be threads that no message has shown
	seen                // all living threads are known
	over                // its end was reported
)

// process is the record of the latest process with a pid.
type process struct {
	born    uint64 // stamp of its FORK, or time of the read of /proc
	execed  uint64 // stamp of the latest EXEC, or time of the read
	last    uint64 // latest stamp of an EXIT
	aliveAt uint64 // threads that had ended by then did not end the process
	epoch   uint32 // losses before the record; later ones may hide its end, or the next process
	state   state
	owed    uint8 // ends of earlier processes of the pid, reported before their messages
	doubt   bool  // a loss may hide the end of an earlier process of the pid

	live       uint32 // threads besides the leader
	leader     int32  // wait status of the leader, if it has ended
	leaderDone bool   // the leader's message has arrived
	threaded   bool   // it has, or had, other threads
	endings    groupstatus.Endings
}

// alone reports whether the process has had one thread since its exec, or since it was seen
// running.
func (p *process) alone() bool { return p.live == 0 && !p.leaderDone && p.endings.N == 0 }

// single reports whether the process certainly has had only one thread.
func (p process) single() bool { return p.state == seen && p.alone() }

// maxStraggle is how long after the end of a process messages of its threads can come, in ns.
const maxStraggle = 1_000_000_000

// bootClock is the clock of the events.
type bootClock struct {
	procfs.BootClock
	now func() uint64 // CLOCK_MONOTONIC
}

// retired is an ended process whose messages may still arrive.
type retired struct {
	pid  uint32
	time uint64
}

// processes holds a record for each pid. Threads are a set, not a count, because messages and /proc
// add them in any order. A thread that is not the leader leaves /proc before its exit message is
// sent. So each thread in /proc still has a message to come.
type processes struct {
	byPID   freelist.Map[uint32, process]
	threads freelist.Map[uint32, uint32] // living threads that are no leaders -> pid
	born    []uint32                     // threads to check: they may be workers of the kernel
	ended   []uint32                     // processes to check: threads of them have ended
	early   map[uint32]uint64            // latest end of a pid reported before its message
	retired []retired
	epoch   uint32 // losses
	last6   bool   // the last thread to end sets the status of the process: Linux 6.0
	workers bool   // the kernel makes threads of a process for itself: Linux 5.12
}

// trim releases memory that was unused since the last call.
func (s *processes) trim() {
	s.byPID.Trim()
	s.threads.Trim()
	s.born, s.ended, s.retired = freelist.Shrink(s.born), freelist.Shrink(s.ended), freelist.Shrink(s.retired)
}

// lose resets the records of running processes, which may have changed without a message.
func (s *processes) lose() {
	s.epoch++
	clear(s.threads.In)
	for pid, p := range s.byPID.In {
		if p.state != over {
			s.byPID.In[pid] = process{born: p.born, epoch: p.epoch, doubt: true, threaded: true}
		}
	}
}

// addThread adds a living thread of a process.
func (s *processes) addThread(pid, tid uint32, p *process) {
	if s.threads.In[tid] == pid {
		return
	}
	s.removeThread(tid) // its exit was lost, and the tid is reused
	s.threads.Put(tid, pid)
	p.live++
	if p.threaded = true; s.workers {
		s.born = append(s.born, tid)
	}
}

// removeThread removes a thread whose end is unrelated to the end of its process.
func (s *processes) removeThread(tid uint32) {
	pid := s.threads.In[tid]
	delete(s.threads.In, tid)
	if p, ok := s.byPID.In[pid]; ok && p.live > 0 {
		p.live--
		s.byPID.Put(pid, p)
	}
}

// replace replaces the record of a pid and drops its threads.
func (s *processes) replace(pid uint32, p process) {
	if s.byPID.In[pid].live > 0 {
		for tid, of := range s.threads.In { // slow, but rare
			if of == pid {
				delete(s.threads.In, tid)
			}
		}
	}
	s.byPID.Put(pid, p)
}

// dropRetired drops the records of processes that ended long ago. All messages until now must have
// arrived.
func (s *processes) dropRetired(now uint64) {
	n := 0
	for ; n < len(s.retired) && s.retired[n].time+2*maxStraggle < now; n++ {
		r := s.retired[n]
		if p := s.byPID.In[r.pid]; p.state == over && p.last == r.time {
			delete(s.byPID.In, r.pid)
		}
		if s.early[r.pid] == r.time {
			delete(s.early, r.pid)
		}
	}
	s.retired = slices.Delete(s.retired, 0, n)
}

// end is the meaning of an exit message for its process.
type end struct {
	all    bool   // the message ends the process
	looked bool   // /proc has shown the end
	time   uint64 // of the end: a thread can be delayed between stamping and sending a message
	status int32  // of the process
	known  bool   // status is certain
	dumper uint32 // the thread that dumped core, 0 if unknown
}

// endThread handles the exit of a thread of a process whose threads are all known.
//
// A thread other than the leader takes the leader's number when it executes. The exit messages of
// the former leader and the other threads can arrive later, even after the end of the process. From
// Linux 5.8 on, the former leader reports the executing thread's number if it reads its number
// after the exchange. If it reports the leader's number, it was stamped before the exchange. Older
// kernels keep the number but not the exit signal: see message.former.
func (s *processes) endThread(m *message, p *process) end {
	switch leader := m.tid == m.pid; {
	case leader && m.time < p.execed:
		return end{}
	case leader && (p.alone() || p.leaderDone):
		// If leaderDone is set, a thread took the leader's number and was killed in its
		// exec.
		return end{all: true, time: m.time, status: int32(m.status), known: true}
	case leader:
		p.leaderDone, p.leader = true, int32(m.status)
	case s.threads.In[m.tid] == m.pid:
		delete(s.threads.In, m.tid)
		p.live--
	default: // a thread of a former image
		return end{}
	}
	p.last = max(p.last, m.time)
	if m.time > p.aliveAt {
		p.endings.Add(m.tid, int32(m.status))
	}
	if p.live > 0 || !p.leaderDone {
		return end{}
	}
	status, known := p.endings.Verdict(p.leader, s.last6)
	return end{all: true, time: p.last, status: status, known: known, dumper: p.endings.Dumper}
}
