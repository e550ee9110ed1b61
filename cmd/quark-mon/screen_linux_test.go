package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark"
)

// sgr matches an escape sequence that sets a colour.
var sgr = regexp.MustCompile("\x1b\\[[0-9;]*m")

const recording = "../../engine/enginetest/testdata/ebpf-6.18"

// newTerminal returns the two ends of a pseudo-terminal with a size.
func newTerminal(t testing.TB, width, height uint16) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { master.Close() })
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { slave.Close() })
	resize(t, master, width, height)
	return master, slave
}

func resize(t testing.TB, master *os.File, width, height uint16) {
	t.Helper()
	if err := unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: width, Row: height}); err != nil {
		t.Fatal(err)
	}
}

// onTerminal returns the output of quark-mon on a terminal of 70 columns and 8 lines.
func onTerminal(t *testing.T, env string, args ...string) string {
	t.Helper()
	master, slave := newTerminal(t, 70, 8)
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), "QUARK_MON_RUN=1", "TERM=xterm", "NO_COLOR=", env)
	cmd.Stdout = slave
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	guard := time.AfterFunc(deadline, func() { cmd.Process.Kill() })
	defer guard.Stop()
	var out bytes.Buffer
	io.Copy(&out, master) // ends with an error when nobody has the other end open
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(out.String(), "\r\n", "\n")
}

// On a terminal events are lines that fit. A heading is visible, and colours are used if wanted.
func TestTerminal(t *testing.T) {
	text, err := os.ReadFile(recording + ".joined")
	if err != nil {
		t.Skip(err) // in a guest
	}
	got := onTerminal(t, "", "replay", recording+".trace")
	if !strings.Contains(got, "\x1b[31m1\x1b[m") {
		t.Errorf("an exit code of 1 is not red in\n%s", got)
	}
	bare := sgr.ReplaceAllString(got, "")
	for _, env := range []string{"NO_COLOR=1", "TERM=dumb", "TERM="} {
		if got := onTerminal(t, env, "replay", recording+".trace"); got != bare {
			t.Errorf("with %s: got\n%s\nwant\n%s", env, got, bare)
		}
	}
	headings := 0
	for line := range strings.Lines(bare) {
		if len(line) > 71 {
			t.Errorf("%q is wider than 70", line)
		}
		if strings.HasPrefix(line, "CLOCK ") {
			headings++
		}
	}
	if lines := strings.Count(bare, "\n"); headings != (lines+6)/7 {
		t.Errorf("%d headings in %d lines", headings, lines)
	}
	if got := onTerminal(t, "", "replay", recording+".trace", "--text"); got != string(text) {
		t.Errorf("--text: want\n%s\ngot\n%s", text, got)
	}
	for _, args := range []string{"-j", "-e", "-M"} {
		if got := onTerminal(t, "", "replay", recording+".trace", args); strings.HasPrefix(got, "\x1b") || strings.Contains(got, "TIME") {
			t.Errorf("%s prints lines:\n%s", args, got)
		}
	}
}

// The width of lines follows the width of the terminal.
func TestTerminalResized(t *testing.T) {
	master, slave := newTerminal(t, 90, 20)
	m := &monitor{options: &options{recorded: true, replay: recording + ".trace"}}
	m.columns.Set("args")
	if err := m.open(t.Context()); err != nil {
		t.Skip(err)
	}
	defer m.close()
	s := newScreen(m, slave)
	arg := []byte(strings.Repeat("x", 200))
	p := &quark.Process{Image: quark.Image{Args: arg}, Task: quark.Task{Known: quark.SetOf(quark.FieldArgs)}}
	for _, width := range []uint16{90, 33} {
		resize(t, master, width, 20)
		s.fit()
		got := string(s.Append(nil, &quark.Event{Process: p}))
		if got = got[strings.LastIndexByte(got[:len(got)-1], '\n')+1:]; len(bytes.TrimSpace(sgr.ReplaceAll([]byte(got), nil))) != int(width) {
			t.Errorf("%q does not have %d columns", got, width)
		}
	}
}
