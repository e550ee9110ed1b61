// Package supervisor runs a program below a supervisor process, which adopts the processes that the
// program leaves behind, and ends them. The supervisor is the caller's own program, executed again,
// so the caller's main function calls [Main] first.
package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/fidelity/meter"
	"github.com/quark-linux/quark/internal/children"
)

// env is the environment variable that makes Main run the supervisor. Its value is an Options in
// JSON.
const env = "QUARK_FIDELITY_SUPERVISOR"

// reportFD is the supervisor's descriptor for its reports.
const reportFD = 3

// Options describe the program to run.
type Options struct {
	Command []string `json:"command"`
	Environ []string `json:"environ,omitempty"` // additional variables
	// Tracefs mounts tracefs and debugfs if they are not mounted, visible only to the program.
	Tracefs bool `json:"tracefs,omitempty"`
	// Accounting, if not empty, runs no program: the kernel appends a record to this file for
	// each process that ends.
	Accounting string `json:"accounting,omitempty"`
	// Grace is the time for the program to end after SIGINT.
	Grace time.Duration `json:"grace"`
}

// Report is a report of the supervisor.
type Report struct {
	PID int `json:"pid"` // the first report has only PID or Error
	// Status is the wait status of the program. Early is set if it ended without a request.
	Status int32 `json:"status"`
	Early  bool  `json:"early"`
	// Hung is set if the program did not end in time and was killed.
	Hung bool `json:"hung"`
	// Left names the processes that the program left running. They were killed.
	Left  []string `json:"left,omitempty"`
	Error string   `json:"error,omitempty"`
}

// Supervisor is a running supervisor.
type Supervisor struct {
	PID  int // of the program
	cmd  *exec.Cmd
	in   io.WriteCloser
	pipe *os.File
	done chan struct{} // closed when last and err are set
	last Report
	err  error
}

// Start starts a program. Its output goes to out and its errors to errs.
func Start(o Options, out, errs *os.File) (*Supervisor, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	k := &Supervisor{cmd: exec.Command(self), pipe: r, done: make(chan struct{})}
	reports := json.NewDecoder(r)
	k.cmd.Env = append(os.Environ(), env+"="+string(text))
	k.cmd.Stdout, k.cmd.Stderr, k.cmd.ExtraFiles = out, errs, []*os.File{w}
	if k.in, err = k.cmd.StdinPipe(); err == nil {
		err = k.cmd.Start()
	}
	if err != nil {
		r.Close()
		return nil, fmt.Errorf("start the supervisor: %w", err)
	}
	w.Close()
	var first Report
	if err = reports.Decode(&first); err == nil && first.Error != "" {
		err = errors.New(first.Error)
	}
	if err != nil {
		k.end()
		return nil, err
	}
	k.PID = first.PID
	go func() {
		k.err = reports.Decode(&k.last)
		close(k.done)
	}()
	return k, nil
}

// Done returns a channel that is closed when the program has ended.
func (k *Supervisor) Done() <-chan struct{} { return k.done }

// Stop ends the program, first by SIGINT, and returns the report.
func (k *Supervisor) Stop() (r Report, err error) {
	k.in.Close()
	<-k.done
	return k.last, errors.Join(k.err, k.end())
}

func (k *Supervisor) end() error {
	k.in.Close()
	err := k.cmd.Wait()
	return errors.Join(err, k.pipe.Close())
}

// Signal sends a signal to the process group of the program, and to its descendants outside that
// group.
func (k *Supervisor) Signal(s unix.Signal) error {
	err := unix.Kill(-k.PID, s)
	for _, pid := range family(k.PID) {
		if group, e := unix.Getpgid(pid); e == nil && group != k.PID {
			err = errors.Join(err, unix.Kill(pid, s))
		}
	}
	return err
}

// Main runs the supervisor if this process was started as one, and then does not return.
func Main() {
	text := os.Getenv(env)
	if text == "" {
		return
	}
	os.Unsetenv(env)
	runtime.LockOSThread() // the program gets this thread's mount namespace
	reports := os.NewFile(reportFD, "reports")
	unix.CloseOnExec(reportFD)
	out := json.NewEncoder(reports)
	var o Options
	err := json.Unmarshal([]byte(text), &o)
	switch {
	case err != nil:
	case o.Accounting != "":
		err = account(o.Accounting, out)
	default:
		err = superviseProgram(o, out)
	}
	if err != nil {
		out.Encode(Report{Error: err.Error()})
		os.Exit(1)
	}
	os.Exit(0)
}

// account enables process accounting to a file until standard input ends.
func account(file string, out *json.Encoder) error {
	switch err := unix.Acct(file); {
	case errors.Is(err, unix.ENOSYS):
		return errors.New("the kernel has no process accounting (CONFIG_BSD_PROCESS_ACCT)")
	case err != nil:
		return fmt.Errorf("switch process accounting on: %w: needs CAP_SYS_PACCT", err)
	}
	err := out.Encode(Report{PID: os.Getpid()})
	io.Copy(io.Discard, os.Stdin)
	// unix.Acct has no NULL.
	if _, _, errno := unix.Syscall(unix.SYS_ACCT, 0, 0, 0); errno != 0 {
		return fmt.Errorf("switch process accounting off: %w", errno)
	}
	return errors.Join(err, out.Encode(Report{}))
}

