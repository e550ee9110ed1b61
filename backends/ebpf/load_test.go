package ebpf

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// If descriptors run out, the error names only this cause, not the object that was loaded.
func TestExplainDescriptors(t *testing.T) {
	err := explain(fmt.Errorf("load BTF: %w", &ebpf.VerifierError{Cause: unix.EMFILE, Log: []string{"FUNC_PROTO"}}))
	const want = "load programs: the limit on open descriptors is too low (ulimit -n): too many open files"
	if err.Error() != want {
		t.Error(err)
	}
}

// On a kernel without bpf(2), the error is the same for each object that could not be created.
func TestExplainNoBPF(t *testing.T) {
	const want = "load programs: the kernel has no bpf(2) (CONFIG_BPF_SYSCALL), or a seccomp filter hides it: function not implemented"
	for _, first := range []string{"map free_slots: map create", "map terminals: load BTF: detect support for BTF"} {
		if err := explain(fmt.Errorf("%s: %w", first, unix.ENOSYS)); err.Error() != want {
			t.Error(err)
		}
	}
}

// If the kernel lacks a part of eBPF, the error wraps errors.ErrUnsupported, which package ebpf's
// own error does not.
func TestUnsupported(t *testing.T) {
	err := explain(fmt.Errorf("create map: %w", ebpf.ErrNotSupported))
	if !errors.Is(err, errors.ErrUnsupported) || !errors.Is(err, ebpf.ErrNotSupported) {
		t.Errorf("got error %v, want both errors.ErrUnsupported and ebpf.ErrNotSupported", err)
	}
}

// The error names all features that the kernel lacks, for each map that could not be created.
func TestLacking(t *testing.T) {
	if os.Geteuid() == 0 && missingNeeds() != "" {
		t.Errorf("got missing features %s on a kernel that runs the programs", missingNeeds())
	}
	old := needs
	t.Cleanup(func() { needs = old })
	needs = slices.Clone(old)
	for i := range needs {
		needs[i].probe = func() error { return fmt.Errorf("probe: %w", ebpf.ErrNotSupported) }
	}
	const want = "load programs: unsupported operation: the kernel has no maps that are stacks (Linux 4.20) and no maps that programs only read (Linux 5.2)"
	for _, cause := range []error{unix.EINVAL, ebpf.ErrNotSupported} {
		if err := explain(fmt.Errorf("create map: %w", cause)); err.Error() != want || !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("got error %v, want %s", err, want)
		}
	}
}
