package fuzz

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/proctext"
)

// residentEnv is the environment variable that makes Main run the resident monitor: a process that
// keeps a queue of each backend open for the whole run. It reads the options, and then one line for
// each sample, from standard input, and writes the samples.
const residentEnv = "QUARK_FUZZ_RESIDENT"

// residentOptions are the first line of the resident monitor's input.
type residentOptions struct {
	Backends backends.Set
	// Rest is how long it reads before a sample, so that ended processes leave the tables.
	Rest time.Duration
}

const (
	residentGrace = time.Second
	// residentRest exceeds the time that an ended process stays in a table. The engine waits
	// another 2 s if the EXIT was lost.
	residentRest = residentGrace + 3*time.Second
)

// leak, if not nil, leaks with each sample, for tests.
var leak func()

// resident is the resident monitor in its own process.
type resident struct {
	residentOptions
	queues []*quark.Queue
}

// serveSamples is the main function of the resident monitor.
func serveSamples(in io.Reader, out io.Writer) (err error) {
	r, requests, samples := new(resident), json.NewDecoder(in), json.NewEncoder(out)
	if err := requests.Decode(&r.residentOptions); err != nil {
		return err
	}
	defer func() {
		for _, q := range r.queues {
			err = errors.Join(err, q.Close())
		}
	}()
	for _, name := range r.Backends.Names() {
		set, err := backends.Parse(name)
		if err != nil {
			return err
		}
		// The trials report why a backend cannot be opened.
		if q, err := quark.Open(quark.Options{Backends: set, Strict: true, CacheGraceTime: residentGrace}); err == nil {
			r.queues = append(r.queues, q)
		}
	}
	for {
		stop := r.read()
		err := requests.Decode(new(struct{}))
		if err == nil {
			time.Sleep(r.Rest)
		}
		err = errors.Join(err, stop())
		if errors.Is(err, io.EOF) {
			return nil
		}
		var values map[string]int64
		if err == nil {
			values, err = r.sample()
		}
		if err == nil {
			err = samples.Encode(values)
		}
		if err != nil {
			return err
		}
	}
}

// read drops the events of all queues until the returned function is called.
func (r *resident) read() (stop func() error) {
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
	return func() error {
		cancel()
		all.Wait()
		return errors.Join(errs...)
	}
}

// sample returns the usage of this process while its queues are not read.
func (r *resident) sample() (map[string]int64, error) {
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

// monitor is the fuzzer's handle of the resident monitor.
type monitor struct {
	cmd      *exec.Cmd
	stderr   bytes.Buffer
	in       io.WriteCloser
	requests *json.Encoder
	samples  *json.Decoder
}

// startMonitor starts the resident monitor.
func startMonitor(o residentOptions) (m *monitor, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	m = &monitor{cmd: exec.Command(self)}
	m.cmd.Args = []string{"quark-fidelity", "resident"}
	m.cmd.Env = append(os.Environ(), residentEnv+"=1")
	m.cmd.Stderr = &m.stderr
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // ^C goes to the fuzzer only
	if m.in, err = m.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	m.requests, m.samples = json.NewEncoder(m.in), json.NewDecoder(out)
	if err := m.cmd.Start(); err != nil {
		return nil, err
	}
	if err := m.requests.Encode(o); err != nil {
		return nil, errors.Join(err, m.end())
	}
	return m, nil
}

// sample requests a sample. It kills a monitor that does not answer within patience.
func (m *monitor) sample(patience time.Duration) (values map[string]int64, err error) {
	timeout := time.AfterFunc(patience, func() { m.cmd.Process.Kill() })
	defer timeout.Stop()
	if err = m.requests.Encode(struct{}{}); err == nil {
		err = m.samples.Decode(&values)
	}
	if err != nil {
		return nil, fmt.Errorf("sample the resident monitor: %w", err)
	}
	return values, nil
}

// end ends the resident monitor.
func (m *monitor) end() error {
	m.in.Close()
	if err := m.cmd.Wait(); err != nil {
		return fmt.Errorf("resident monitor: %w: %s", err, bytes.TrimSpace(m.stderr.Bytes()))
	}
	return nil
}
