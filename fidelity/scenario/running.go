package scenario

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/fidelity/truth"
)

// Running is a started scenario, or several that one process runs one after the other.
type Running struct {
	Scenario // the first one
	list     []Scenario
	// ReadAll is called while processes of the scenario wait. It must read all events that are
	// queued in the kernel. If queues are open, set it before Wait.
	ReadAll func() error

	cmd     *exec.Cmd
	socket  *os.File
	goOn    *os.File
	records []truth.Record
	reads   chan struct{} // a process waits until all queues have been read
	wasRead chan bool     // the answer to reads: whether they were read
	done    chan error    // receives when all writers of records have ended
}

// Start starts scenarios, which one process runs one after the other. An early or unread scenario
// must be the only one. An early scenario is ready when Start returns.
func Start(s Scenario, more ...Scenario) (*Running, error) {
	r := &Running{Scenario: s, list: append([]Scenario{s}, more...), reads: make(chan struct{}, 1), wasRead: make(chan bool), done: make(chan error, 1)}
	if err := r.start(); err != nil {
		r.close()
		return nil, fmt.Errorf("start scenario %s: %w", s.Name, err)
	}
	return r, nil
}

// recordBuffer is the size of the record socket's send buffer and of the read buffer. The largest
// records have a command line of 100 KB.
const recordBuffer = 1 << 20

func (r *Running) start() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	// Without privileges the buffer is smaller, but suffices for most scenarios.
	if unix.SetsockoptInt(fds[1], unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, recordBuffer) != nil {
		unix.SetsockoptInt(fds[1], unix.SOL_SOCKET, unix.SO_SNDBUF, recordBuffer)
	}
	theirs := os.NewFile(uintptr(fds[1]), "truth")
	defer theirs.Close()
	r.socket = os.NewFile(uintptr(fds[0]), "truth")
	theirGo, goOn, err := os.Pipe()
	if err != nil {
		return err
	}
	defer theirGo.Close()
	r.goOn = goOn
	r.cmd = exec.Command(self)
	var names []string
	for _, s := range r.list {
		names = append(names, s.Name)
	}
	r.cmd.Args = append([]string{"quark-fidelity"}, names...)
	r.cmd.Env = append(os.Environ(), Env+"=run:"+strings.Join(names, separator))
	r.cmd.Stderr = os.Stderr
	r.cmd.ExtraFiles = []*os.File{theirGo, theirs}
	before := truth.Clock()
	if err := r.cmd.Start(); err != nil {
		return err
	}
	r.records = append(r.records, truth.Record{
		Op: truth.Fork, PID: r.cmd.Process.Pid, Parent: os.Getpid(), Earliest: before, Latest: truth.Clock(),
	})
	theirs.Close()
	go func() { r.done <- r.read(int(r.socket.Fd())) }()
	if r.Early {
		select {
		case <-r.reads:
			r.reads <- struct{}{} // Wait lets the scenario continue
		case err := <-r.done:
			r.done <- err
		}
	}
	return nil
}

// read receives records until the last writer has ended.
func (r *Running) read(fd int) error {
	for buf := make([]byte, recordBuffer); ; {
		n, err := unix.Read(fd, buf)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return fmt.Errorf("read records: %w", err)
		case n == 0:
			return nil
		}
		var rec truth.Record
		if err := json.Unmarshal(buf[:n], &rec); err != nil {
			return fmt.Errorf("decode a record: %w", err)
		}
		if rec.Op == truth.Read {
			r.reads <- struct{}{}
			if !<-r.wasRead {
				continue
			}
		}
		r.records = append(r.records, rec)
	}
}

// readAll reads all queues, then lets the waiting process continue.
func (r *Running) readAll() error {
	if r.ReadAll != nil {
		if err := r.ReadAll(); err != nil {
			return err
		}
	}
	r.wasRead <- r.ReadAll != nil
	_, err := r.goOn.Write([]byte{1})
	return err
}

// Outcome is the result of a scenario.
type Outcome struct {
	Name      string
	Skip      string // why the scenario can't run here
	Processes []*truth.Process
	All       []*truth.Process // including processes of other scenarios of the director
	// Director is the pid of the process that ran the scenario.
	Director int
}

// Wait lets an early scenario continue, waits for the end of all processes and returns the outcome
// of each scenario, or an error if a scenario failed.
func (r *Running) Wait(patience time.Duration) (all []*Outcome, err error) {
	defer r.close()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for over := false; !over; {
		var err error
		select {
		case err = <-r.done:
			over = true
		case <-r.reads:
			err = r.readAll()
		case <-timer.C:
			err = fmt.Errorf("still running after %v", patience)
		}
		if err != nil {
			return nil, fmt.Errorf("scenario %s: %w", r.Name, err)
		}
	}
	return r.outcomes(r.cmd.Wait())
}

// outcomes assigns the processes to their scenarios. The director belongs to each scenario. ended
// is the error of the director's end.
func (r *Running) outcomes(ended error) (all []*Outcome, err error) {
	director := r.cmd.Process.Pid
	state := r.cmd.ProcessState.Sys().(interface{ ExitStatus() int }).ExitStatus()
	r.records = append(r.records, truth.Record{Op: truth.Exit, PID: director, Latest: truth.Clock(), Status: int32(state) << 8})
	type birth struct {
		pid int
		at  uint64
	}
	of := make(map[birth]int) // index of the scenario of each process
	now := &Outcome{Name: r.Name}
	all = append(all, now)
	for _, rec := range r.records {
		switch rec.Op {
		case truth.Next:
			now = &Outcome{Name: r.list[len(all)].Name}
			all = append(all, now)
		case truth.Skip:
			now.Skip = rec.Reason
		case truth.Fail:
			// Processes of a skipped scenario may fail because their director is gone.
			if now.Skip == "" {
				return nil, fmt.Errorf("scenario %s: %s", now.Name, rec.Reason)
			}
		case truth.Fork:
			of[birth{rec.PID, rec.Earliest}] = len(all) - 1
		}
	}
	if ended != nil && now.Skip == "" {
		return nil, fmt.Errorf("scenario %s: %w", now.Name, ended)
	}
	processes, err := truth.Assemble(r.records)
	if err != nil {
		return nil, fmt.Errorf("scenario %s: %w", r.Name, err)
	}
	was, err := ownState()
	if err != nil {
		return nil, err
	}
	for _, l := range processes {
		if l.PID == director {
			l.Was = was
		}
		for i, o := range all {
			if o.Skip == "" && (l.PID == director || of[birth{l.PID, l.Born()}] == i) {
				o.Processes = append(o.Processes, l)
			}
		}
	}
	for _, o := range all {
		o.All, o.Director = processes, director
	}
	return all, nil
}

// ownState returns the state of this process, which directors inherit.
func ownState() (*truth.State, error) {
	proc, err := truth.OpenProc()
	if err != nil {
		return nil, err
	}
	defer proc.Close()
	_, state, err := proc.Read("self")
	return &state, err
}

// close kills a running director, and closes all descriptors.
func (r *Running) close() {
	close(r.wasRead)
	if r.cmd != nil && r.cmd.Process != nil && r.cmd.ProcessState == nil {
		r.cmd.Process.Kill()
		r.cmd.Wait()
	}
	for _, f := range []*os.File{r.socket, r.goOn} {
		if f != nil {
			f.Close()
		}
	}
}
