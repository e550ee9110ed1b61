//go:build linux && (amd64 || arm64)

package quark_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"flag"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
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

// some is a recorder that keeps only the events of some processes.
type some struct {
	quark.Recorder
	pids map[uint32]bool
}

func (c *some) Record(r *engine.RawEvent) {
	if c.pids[r.PID] || r.Kind == engine.KindGap {
		c.Recorder.Record(r)
	}
}

// TestRecordLives records some processes with each backend, and replays them.
func TestRecordLives(t *testing.T) {
	onEach(t, func(t *testing.T, opts quark.Options) {
		var all, file bytes.Buffer
		w := newWriter(t, &all)
		opts.HoldTime, opts.Record = time.Second, w
		q := open(t, opts)
		live(t)
		if err := q.Drain(); err != nil {
			t.Fatal(err)
		}
		seen := ends(t, q)
		if st, err := q.Stats(); err == nil && len(seen) == 0 && st.Lost() > 0 {
			t.Skipf("other processes caused a storm: %d events were lost", st.Lost())
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		r, err := trace.NewReader(&all)
		if err != nil {
			t.Fatal(err)
		}
		w = newWriter(t, &file)
		again, err := quark.New(r, quark.Options{Record: &some{w, seen}})
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		if ended := ends(t, again); !maps.Equal(ended, seen) || len(seen) == 0 || again.Backend() != q.Backend() || r.Torn() != nil {
			t.Errorf("replayed exits of %d processes, want %d as by %s; truncated: %v", len(ended), len(seen), again.Backend(), r.Torn())
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		release, _, _ := strings.Cut(r.Kernel(), "-")
		series := strings.Join(strings.SplitN(release+"..", ".", 3)[:2], ".")
		if runtime.GOARCH != "amd64" {
			series += "-" + runtime.GOARCH
		}
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

func newWriter(t *testing.T, to io.Writer) *trace.Writer {
	w, err := trace.NewWriter(to)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// ends returns the children of this process with an EXIT from q, whose status is known if the
// kernel reports it.
func ends(t *testing.T, q *quark.Queue) map[uint32]bool {
	pids := make(map[uint32]bool)
	told := q.Capabilities().Fields[quark.FieldExit].Origin == quark.OriginKernel
	for ev, err := range q.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		p := ev.Process
		if b := p.Birth; b.Known.Has(quark.FieldPPID) && int(b.Parent.PID) == os.Getpid() && ev.Events.Has(quark.EventExit) && (p.Known.Has(quark.FieldExit) || !told) {
			pids[p.PID] = true
		}
	}
	return pids
}

// live runs programs that end with codes and by signals, in their own sessions and directories, and
// as other users if this process is root.
func live(t *testing.T) {
	t.Chdir("/") // not where the source is
	dir := filepath.Join(os.TempDir(), "quark-lives")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := tinyelf.WriteWaiter(filepath.Join(dir, "waiter"), 0); err != nil {
		t.Fatal(err)
	}
	for code := range 3 {
		if err := tinyelf.Write(filepath.Join(dir, "exit"+string(rune('0'+code))), uint8(code)); err != nil {
			t.Fatal(err)
		}
	}
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

// run runs a program to its end, and ignores its status.
func run(t *testing.T, cmd *exec.Cmd) {
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
}
