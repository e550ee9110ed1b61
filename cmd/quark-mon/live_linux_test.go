package main

import (
	"bytes"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/cmd/quark-mon/internal/top"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/engine/enginetest"
	"github.com/quark-linux/quark/internal/retry"
)

// emulator is the other end of a terminal, and keeps everything that is written.
type emulator struct {
	*os.File
	mu  sync.Mutex
	got []byte
}

func newEmulator(t testing.TB) (e *emulator, slave *os.File) {
	master, slave := newTerminal(t, 80, 24)
	e = &emulator{File: master}
	go func() {
		b := make([]byte, 1<<12)
		for {
			n, err := master.Read(b)
			e.mu.Lock()
			e.got = append(e.got, b[:n]...)
			e.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return e, slave
}

func (e *emulator) text() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return string(e.got)
}

// await waits until a new text is written, and returns everything since the last call.
func (e *emulator) await(t testing.TB, text string) string {
	t.Helper()
	for range retry.For(deadline) {
		e.mu.Lock()
		if i := bytes.Index(e.got, []byte(text)); i >= 0 {
			all := string(e.got)
			e.got = e.got[i+len(text):]
			e.mu.Unlock()
			return all
		}
		e.mu.Unlock()
	}
	t.Fatalf("%q is not in %q", text, e.text())
	return ""
}

func termios(t *testing.T, f *os.File) unix.Termios {
	t.Helper()
	state, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return *state
}

func liveMonitor(t testing.TB, source quark.Source) *monitor {
	m := &monitor{options: &options{top: true}}
	m.Queue.HoldTime = time.Second
	var err error
	if m.q, err = quark.New(source, m.Queue); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.q.Close() })
	return m
}

