package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cilium/ebpf"

	"github.com/quark-linux/quark/internal/retry"
)

// deadline is for operations that normally take a fraction of a second.
const deadline = 30 * time.Second

// running is a quark-mon process that has printed its backend.
type running struct {
	*exec.Cmd
	out    *bufio.Reader
	pipe   io.Closer
	errs   *bufio.Reader
	banner string
}

// start runs quark-mon with the options until it is ready.
func start(t *testing.T, args ...string) *running {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	r := &running{Cmd: exec.Command("/proc/self/exe", args...)}
	r.Env = append(os.Environ(), "QUARK_MON_RUN=1")
	out, err := r.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	errs, err := r.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	guard := time.AfterFunc(deadline, func() { r.Process.Kill() })
	t.Cleanup(func() {
		guard.Stop()
		r.Process.Kill()
		r.Wait()
	})
	r.out, r.pipe, r.errs = bufio.NewReader(out), out, bufio.NewReader(errs)
	if r.banner, err = r.errs.ReadString('\n'); err != nil {
		t.Fatalf("no first line on stderr within %v", deadline)
	}
	if strings.Contains(r.banner, "no backend can be used") {
		t.Skip(r.banner)
	}
	return r
}

type record struct {
	Backend string
	Events  []string
	Process struct {
		PID        int
		Comm       *string
		Exe        *string
		Args       []string
		Exited     bool
		ExitCode   *int `json:"exit_code"`
		WaitStatus *int `json:"wait_status"`
	}
}

// exitOf reads JSON lines until the end of process pid.
func (r *running) exitOf(t *testing.T, pid int) record {
	t.Helper()
	for {
		line, err := r.out.ReadBytes('\n')
		if err != nil {
			t.Fatalf("got no EXIT of pid %d within %v: %v", pid, deadline, err)
		}
		var rec record
		if err := json.Unmarshal(line, &rec); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if rec.Process.PID == pid && rec.Process.Exited {
			return rec
		}
	}
}

// interrupt ends quark-mon and returns what it printed on standard error.
func (r *running) interrupt(t *testing.T) string {
	t.Helper()
	if err := r.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	return r.end(t)
}

// end waits for the end after a signal, and returns the rest of standard error.
func (r *running) end(t *testing.T) string {
	t.Helper()
	io.Copy(io.Discard, r.out)
	rest, _ := io.ReadAll(r.errs)
	if err := r.Wait(); err != nil {
		t.Fatalf("after a signal: %v\n%s", err, rest)
	}
	return string(rest)
}

func sh(t *testing.T, script string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd
}

func TestJSONEvents(t *testing.T) {
	for flag, name := range map[string]string{"-b": "ebpf", "-c": "cnproc"} {
		t.Run(name, func(t *testing.T) {
			r := start(t, flag, "-j", "-s", "--hold-time", "50ms")
			want := map[string]string{"ebpf": `^quark-mon: backend ebpf, types from .+\n$`, "cnproc": `^quark-mon: backend cnproc, .*no exec_path, .* fields only from /proc\n$`}[name]
			if !regexp.MustCompile(want).MatchString(r.banner) {
				t.Errorf("first line: got %q, want %q", r.banner, want)
			}
			cmd := sh(t, "exit 3")
			rec := r.exitOf(t, cmd.Process.Pid)
			if rec.Backend != name || rec.Process.ExitCode == nil || *rec.Process.ExitCode != 3 ||
				*rec.Process.WaitStatus != 3<<8 {
				t.Errorf("got %+v", rec)
			}
			if errs := r.interrupt(t); !regexp.MustCompile(`^quark-mon: [\d,]+ events?, [\d,]+ lost.*\n$`).MatchString(errs) {
				t.Errorf("the last line is %q", errs)
			}
		})
	}
}

// The hold time does not delay the end: waiting events are printed at once.
func TestInterruptDrains(t *testing.T) {
	r := start(t, "-b", "-j", "-s", "--hold-time", "1h")
	cmd := sh(t, "exit 4")
	if err := r.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	r.exitOf(t, cmd.Process.Pid)
}

// With -o, SIGHUP reopens the file and does not end quark-mon.
func TestHangup(t *testing.T) {
	name := filepath.Join(t.TempDir(), "events")
	r := start(t, "-c", "-s", "-j", "-o", name)
	wait := func(file string) {
		t.Helper()
		for begin := time.Now(); ; {
			exec.Command("true").Run()
			if b, err := os.ReadFile(file); err == nil && len(b) > 0 {
				return
			}
			if time.Since(begin) > time.Minute {
				t.Fatalf("got no output in %s within a minute", file)
			}
		}
	}
	wait(name)
	if err := os.Rename(name, name+".1"); err != nil {
		t.Fatal(err)
	}
	if err := r.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	wait(name)
	if err := r.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := r.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{name + ".1", name} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(b) {
			if !json.Valid(line) {
				t.Errorf("%s has %q", file, line)
			}
		}
	}
}

