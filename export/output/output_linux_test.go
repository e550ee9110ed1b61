package output

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A disk that is full leaves no half of a line, costs what has no room to wait, and is written
// again when it has room.
func TestFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to mount a small file system")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("mount a small file system: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	other := filepath.Join(dir, "other")
	if err := os.WriteFile(other, make([]byte, 32<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "events")
	o := quick()
	o.Length = 1000
	reports := make(chan error, 10)
	o.Report = func(err error) { reports <- err }
	out := open(t, name, o)
	put(out, 0, 2000)
	put(out, 2000, 4000)
	if err := <-reports; err == nil || !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("reported %v", err)
	}
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	if err := <-reports; err != nil {
		t.Errorf("reported %v", err)
	}
	for out.Counts().Queued > 0 {
		time.Sleep(time.Millisecond)
	}
	put(out, 4000, 4001)
	dropped := closed(t, out, 4001)["queue_full"]
	got, _ := lines(t, name)
	n := len(got)
	if dropped == 0 || n < 3 || got[n-2] != fmt.Sprintf("dropped %d", dropped) || got[n-1] != "line 004000" || !slices.Equal(got[:n-2], numbered(0, 4000-int(dropped))) {
		t.Errorf("%d dropped, %d lines, the last %q", dropped, n, got[max(0, n-3):])
	}
}

// A file that can't be renamed grows, which is reported, until it can be.
func TestRenameRefused(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to mount a file on itself, which can't be renamed then")
	}
	name := filepath.Join(t.TempDir(), "events")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(name, name, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("mount a file on itself: %v", err)
	}
	mounted := true
	unmount := func() {
		if err := unix.Unmount(name, unix.MNT_DETACH); mounted && err != nil {
			t.Error(err)
		}
		mounted = false
	}
	t.Cleanup(func() {
		if mounted {
			unmount()
		}
	})
	o := quick()
	o.RotateSize = 12 * 100
	reports := make(chan error, 100)
	o.Report = func(err error) { reports <- err }
	out := open(t, name, o)
	put(out, 0, 300)
	for out.Counts().Queued > 0 {
		time.Sleep(time.Millisecond)
	}
	if err := <-reports; !errors.Is(err, unix.EBUSY) || !strings.Contains(err.Error(), "grows until") {
		t.Errorf("reported %v", err)
	}
	if got, files := lines(t, name); !slices.Equal(got, numbered(0, 300)) || files != 1 {
		t.Errorf("%d lines in %d files", len(got), files)
	}
	unmount()
	time.Sleep(2 * o.RetryMax)
	put(out, 300, 350)
	closed(t, out, 350)
	if got, files := lines(t, name); !slices.Equal(got, numbered(0, 350)) || files != 2 {
		t.Errorf("%d lines in %d files", len(got), files)
	}
}

// What can be opened, and not written, is refused, and not changed before.
func TestUnwritable(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, whom no mode keeps from opening a file")
	}
	const name = "/proc/version"
	before, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, 0o444); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(name, before.Mode())
	if _, err := Open(name, quick()); !errors.Is(err, unix.EIO) || !strings.Contains(err.Error(), "name a file that can be written") {
		t.Errorf("error %v", err)
	}
	if after, err := os.Stat(name); err != nil || after.Mode() != 0o444 {
		t.Errorf("%v, %v", after, err)
	}
}

// mkfifo makes a FIFO.
func mkfifo(t *testing.T) (name string) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(name, 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// An old file that can't be removed is reported, and holds nothing up. A directory is none.
func TestOldFileStays(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "events")
	old := name + ".20200101T000000.000000Z"
	if err := os.WriteFile(old, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(name+".20190101T000000.000000Z", 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(old)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const immutable = 0x10 // FS_IMMUTABLE_FL
	if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, immutable); err != nil {
		t.Skip(err)
	}
	defer unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, 0)
	o := quick()
	o.RotateSize, o.Keep, o.RetryMin, o.RetryMax = 1200, 1, time.Hour, time.Hour
	var reports []error
	o.Report = func(err error) { reports = append(reports, err) }
	out := open(t, name, o)
	put(out, 0, 1000)
	if dropped := closed(t, out, 1000); dropped["ended"]+dropped["queue_full"] > 0 {
		t.Errorf("dropped %v", dropped)
	}
	if len(reports) != 1 || !errors.Is(reports[0], unix.EPERM) {
		t.Errorf("reported %v", reports)
	}
	if st, err := os.Stat(name + ".20190101T000000.000000Z"); err != nil || !st.IsDir() {
		t.Errorf("the directory: %v", err)
	}
}

