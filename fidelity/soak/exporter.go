package soak

import (
	"bytes"
	"fmt"
	"io"
	"net"
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
	c, err := net.DialTimeout("tcp", x.addr, phaseTime)
	if err != nil {
		return err
	}
	defer c.Close()
	if phase == hangs {
		return nil
	}
	c.SetDeadline(time.Now().Add(phaseTime))
	if _, err := io.WriteString(c, "GET /metrics HTTP/1.0\r\n\r\n"); err != nil {
		return err
	}
	if phase == lies {
		_, err := c.Read(make([]byte, 1))
		return err
	}
	answer, err := io.ReadAll(c)
	if err != nil {
		return err
	}
	status, _, _ := strings.Cut(string(answer), "\r\n")
	_, body, _ := bytes.Cut(answer, []byte("\r\n\r\n"))
	if words := strings.Fields(status); len(words) < 2 || words[1] != "200" || len(body) == 0 {
		return fmt.Errorf("%q, %d bytes", status, len(body))
	}
	return nil
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