// One signal ends the wait for a FIFO with a silent writer.
func TestSilentFIFO(t *testing.T) {
	for option, want := range map[string]string{"--rules": "--rules: FIFO: ended before it was read", "replay": "FIFO: ended before its beginning was read"} {
		name := filepath.Join(t.TempDir(), "FIFO")
		if err := unix.Mkfifo(name, 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("/proc/self/exe", option, name)
		cmd.Env = append(os.Environ(), "QUARK_MON_RUN=1")
		var errs strings.Builder
		cmd.Stderr = &errs
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer time.AfterFunc(deadline, func() { cmd.Process.Kill() }).Stop()
		writer, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer writer.Close()
		if _, err := writer.Write([]byte("q")); err != nil {
			t.Fatal(err)
		}
		for n, begin := 1, time.Now(); n > 0 && time.Since(begin) < deadline; {
			if n, err = unix.IoctlGetInt(int(writer.Fd()), unix.TIOCINQ); err != nil {
				t.Fatal(err)
			}
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		err = cmd.Wait()
		if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != 1 ||
			strings.ReplaceAll(errs.String(), name, "FIFO") != "quark-mon: "+want+"\n" {
			t.Errorf("%s: %v: %s", option, err, &errs)
		}
	}
}

func TestText(t *testing.T) {
	r := start(t, "-b", "--text", "--hold-time", "50ms")
	sh(t, "exit 5")
	for {
		line, err := r.out.ReadString('\n')
		if err != nil {
			t.Fatalf("no exit code 5 within %v", deadline)
		}
		if strings.Contains(line, "exit_code=5") {
			break
		}
	}
	r.interrupt(t)
}

// Each -v prints more: the capability table and the counters, then the rules of joining, then
// counters once a second.
func TestVerbose(t *testing.T) {
	marks := []string{"event FORK", "\nfirst ", "insertions"}
	for level := range 4 {
		// The options exclude events of other processes, because nobody reads the output of
		// a busy machine.
		options := []string{"-c", "-s", "-g", "-P", strconv.Itoa(os.Getpid())}
		r := start(t, append(options, slices.Repeat([]string{"-v"}, level)...)...)
		told := r.banner
		for level == 3 && !strings.Contains(told, "insertions") {
			line, err := r.errs.ReadString('\n')
			if err != nil {
				t.Fatalf("-vvv: no statistics within %v: %v", deadline, err)
			}
			told += line
		}
		rest := r.interrupt(t)
		if end := strings.Contains(rest, "insertions"); end != (level > 0) {
			t.Errorf("%d times -v: got counters at the end: %v", level, end)
		}
		if level < 3 {
			rest, _, _ = strings.Cut(rest, "  insertions") // at the end
		}
		told += rest
		for i, mark := range marks {
			if got := strings.Contains(told, mark); got != (level > i) {
				t.Errorf("%d times -v: got %q: %v\n%s", level, mark, got, told)
			}
		}
	}
}

func TestDropPrivileges(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	for _, flag := range []string{"-b", "-c"} {
		r := start(t, flag, "-D", "-j", "-s", "--hold-time", "50ms")
		status, err := os.ReadFile("/proc/" + strconv.Itoa(r.Process.Pid) + "/status")
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(status, []byte("Uid:\t65534\t65534\t65534\t65534")) {
			t.Errorf("not nobody:\n%s", status)
		}
		cmd := sh(t, "exit 6")
		r.exitOf(t, cmd.Process.Pid)
		r.interrupt(t)
	}
	if left, err := os.ReadDir(temporary); len(left) > 0 || err != nil {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestCountJSON(t *testing.T) {
	r := start(t, "-c", "-M", "-j")
	sh(t, "exit 0")
	var s statsRecord
	for s.Insertions == 0 {
		line, err := r.out.ReadBytes('\n')
		if err != nil {
			t.Fatalf("no statistics with insertions within %v", deadline)
		}
		if err := json.Unmarshal(line, &s); err != nil {
			t.Fatal(err)
		}
	}
	// Other processes may have caused a storm and a loss meanwhile.
	if s.Backend != "cnproc" || s.Produced != s.Insertions+s.Lost {
		t.Errorf("got %+v", s)
	}
	r.interrupt(t)
}

func TestPPIDFilter(t *testing.T) {
	r := start(t, "-b", "-j", "-P", strconv.Itoa(os.Getpid()), "--hold-time", "50ms")
	cmd := sh(t, "sh -c 'exit 7'; exit 8")
	for {
		line, err := r.out.ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		var rec struct{ Process struct{ PID, PPID int } }
		if err := json.Unmarshal(line, &rec); err != nil {
			t.Fatal(err)
		}
		if rec.Process.PPID != os.Getpid() {
			t.Fatalf("a stranger: %s", line)
		}
		if rec.Process.PID == cmd.Process.Pid {
			break
		}
	}
	r.interrupt(t)
}

// If the reader of the output leaves, quark-mon ends without a message and with status 0.
func TestClosedOutput(t *testing.T) {
	r := start(t, "-b", "-j", "-s", "--hold-time", "10ms")
	r.pipe.Close()
	done := make(chan error, 1)
	go func() {
		io.Copy(io.Discard, r.errs)
		done <- r.Wait()
	}()
	for end := time.After(deadline); ; sh(t, "true") {
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("ended with %v", err)
			}
			return
		case <-end:
			t.Fatalf("quark-mon still runs %v after its output was closed", deadline)
		default:
		}
	}
}

// After kill -9 no program is left in the kernel.
func TestKillLeavesNothing(t *testing.T) {
	r := start(t, "-b", "-j", "-s")
	programs := programsOf(t, r.Process.Pid)
	if len(programs) == 0 {
		t.Fatal("quark-mon holds no program while it runs")
	}
	r.Process.Kill()
	r.Wait()
	end := time.Now().Add(deadline)
	for _, id := range programs {
		for {
			p, err := ebpf.NewProgramFromID(id)
			if errors.Is(err, os.ErrNotExist) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			p.Close()
			if time.Now().After(end) {
				t.Fatalf("program %d is still there %v after kill -9", id, deadline)
			}
		}
	}
}

// programsOf returns the ids of the eBPF programs for which a process holds descriptors.
func programsOf(t testing.TB, pid int) (ids []ebpf.ProgramID) {
	t.Helper()
	files, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fdinfo/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		info, _ := os.ReadFile(f) // some are gone again
		if m := regexp.MustCompile(`(?m)^prog_id:\s*(\d+)$`).FindSubmatch(info); m != nil {
			id, err := strconv.ParseUint(string(m[1]), 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, ebpf.ProgramID(id))
		}
	}
	return ids
}

// Without privileges a backend names the missing ones, and quark-mon says how to run it. Since
// Linux 6.12 the proc connector needs none.
func TestUnprivileged(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to become another user")
	}
	exe, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = d[:strings.LastIndexByte(d, '/')] {
		os.Chmod(d, 0o755)
	}
	path := dir + "/quark-mon"
	if err := os.WriteFile(path, exe, 0o755); err != nil {
		t.Fatal(err)
	}
	for option, want := range map[string]string{
		"-b": "quark-mon: open quark: no backend can be used: ebpf: .*CAP_.*",
		"-q": "quark-mon: not permitted: run it as root, or with CAP_BPF and CAP_PERFMON .*",
	} {
		cmd := exec.CommandContext(t.Context(), path, option)
		cmd.Env = []string{"QUARK_MON_RUN=1"}
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		guard := time.AfterFunc(deadline, func() { cmd.Process.Kill() })
		out, err := cmd.CombinedOutput()
		guard.Stop()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 1 || !regexp.MustCompile("^"+want+"\n$").Match(out) || bytes.Contains(out, []byte("MEMLOCK")) {
			t.Errorf("%s: %v: %s", option, err, out)
		}
	}
}