// superviseProgram runs the program until standard input ends, or until it ends itself.
func superviseProgram(o Options, out *json.Encoder) error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become a subreaper: %w", err)
	}
	if o.Tracefs {
		if err := mountTracefs(); err != nil {
			return err
		}
	}
	cmd := exec.Command(o.Command[0], o.Command[1:]...)
	cmd.Env = append(os.Environ(), o.Environ...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	// Signals go to the program's process group. The kernel kills the program if the supervisor
	// dies.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	pid := cmd.Process.Pid
	os.Stdout.Close() // so that the reader sees the end when the program closes the output
	if err := out.Encode(Report{PID: pid}); err != nil {
		return err
	}
	ended := make(chan int32, 1)
	go reap(pid, ended)
	stop := make(chan bool)
	go func() {
		io.Copy(io.Discard, os.Stdin)
		close(stop)
	}()
	var r Report
	select {
	case r.Status = <-ended:
		r.Early = true
	case <-stop:
		unix.Kill(-pid, unix.SIGCONT)
		unix.Kill(-pid, unix.SIGINT)
		select {
		case r.Status = <-ended:
		case <-time.After(o.Grace):
			r.Hung = true
			unix.Kill(-pid, unix.SIGKILL)
			r.Status = <-ended
		}
	}
	r.Left = killRest()
	return out.Encode(r)
}

// reap waits for all adopted children, and reports the status of the program.
func reap(pid int, ended chan<- int32) {
	for {
		var status unix.WaitStatus
		got, err := unix.Wait4(-1, &status, unix.WALL, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return // no children are left
		case got == pid:
			ended <- int32(status)
		}
	}
}

// killRest kills the processes that the program left, and returns their names. Other parts of a
// pipeline get some time to end.
func killRest() (left []string) {
	for n := range 200 {
		pids, err := children.Of(os.Getpid())
		if err != nil || len(pids) == 0 {
			return left
		}
		for _, pid := range pids {
			if n < 50 {
				continue
			}
			b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
			name := fmt.Sprintf("process %d (%s)", pid, strings.TrimSpace(string(b)))
			if !slices.Contains(left, name) {
				left = append(left, name)
			}
			unix.Kill(pid, unix.SIGKILL)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return left
}

// mountTracefs enters a new mount namespace and mounts tracefs and debugfs in it.
func mountTracefs() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("enter a new mount namespace: %w: needs root", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	for _, m := range []struct {
		kind, at string
		magic    int64
	}{{"debugfs", "/sys/kernel/debug", unix.DEBUGFS_MAGIC}, {"tracefs", "/sys/kernel/tracing", unix.TRACEFS_MAGIC}} {
		var st unix.Statfs_t
		if unix.Statfs(m.at, &st) == nil && int64(st.Type) == m.magic {
			continue
		}
		// The program itself reports missing mounts.
		unix.Mount("nodev", m.at, m.kind, 0, "")
	}
	return nil
}

// Usage returns the CPU time and the peak memory, in KiB, of a running program, its process group
// and its descendants.
func Usage(pid int) (cpu time.Duration, rss int64) {
	for _, pid := range family(pid) {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
		for _, t := range tasks {
			var ns int64
			b, _ := os.ReadFile(t)
			fmt.Sscan(string(b), &ns)
			cpu += time.Duration(ns)
		}
		rss += meter.Peak(pid)
	}
	return cpu, rss
}

// family returns the processes of a group, and the descendants of its leader: a daemon leaves the
// group.
func family(pgid int) (pids []int) {
	type process struct{ pid, parent, group int }
	var all []process
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		var p process
		fmt.Sscan(string(b), &p.pid)
		var state string
		if n, _ := fmt.Sscan(string(b[strings.LastIndexByte(string(b), ')')+1:]), &state, &p.parent, &p.group); n == 3 {
			all = append(all, p)
		}
	}
	for more := true; more; {
		more = false
		for _, p := range all {
			if !slices.Contains(pids, p.pid) && (p.group == pgid || p.pid == pgid || slices.Contains(pids, p.parent)) {
				pids, more = append(pids, p.pid), true
			}
		}
	}
	return pids
}

// Programs returns the ids of the eBPF programs that the same processes as in Usage have open,
// directly or by links.
func Programs(pid int) (ids []uint32) {
	for _, pid := range family(pid) {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", pid))
		for _, file := range files {
			b, _ := os.ReadFile(file)
			_, after, ok := strings.Cut("\n"+string(b), "\nprog_id:")
			var id uint32
			if _, err := fmt.Sscan(after, &id); ok && err == nil && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}
