package main

import (
	"bufio"
	"bytes"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/engine/enginetest"
)

// failing is a machine whose source fails after its events.
type failing struct{ *enginetest.Machine }

func (s failing) Populate(to engine.Sink) error {
	if err := s.Machine.Populate(to); err != nil || s.Queued() > 0 {
		return err
	}
	return syscall.EIO
}

// If a source fails, its earlier events and the statistics are still printed.
func TestSourceFails(t *testing.T) {
	for _, end := range []bool{false, true} {
		machine := enginetest.NewMachine()
		machine.Running("/bin/sh").Fork().Exec("/bin/true")
		var out, errw bytes.Buffer
		m := &monitor{options: &options{json: true, noSnapshot: true}, out: bufio.NewWriter(&out)}
		var err error
		if m.q, err = quark.New(failing{machine}, m.Queue); err != nil {
			t.Fatal(err)
		}
		m.chooseForm(m.out, &errw)
		if !end {
			if err := m.watch(t.Context()); !errors.Is(err, syscall.EIO) {
				t.Errorf("watch: %v", err)
			}
		}
		if err := m.printRest(&errw); !errors.Is(err, syscall.EIO) {
			t.Errorf("finish: %v", err)
		}
		if !strings.Contains(out.String(), "/bin/true") || !strings.Contains(errw.String(), " event, 0 lost") {
			t.Errorf("at the end %v: %q, %q", end, out.String(), errw.String())
		}
		m.q.Close()
	}
}