// timeout(1) sends its signal twice at once: to the command and to its process group.
func TestSignalTwiceAtOnce(t *testing.T) {
	r := start(t, "-c", "-j", "-s", "--hold-time", "1h")
	cmd := sh(t, "exit 4")
	for range 2 {
		if err := r.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
	}
	r.exitOf(t, cmd.Process.Pid)
	if errs := r.end(t); !strings.Contains(errs, " event") {
		t.Errorf("no summary: %q", errs)
	}
}

// A stalled reader does not prevent the end.
func TestSecondSignal(t *testing.T) {
	for _, flag := range []string{"-b", "-c"} {
		r := start(t, flag, "-j", "--hold-time", "10ms")
		unix.FcntlInt(r.pipe.(*os.File).Fd(), unix.F_SETPIPE_SZ, 4096)
		for range 50 {
			sh(t, "exit 0")
		}
		ended := make(chan error, 1)
		go func() { // Cmd.Wait would close the pipe
			_, err := r.Process.Wait()
			ended <- err
		}()
		for range 2 {
			if err := r.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		select {
		case <-ended:
		case <-time.After(deadline):
			t.Errorf("%s: quark-mon still runs %v after the second signal", flag, deadline)
			r.Process.Kill()
			<-ended
		}
	}
}

// Neither a stalled standard error nor a FIFO without a reader prevents the end. The FIFO does not
// delay the end of -d either.
func TestEndStalled(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		signals int
		args    []string
	}{
		{2, []string{"replay", "../../engine/enginetest/testdata/ebpf-6.18.trace"}},
		{2, []string{"-c", "-j"}},
		{2, []string{"-c", "-M", "-vvv"}},
		{2, []string{"--no-such-option"}},
		{2, []string{"--rules", fifo}},
		{1, []string{"-c", "-w", fifo}},
		{1, []string{"replay", fifo}},
		{0, []string{"-c", "-C", fifo, "-d", "500ms"}},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			t.Parallel() // it waits for the program
			// Standard error has no room for a line.
			full, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer full.Close()
			size, err := unix.FcntlInt(w.Fd(), unix.F_GETPIPE_SZ, 0)
			if err != nil {
				t.Fatal(err)
			}
			if c.signals == 2 {
				w.Write(make([]byte, size))
			}
			cmd := exec.Command("/proc/self/exe", c.args...)
			cmd.Env = append(os.Environ(), "QUARK_MON_RUN=1")
			cmd.Stdout, cmd.Stderr = w, w
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			w.Close()
			ended := make(chan struct{})
			go func() {
				cmd.Wait()
				close(ended)
			}()
			time.Sleep(time.Second)
			for range c.signals {
				cmd.Process.Signal(syscall.SIGTERM)
				time.Sleep(200 * time.Millisecond)
			}
			select {
			case <-ended:
			case <-time.After(3 * time.Second):
				if c.signals == 2 { // on a busy machine they may have been one
					cmd.Process.Signal(syscall.SIGTERM)
				}
			}
			select {
			case <-ended:
			case <-time.After(10 * time.Second):
				t.Errorf("quark-mon still runs 13 seconds after %d signals", c.signals)
				cmd.Process.Kill()
				<-ended
			}
		})
	}
}