// Readers of a FIFO that come late, go and come again get all lines, with what is left of the one
// that the last reader began.
func TestFIFO(t *testing.T) {
	name := mkfifo(t)
	o := quick()
	reports := make(chan error, 100)
	o.Report = func(err error) { reports <- err }
	out := open(t, name, o)
	const events = 16000 // more than a FIFO has room for
	put(out, 0, events)
	if err := <-reports; err == nil || !strings.Contains(err.Error(), "no program reads this FIFO") {
		t.Errorf("reported %v", err)
	}
	var text []byte
	for _, part := range []int64{100_001, 5, events*12 - 100_006} {
		r, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(io.LimitReader(r, part))
		if err != nil || int64(len(b)) != part {
			t.Fatalf("read %d of %d bytes: %v", len(b), part, err)
		}
		text = append(text, b...)
		if len(text) < events*12 {
			if out.Counts().Queued == 0 {
				t.Fatal("nothing is left for the next reader")
			}
		}
		r.Close()
	}
	closed(t, out, events)
	if got := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"); !slices.Equal(got, numbered(0, events)) {
		t.Errorf("%d lines came", len(got))
	}
	if st, err := os.Stat(name); err != nil || st.Mode() != 0o644|os.ModeNamedPipe {
		t.Errorf("%v, %v", st, err)
	}
	o.RotateSize = 1
	if _, err := Open(name, o); err == nil || !strings.Contains(err.Error(), "not rotated") {
		t.Errorf("with rotation: error %v", err)
	}
}

// Targets that are there, and take nothing, delay neither Put nor the end, and what they have not
// taken is counted.
func TestStuckTargets(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := t.TempDir()
	defer func(name string) { journalSocket = name }(journalSocket)
	journalSocket = filepath.Join(dir, "journal")
	for _, name := range []string{journalSocket, filepath.Join(dir, "log")} {
		c, err := net.ListenPacket("unixgram", name)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	fifo := mkfifo(t)
	reader, err := os.OpenFile(fifo, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for _, target := range []string{"syslog+tcp://" + l.Addr().String(), "syslog+unix:" + filepath.Join(dir, "log"), "journald", fifo} {
		t.Run(target, func(t *testing.T) {
			o := quick()
			o.Grace = 500 * time.Millisecond
			out := open(t, target, o)
			line := append(make([]byte, 8<<10), '\n')
			const events = 4000
			begin := time.Now()
			for range events {
				out.Put(nil, line)
			}
			if d := time.Since(begin); d > 5*time.Second {
				t.Errorf("%d Puts took %v", events, d)
			}
			begin = time.Now()
			dropped := closed(t, out, events)
			if d := time.Since(begin); d > o.Grace+time.Second {
				t.Errorf("Close took %v", d)
			}
			if dropped["ended"] == 0 || dropped["queue_full"] == 0 {
				t.Errorf("dropped %v", dropped)
			}
		})
	}
}

// message is one of RFC 5424, 6: a header, no structured data and a text.
var message = regexp.MustCompile(`^<30>1 \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z [!-~]{1,255} quark-mon \d+ - - (line \d{6})$`)

// received returns the texts of messages.
func received(t *testing.T, messages []string) (texts []string) {
	t.Helper()
	for _, m := range messages {
		if found := message.FindStringSubmatch(m); found != nil {
			texts = append(texts, found[1])
		} else {
			t.Fatalf("no message of RFC 5424: %q", m)
		}
	}
	return texts
}

func TestSyslogDatagrams(t *testing.T) {
	for _, network := range []string{"udp", "unix"} {
		t.Run(network, func(t *testing.T) {
			var c net.PacketConn
			var target string
			var err error
			if network == "udp" {
				c, err = net.ListenPacket("udp", "127.0.0.1:0")
				target = "syslog+udp://"
			} else {
				c, err = net.ListenPacket("unixgram", filepath.Join(t.TempDir(), "log"))
				target = "syslog+unix:"
			}
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			out := open(t, target+c.LocalAddr().String(), quick())
			put(out, 0, 20)
			out.Put(nil, make([]byte, 300_000))
			put(out, 20, 100)
			var messages []string
			b := make([]byte, 1<<16)
			for range 100 {
				_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
				n, _, err := c.ReadFrom(b)
				if err != nil {
					t.Fatal(err)
				}
				messages = append(messages, string(b[:n]))
			}
			if texts := received(t, messages); !slices.Equal(texts, numbered(0, 100)) {
				t.Errorf("got %q", texts)
			}
			if dropped := closed(t, out, 101); dropped["too_large"] != 1 {
				t.Errorf("dropped %v", dropped)
			}
		})
	}
}

// By TCP messages are framed; a target that is away at first gets them when it comes.
func TestSyslogTCP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	reports := make(chan error, 10)
	o := quick()
	o.Report = func(err error) { reports <- err }
	out := open(t, "syslog+tcp://"+address, o)
	put(out, 0, 100)
	if err := <-reports; err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("reported %v", err)
	}
	if l, err = net.Listen("tcp", address); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	r := bufio.NewReader(c)
	var messages []string
	for range 100 {
		var n int
		if _, err := fmt.Fscanf(r, "%d ", &n); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, n)
		if _, err := io.ReadFull(r, b); err != nil {
			t.Fatal(err)
		}
		messages = append(messages, string(b))
	}
	if texts := received(t, messages); !slices.Equal(texts, numbered(0, 100)) {
		t.Errorf("got %q", texts)
	}
	closed(t, out, 100)
}

