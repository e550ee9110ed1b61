package scenario

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
)

// How a program in a chain of [entries] runs if it is not an entry leader.
const (
	inherits = ""     // in its parent's session
	keeps    = "kept" // in its own session, with its parent's entry leader
)

// entries runs chains of this program under names that make entry leaders: each program starts the
// next one. The entry leader of the first program is not recorded.
func entries(d *director) {
	// A copy, as a hard link cannot cross file systems.
	program := filepath.Join(d.dir, "program")
	content, err := os.ReadFile(d.self)
	d.must(err)
	d.must(os.WriteFile(program, content, 0o755))
	for _, chain := range [][]string{
		{"sshd", inherits, "bash", "sshd", "make", inherits, "daemon", keeps, "cc", inherits},
		{"sshd", inherits, "sshd-session", keeps, "zsh", "sshd"},
		{"containerd-shim-runc-v2", inherits, "runc", keeps, "nginx", "container", "worker", inherits},
		{"conmon", inherits, "sleep", "container"},
		{"bash", inherits, "containerd-shim", keeps, "pause", keeps},
		{"ssm-session-worker", inherits, "sh", "ssm", "id", inherits},
	} {
		for i := 0; i < len(chain); i += 2 {
			if err := os.Link(program, filepath.Join(d.dir, chain[i])); !errors.Is(err, os.ErrExist) {
				d.must(err)
			}
		}
		d.wantCode(d.do(d.light().image(filepath.Join(d.dir, chain[0]), chain, role("enter", 0, 0))), 0)
	}
}

// enter is the role of a program in such a chain. Its arguments are its name, its way, and the rest
// of the chain.
func enter(self string, chain []string) error {
	if way := chain[1]; way != inherits && way != keeps {
		var own truth.State
		own.Set(engine.FieldEntryLeader, way+" "+itoa(os.Getpid()))
		if err := write(truth.Record{Op: truth.Now, PID: os.Getpid(), Latest: truth.Clock(), Own: true, State: own}); err != nil {
			return err
		}
	}
	if chain = chain[2:]; len(chain) == 0 {
		return nil
	}
	d := &director{proc: truth.Proc{FD: procFD}, pid: os.Getpid()}
	code := d.guard(func() {
		p := d.script()
		if chain[1] != inherits {
			p.setsid()
		}
		if chain[1] == "ssm" {
			p.call("TIOCSCTTY", unix.SYS_IOCTL, d.terminal(), unix.TIOCSCTTY, 0)
		}
		d.wantCode(d.do(p.image(filepath.Join(filepath.Dir(self), chain[0]), chain, role("enter", 0, 0))), 0)
	})
	if code != 0 {
		return errors.New("the next program of the chain failed")
	}
	return nil
}
