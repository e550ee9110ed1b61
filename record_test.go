package quark_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/engine/trace"
	"github.com/quark-linux/quark/internal/tinyelf"
)

var recordTo = flag.String("record", "", "the directory to write a trace of each backend to, or - to print them in base64")

// children records only the children of a process.
type children struct {
	quark.Recorder
	of   uint32
	pids map[uint32]bool
}

func (c *children) Record(r *engine.RawEvent) {
	if r.Kind == engine.KindFork && !r.Thread && (r.Creator == c.of || r.Task.Known.Has(engine.FieldPPID) && r.Task.PPID == c.of) {
		c.pids[r.PID] = true
	}
	if c.pids[r.PID] || r.Kind == engine.KindGap {
		c.Recorder.Record(r)
	}
}

// TestRecordLives records a few dozen lives with each backend, and replays them.
func TestRecordLives(t *testing.T) {
	onEach(t, func(t *testing.T, opts quark.Options) {
		var file bytes.Buffer
		w, err := trace.NewWriter(&file)
		if err != nil {
			t.Fatal(err)
		}
		lives := &children{w, uint32(os.Getpid()), make(map[uint32]bool)}
		opts.HoldTime, opts.Record = time.Second, lives
		q := open(t, opts)
		live(t)
		if err := q.Drain(); err != nil {
			t.Fatal(err)
		}
		seen := ends(t, q, lives.pids)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		r, err := trace.NewReader(bytes.NewReader(file.Bytes()), trace.Options{})
		if err != nil {
			t.Fatal(err)
		}
		again, err := quark.New(r, quark.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		if n := ends(t, again, lives.pids); n != seen || n == 0 || again.Backend() != q.Backend() || r.Torn() != nil {
			t.Errorf("%d ends of %d are replayed, of %s; torn: %v", n, seen, again.Backend(), r.Torn())
		}
		release, _, _ := strings.Cut(r.Kernel(), "-")
		series := strings.Join(strings.SplitN(release+"..", ".", 3)[:2], ".")
		switch *recordTo {
		case "":
		case "-":
			t.Logf("%s-%s %s", q.Backend(), series, base64.StdEncoding.EncodeToString(file.Bytes()))
		default:
			if err := os.WriteFile(filepath.Join(*recordTo, q.Backend()+"-"+series+".trace"), file.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// ends returns how many processes of pids have ended with a known status, by the events of q.
func ends(t *testing.T, q *quark.Queue, pids map[uint32]bool) (n int) {
	for ev, err := range q.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if p := ev.Process; pids[p.PID] && ev.Events.Has(quark.EventExit) && p.Known.Has(quark.FieldExit) {
			n++
		}
	}
	return n
}

// live runs programs that end with codes and by signals, in sessions and directories of their
// own and, for root, as others.
func live(t *testing.T) {
	t.Chdir("/") // not where the source is
	dir := filepath.Join(os.TempDir(), "quark-lives")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	waiter, err := tinyelf.Waiter(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "waiter"), waiter, 0o755); err != nil {
		t.Fatal(err)
	}
	for code := range 3 {
		if err := tinyelf.Write(filepath.Join(dir, "exit"+string(rune('0'+code))), uint8(code)); err != nil {
			t.Fatal(err)
		}
	}
	for range 4 {
		for code := range 3 {
			run(t, exec.Command(filepath.Join(dir, "exit"+string(rune('0'+code))), "an argument", "\xff"))
		}
		for _, attr := range []syscall.SysProcAttr{{Setsid: true}, {Setpgid: true}, {Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}} {
			cmd := exec.Command(filepath.Join(dir, "exit0"))
			cmd.Dir, cmd.SysProcAttr = dir, &attr
			run(t, cmd)
		}
		cmd := exec.Command(filepath.Join(dir, "waiter"))
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		cmd.Process.Kill()
		cmd.Wait()
		in.Close()
	}
}

// run runs a program to its end, whatever that is.
func run(t *testing.T, cmd *exec.Cmd) {
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
}
