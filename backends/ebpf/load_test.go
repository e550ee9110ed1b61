package ebpf

import (
	"fmt"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// An error for want of descriptors says so, and nothing of what was about to be loaded.
func TestExplainDescriptors(t *testing.T) {
	err := explain(fmt.Errorf("load BTF: %w", &ebpf.VerifierError{Cause: unix.EMFILE, Log: []string{"FUNC_PROTO"}}))
	const want = "load programs: the limit on open descriptors is too low (ulimit -n): too many open files"
	if err.Error() != want {
		t.Error(err)
	}
}