func TestLive(t *testing.T) {
	t.Setenv("TERM", "xterm")
	t.Setenv("LC_ALL", "C.UTF-8")
	t.Setenv("NO_COLOR", "")
	e, slave := newEmulator(t)
	before := termios(t, slave)
	source := enginetest.NewMachine()
	sh := source.Running("/bin/sh")
	sh.Fork().Exec("/bin/false").Exit(1)
	source.Miss(engine.LossRingFull, 583)
	m := liveMonitor(t, source)
	stopped := make(chan struct{}, 9)
	l, err := newLive(m, slave, func() { stopped <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	if got := e.await(t, "c clear"); !strings.Contains(got, enterScreen) || !strings.Contains(got, "quark-mon top") {
		t.Errorf("%q", got)
	}
	if during := termios(t, slave); during.Lflag&unix.ECHO != 0 {
		t.Error("the terminal echoes")
	}
	for ev, err := range m.q.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		l.count(ev)
	}
	if err := l.tick(); err != nil {
		t.Fatal(err)
	}
	e.await(t, "31m")
	e.await(t, "ring_full")
	e.Write([]byte("p"))
	e.await(t, "PAUSED")
	e.Write([]byte("p"))
	resize(t, e.File, 20, 5)
	if err := unix.Kill(os.Getpid(), unix.SIGWINCH); err != nil {
		t.Fatal(err)
	}
	// An earlier frame may come first.
	for begin, got := time.Now(), "failed"; strings.Contains(got, "failed"); got = e.await(t, "exits") {
		if time.Since(begin) > deadline {
			t.Fatalf("5 lines have %q", got)
		}
		e.await(t, "quark-mon top")
	}
	for _, key := range []string{"q", "\x03"} {
		e.Write([]byte(key))
		select {
		case <-stopped:
		case <-time.After(deadline):
			t.Fatalf("%q does not stop it", key)
		}
	}
	l.close()
	e.await(t, leaveScreen)
	if after := termios(t, slave); after != before {
		t.Errorf("got terminal settings %[2]v, want %[1]v", before, after)
	}
	l.close()
}

// If a frame is drawn while the screen closes, the terminal still leaves the screen.
func TestLiveClosesWhileItDraws(t *testing.T) {
	t.Setenv("TERM", "xterm")
	m := liveMonitor(t, enginetest.NewMachine())
	for range 200 {
		e, slave := newEmulator(t)
		l, err := newLive(m, slave, func() {})
		if err != nil {
			t.Fatal(err)
		}
		e.await(t, "c clear")
		e.Write([]byte("qqqq")) // each draws the frame again
		l.close()
		e.await(t, leaveScreen)
		e.Close()
		slave.Close()
	}
}

// Without colours, bold replaces red.
func TestLiveWithoutColours(t *testing.T) {
	t.Setenv("TERM", "xterm-256color")
	t.Setenv("NO_COLOR", "1")
	e, slave := newEmulator(t)
	source := enginetest.NewMachine()
	source.Miss(engine.LossRingFull, 583)
	l, err := newLive(liveMonitor(t, source), slave, func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	got := e.await(t, "c clear")
	if colour := regexp.MustCompile("\x1b\\[([34][0-8]|38;.*)m").FindString(got); colour != "" || !strings.Contains(got, "\x1b[1m") {
		t.Errorf("got a colour %q, or no bold text, in %q", colour, got)
	}
}

// A blocked terminal delays neither events nor the end.
func TestLiveStalled(t *testing.T) {
	t.Setenv("TERM", "xterm")
	_, slave := newTerminal(t, 200, 200) // nobody reads
	before := termios(t, slave)
	m := liveMonitor(t, enginetest.NewMachine())
	l, err := newLive(m, slave, func() {})
	if err != nil {
		t.Fatal(err)
	}
	tick := func() {
		if err := l.tick(); err != nil {
			t.Fatal(err)
		}
	}
	begin := time.Now()
	taken := begin
	for range retry.For(deadline) {
		if time.Since(taken) >= 200*time.Millisecond {
			break
		}
		if len(l.frames) == 0 {
			tick()
			taken = time.Now()
		}
	}
	for range 1000 {
		tick()
	}
	if len(l.frames) != 1 || time.Since(begin) > deadline {
		t.Errorf("%d frames wait after %v", len(l.frames), time.Since(begin))
	}
	l.close()
	if after := termios(t, slave); after.Lflag != before.Lflag {
		t.Errorf("got terminal settings %[2]v, want %[1]v", before, after)
	}
}

func init() {
	if os.Getenv("QUARK_MON_PANIC") != "" {
		panicLive()
	}
}

// panicLive panics while the screen is open, at the place that $QUARK_MON_PANIC names.
func panicLive() {
	m := &monitor{options: &options{}}
	m.q, _ = quark.New(enginetest.NewMachine(), quark.Options{})
	l, err := newLive(m, os.Stdout, func() {})
	if err != nil {
		panic(err)
	}
	defer l.close()
	time.Sleep(100 * time.Millisecond)
	if os.Getenv("QUARK_MON_PANIC") == "draw" {
		l.frames <- frame{Frame: &top.Frame{Trees: []top.Tree{{}}}}
		time.Sleep(deadline)
	}
	panic("in the monitor")
}

func TestLivePanics(t *testing.T) {
	for _, where := range []string{"draw", "monitor"} {
		e, slave := newEmulator(t)
		before := termios(t, slave)
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
		cmd.Env = append(os.Environ(), "TERM=xterm", "QUARK_MON_PANIC="+where)
		cmd.Stdout, cmd.Stderr = slave, slave
		if err := cmd.Run(); err == nil {
			t.Errorf("%s: no panic", where)
		}
		e.await(t, enterScreen)
		e.await(t, leaveScreen)
		e.await(t, "panic: ")
		if after := termios(t, slave); after != before {
			t.Errorf("%s: got terminal settings %[3]v, want %[2]v", where, before, after)
		}
	}
}

// top restores the terminal in whatever way it ends.
func TestTop(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) // else top ignores it under nohup
	for name, end := range map[string]func(*emulator, *os.Process){
		"q":       func(e *emulator, _ *os.Process) { e.Write([]byte("q")) },
		"ctrl-c":  func(e *emulator, _ *os.Process) { e.Write([]byte("\x03")) },
		"SIGTERM": func(_ *emulator, p *os.Process) { p.Signal(syscall.SIGTERM) },
		"SIGHUP":  func(_ *emulator, p *os.Process) { p.Signal(syscall.SIGHUP) },
		"twice": func(_ *emulator, p *os.Process) {
			p.Signal(syscall.SIGINT)
			p.Signal(syscall.SIGINT)
		},
		"hangup": func(e *emulator, _ *os.Process) { e.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			e, slave := newEmulator(t)
			before := termios(t, slave)
			cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "top")
			cmd.Env = append(os.Environ(), "QUARK_MON_RUN=1", "TERM=xterm")
			cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			guard := time.AfterFunc(deadline, func() { cmd.Process.Kill() })
			defer guard.Stop()
			e.await(t, "c clear")
			end(e, cmd.Process)
			if err := cmd.Wait(); err != nil {
				t.Errorf("%v: %q", err, e.text())
			}
			if name == "hangup" {
				return
			}
			e.await(t, leaveScreen)
			e.await(t, " event")
			if after := termios(t, slave); after != before {
				t.Errorf("got terminal settings %[2]v, want %[1]v", before, after)
			}
		})
	}
}

func TestTopIsRefused(t *testing.T) {
	_, slave := newTerminal(t, 80, 24)
	for term, want := range map[string]string{
		"TERM=dumb": `quark-mon: top needs a terminal with cursor control: TERM is "dumb"`,
		"TERM=":     `quark-mon: top needs a terminal with cursor control: TERM is ""`,
	} {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "top")
		cmd.Env = append(os.Environ(), "QUARK_MON_RUN=1", term)
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = slave, &said
		if err := cmd.Run(); err == nil || strings.TrimSpace(said.String()) != want {
			t.Errorf("%s: %v: %s", term, err, said.String())
		}
	}
}
