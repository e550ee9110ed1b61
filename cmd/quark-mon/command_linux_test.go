package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// quark-mon watches a command from its first event to its end, and exits with the command's status.
func TestCommand(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	for _, c := range []struct {
		script string
		status int
		want   []string // on standard error, in this order
	}{
		{"echo out; sh -c 'exit 3'; exit 5", 5, []string{"PID", "-- ", "sh -c 'exit 3'", " events, 0 lost", "\nfailed:\n", "sh -c ", "sh -c ", "processes, 2 failed, "}},
		{"echo out; kill -KILL $$", 128 + 9, []string{"SIGKILL", "\nfailed:\n", "SIGKILL", "1 process, 1 failed, "}},
		{"echo out", 0, []string{"FEX", " event, ", "sh -c 'echo out': 1 process, 0 failed, ", "peak memory at most "}},
		{"echo out; : '\x1b[31m' a long command of sh", 0, []string{`sh -c $'echo out; : \'\x1b[31m\' a long>: 1 process, `}},
		{"exec 3<&0; echo out; cat <&3 >/dev/null 2>&1 & exit 0", 0, []string{"2 processes, 1 still running, 0 failed, "}},
	} {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-b", "--", "sh", "-c", c.script)
		cmd.Env = append(os.Environ(), "QUARK_MON_RUN=1")
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		in, stop, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stdin = in
		guard := time.AfterFunc(deadline, func() { cmd.Process.Kill() })
		cmd.Run()
		guard.Stop()
		in.Close()
		stop.Close() // ends a process that still runs
		if status := cmd.ProcessState.ExitCode(); status != c.status || out.String() != "out\n" {
			t.Errorf("%s: got status %d, output %q", c.script, status, &out)
		}
		rest := errs.String()
		if strings.Contains(rest, "filtered") || strings.Contains(rest, " < ") {
			t.Errorf("%s: got filters, or ancestors of quark-mon, in\n%s", c.script, rest)
		}
		for _, w := range c.want {
			_, after, ok := strings.Cut(rest, w)
			if !ok {
				t.Errorf("%s: no %q at its place in\n%s", c.script, w, &errs)
				break
			}
			rest = after
		}
	}
}

// A missing command is not run, and -d ends a running one.
func TestCommandEnds(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	for args, want := range map[string]int{"-c -- /nothing/here": 127, "-c -- /": 126, "-c -d 0.2 -- sleep 1000": 128 + 15} {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", strings.Fields(args)...)
		cmd.Env = append(os.Environ(), "QUARK_MON_RUN=1")
		guard := time.AfterFunc(deadline, func() { cmd.Process.Kill() })
		cmd.Run()
		guard.Stop()
		if status := cmd.ProcessState.ExitCode(); status != want {
			t.Errorf("%s: status %d, not %d", args, status, want)
		}
	}
}