// A peer that talks, and closes its connection, costs no line: what it says is read, and that it is
// gone is seen before the next line.
func TestSyslogTCPClosed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var reports []error
	o := quick()
	o.Report = func(err error) { reports = append(reports, err) }
	out := open(t, "syslog+tcp://"+l.Addr().String(), o)
	for i := range 20 {
		put(out, i, i+1)
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		b := make([]byte, 1000)
		n, err := c.Read(b)
		if err != nil || !strings.HasSuffix(string(b[:n]), fmt.Sprintf("line %06d", i)) {
			t.Fatalf("line %d: %q, %v", i, b[:n], err)
		}
		if _, err := c.Write(b); err != nil {
			t.Error(err)
		}
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Error(err)
		}
		if n, err := c.Read(b); err != io.EOF {
			t.Errorf("line %d: %d more bytes, %v", i, n, err)
		}
		c.Close()
	}
	closed(t, out, 20)
	if len(reports) == 0 || len(reports) > 10 || slices.ContainsFunc(reports, func(err error) bool { return err != errClosed }) {
		t.Errorf("reported %v", reports)
	}
}

const journald = "/lib/systemd/systemd-journald"

// A real journald, in a mount namespace of its own, has the fields of each entry, also of one that
// is too large for a datagram.
func TestJournald(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, for a mount namespace")
	}
	if _, err := os.Stat(journald); err != nil {
		t.Skipf("needs systemd's journald: %v", err)
	}
	tool, err := exec.LookPath("journalctl")
	if err != nil {
		t.Skip("needs journalctl, of the package systemd")
	}
	if os.Getenv("QUARK_JOURNAL") == "" {
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestJournald$", "-test.v")
		cmd.Env = append(os.Environ(), "QUARK_JOURNAL=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	for _, dir := range []string{"/run", "/var/log"} {
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, ""); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"/run/systemd/journal", "/run/log/journal", "/run/systemd/journald.conf.d"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// An empty Audit leaves the kernel's audit as it is.
	if err := os.WriteFile("/run/systemd/journald.conf.d/test.conf", []byte("[Journal]\nStorage=volatile\nAudit=\nReadKMsg=no\nRateLimitBurst=0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(journald)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // the signal comes at the end of the thread that started it
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(journalSocket); err == nil {
			break
		}
		if time.Since(begin) > 20*time.Second {
			t.Fatal("journald has no socket within 20 s")
		}
	}
	out := open(t, "journald", quick())
	large := `{"a":"` + strings.Repeat("x", 400_000) + `"}`
	out.Put(nil, []byte("{\"line\":1}\n"))
	out.Put(nil, []byte(large))
	out.Put(nil, []byte("two\nlines\n"))
	if dropped := closed(t, out, 3); out.Counts().Delivered != 3 {
		t.Errorf("dropped %v", dropped)
	}
	var got []string
	for begin := time.Now(); len(got) < 3; {
		show := exec.Command(tool, "-D", "/run/log/journal", "-o", "json", "--all", "--no-pager", "SYSLOG_IDENTIFIER=quark-mon")
		text, err := show.Output()
		if err != nil && time.Since(begin) > 20*time.Second {
			t.Fatalf("%v: %s", err, text)
		}
		got = nil
		for d := json.NewDecoder(strings.NewReader(string(text))); d.More(); {
			var entry map[string]any
			if err := d.Decode(&entry); err != nil {
				t.Fatal(err)
			}
			if entry["PRIORITY"] != "6" || entry["SYSLOG_FACILITY"] != "3" || entry["_TRANSPORT"] != "journal" {
				t.Errorf("got %.300v", entry)
			}
			got = append(got, fmt.Sprint(entry["QUARK_DOCUMENT"]))
		}
		if time.Since(begin) > 20*time.Second {
			break
		}
	}
	if want := []string{`{"line":1}`, large, "two\nlines"}; !slices.Equal(got, want) {
		t.Errorf("got %d entries: %.300q", len(got), got)
	}
}
