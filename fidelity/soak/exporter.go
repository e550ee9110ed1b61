package soak

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Exporter is a command that exports events. Its words may have {url}, a target that fails in
// turns, and {addr}, an address on which it is to serve HTTP, and which is read in turns,
// completely and not. Its standard output is read, and is not, in turns.
type Exporter struct{ Name, Command string }

// ParseExporter reads NAME=COMMAND.
func ParseExporter(text string) (e Exporter, err error) {
	name, command, ok := strings.Cut(text, "=")
	if !ok || name == "" || len(strings.Fields(command)) == 0 {
		return e, fmt.Errorf("exporter %q: NAME=COMMAND is wanted", text)
	}
	return Exporter{name, command}, nil
}

// phaseTime is how long a target does the same.
const phaseTime = 2 * time.Second

// exporting is an exporter that runs.
type exporting struct {
	Exporter
	cmd    *exec.Cmd
	ended  chan struct{}
	stderr tail
	target *target
	addr   string // that it serves, "" if it does not

	stall sync.Mutex // held while nobody reads its output
	read  int64      // bytes of its output
}

// startExporter starts a command.
func startExporter(e Exporter) (x *exporting, err error) {
	x = &exporting{Exporter: e, ended: make(chan struct{})}
	words := strings.Fields(e.Command)
	for i, w := range words {
		if strings.Contains(w, "{url}") && x.target == nil {
			if x.target, err = newTarget(); err != nil {
				return nil, err
			}
		}
		if strings.Contains(w, "{addr}") && x.addr == "" {
			if x.addr, err = freeAddress(); err != nil {
				return nil, err
			}
		}
		if x.target != nil {
			w = strings.ReplaceAll(w, "{url}", "http://"+x.target.addr)
		}
		words[i] = strings.ReplaceAll(w, "{addr}", x.addr)
	}
	x.cmd = exec.Command(words[0], words[1:]...)
	x.cmd.Stderr = &x.stderr
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := x.cmd.StdoutPipe()
	if err == nil {
		err = x.cmd.Start()
	}
	if err != nil {
		x.target.close()
		return nil, fmt.Errorf("exporter %s: %w", e.Name, err)
	}
	go func() {
		x.drain(out)
		x.cmd.Wait()
		close(x.ended)
	}()
	return x, nil
}

// drain reads the output while it is not stalled.
func (x *exporting) drain(out io.Reader) {
	for buf := make([]byte, 64<<10); ; {
		x.stall.Lock()
		n, err := out.Read(buf)
		x.read += int64(n)
		x.stall.Unlock()
		if err != nil {
			return
		}
	}
}

// fail lets the targets fail in turns until stop is closed. It returns when they work again.
func (x *exporting) fail(stop <-chan struct{}) {
	defer x.target.set(works)
	for phase := works; ; phase = (phase + 1) % phases {
		x.target.set(phase)
		stalled := phase%2 == 1 && x.stall.TryLock()
		if x.addr != "" {
			x.scrape(phase)
		}
		over := false
		select {
		case <-stop:
			over = true
		case <-time.After(phaseTime):
		}
		if stalled {
			x.stall.Unlock()
		}
		if over {
			return
		}
	}
}

// scrape reads what it serves, or leaves after the first bytes, or says nothing at all.
func (x *exporting) scrape(phase int) error {
	client := http.Client{Timeout: phaseTime, Transport: &http.Transport{DisableKeepAlives: true}}
	switch phase {
	case hangs:
		c, err := net.DialTimeout("tcp", x.addr, phaseTime)
		if err != nil {
			return err
		}
		return c.Close()
	default:
		r, err := client.Get("http://" + x.addr + "/metrics")
		if err != nil {
			return err
		}
		defer r.Body.Close()
		if phase == lies {
			_, err = r.Body.Read(make([]byte, 1))
			return err
		}
		n, err := io.Copy(io.Discard, r.Body)
		if err == nil && (r.StatusCode != http.StatusOK || n == 0) {
			err = fmt.Errorf("%s, %d bytes", r.Status, n)
		}
		return err
	}
}

// check returns what is wrong with it while all works.
func (x *exporting) check() error {
	select {
	case <-x.ended:
		return fmt.Errorf("exporter %s ended, %v: %s", x.Name, x.cmd.ProcessState, x.stderr.String())
	default:
	}
	if x.addr == "" {
		return nil
	}
	if err := x.scrape(works); err != nil {
		return fmt.Errorf("exporter %s does not answer: %w", x.Name, err)
	}
	return nil
}

// figures returns what it uses.
func (x *exporting) figures() ([]Figure, error) { return figuresOf(x.Name+" ", x.cmd.Process.Pid) }

// stop ends it.
func (x *exporting) stop() error {
	defer x.target.close()
	x.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-x.ended:
		return nil
	case <-time.After(10 * time.Second):
		syscall.Kill(-x.cmd.Process.Pid, syscall.SIGKILL)
		<-x.ended
		return fmt.Errorf("exporter %s had to be killed: it did not end within 10 s of SIGTERM", x.Name)
	}
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// tail keeps the last bytes that were written.
type tail struct {
	mu   sync.Mutex
	last []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	const most = 4096
	t.last = append(t.last, b...)
	t.last = append(t.last[:0], t.last[max(0, len(t.last)-most):]...)
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.last))
}

// What a target does.
const (
	works = iota
	refuses
	hangs
	lies
	breaks
	phases
)

// target is a server of HTTP.
type target struct {
	addr   string
	server *http.Server

	mu      sync.Mutex
	phase   int
	changed chan struct{} // closed when the phase changes
	got     int64         // requests that it took
}

func newTarget() (*target, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	t := &target{addr: l.Addr().String(), changed: make(chan struct{})}
	t.server = &http.Server{Handler: t}
	t.server.SetKeepAlivesEnabled(false)
	go t.server.Serve(l)
	return t, nil
}

// set changes what the target does. A nil one does nothing.
func (t *target) set(phase int) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.phase = phase
	close(t.changed)
	t.changed = make(chan struct{})
}

func (t *target) close() error {
	if t == nil {
		return nil
	}
	t.set(works) // whoever hangs goes on
	return t.server.Close()
}

func (t *target) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t.mu.Lock()
	phase, changed := t.phase, t.changed
	t.mu.Unlock()
	switch phase {
	case refuses:
		http.Error(w, "try again", http.StatusServiceUnavailable)
	case hangs:
		select {
		case <-changed:
		case <-r.Context().Done():
		}
		http.Error(w, "too late", http.StatusGatewayTimeout)
	case lies:
		w.Write(bytes.Repeat([]byte("\xff no answer "), 1000))
	case breaks:
		if h, ok := w.(http.Hijacker); ok {
			if c, _, err := h.Hijack(); err == nil {
				c.Close()
			}
		}
	default:
		if _, err := io.Copy(io.Discard, r.Body); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		t.mu.Lock()
		t.got++
		t.mu.Unlock()
	}
}
