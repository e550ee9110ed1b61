package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/quark-linux/quark/exitsnoop"
)

// The exits are made up: the test needs no kernel and no root.
func TestReport(t *testing.T) {
	failure := errors.New("map read failed")
	exits := func(yield func(exitsnoop.Exit, error) bool) {
		exit := func(pid uint32, status int32, err error) bool {
			return yield(exitsnoop.Exit{ExitStatus: exitsnoop.ExitStatus{Pid: pid, ExitCode: status}}, err)
		}
		_ = exit(7, 3<<8, nil) && exit(8, 15, nil) && exit(9, 0, exitsnoop.ErrLost) && exit(0, 0, failure)
	}
	var out strings.Builder
	if err := report(&out, exits); !errors.Is(err, failure) {
		t.Errorf("got error %v, want %v", err, failure)
	}
	if want := "7: code 3\n8: terminated\n9: ended, its status was lost\n"; out.String() != want {
		t.Errorf("got %q, want %q", &out, want)
	}
}