// If the writer of a recording in a FIFO falls silent, one signal ends the replay, and all received
// events are shown.
func TestReplayOfASilentWriter(t *testing.T) {
	const name = "../../engine/enginetest/testdata/ebpf-6.18.trace"
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	writer, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	if _, err := writer.Write(whole[:len(whole)-8]); err != nil { // without its end
		t.Fatal(err)
	}
	want, _ := io.ReadAll(start(t, "replay", name, "-s", "-j").out)
	r := start(t, "replay", fifo, "-s", "-j")
	time.Sleep(time.Second)
	if err := r.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	got, _ := io.ReadAll(r.out)
	errs, _ := io.ReadAll(r.errs)
	if err := r.Wait(); err != nil || !bytes.Equal(got, want) || len(want) == 0 {
		t.Errorf("%v, %d bytes of %d: %s", err, len(got), len(want), errs)
	}
}

// A replay has the recorded events, even if quark-mon was killed.
func TestRecord(t *testing.T) {
	for _, flag := range []string{"-b", "-c"} {
		file := filepath.Join(t.TempDir(), "trace")
		r := start(t, flag, "-j", "-s", "--hold-time", "50ms", "-w", file)
		want := r.exitOf(t, sh(t, "exit 9").Process.Pid)
		go io.Copy(io.Discard, r.out)
		// A block is written at the first event a second after it began. It is complete
		// once the next block is written.
		for range 2 {
			before := size(t, file)
			for range retry.For(deadline) {
				if size(t, file) != before {
					break
				}
				sh(t, "exit 0")
			}
			if size(t, file) == before {
				t.Fatalf("%s: got no output within %v", flag, deadline)
			}
		}
		r.Process.Kill()
		r.Wait()

		replay := start(t, "replay", file, "-j", "-s", "--hold-time", "50ms")
		got := replay.exitOf(t, want.Process.PID)
		if got.Backend != want.Backend || *got.Process.WaitStatus != 9<<8 {
			t.Errorf("%s: got replayed %+v, want %+v", flag, got.Process, want.Process)
		}
		io.Copy(io.Discard, replay.out)
		if errs, _ := io.ReadAll(replay.errs); !bytes.Contains(errs, []byte("truncated after")) {
			t.Errorf("%s: %s", flag, errs)
		}
	}
}

func size(t *testing.T, file string) int64 {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}
