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

// An error for lack of descriptors names only that cause, and not the object that was being loaded.
func TestExplainDescriptors(t *testing.T) {
	err := explain(fmt.Errorf("load BTF: %w", &ebpf.VerifierError{Cause: unix.EMFILE, Log: []string{"FUNC_PROTO"}}))
	const want = "load programs: the limit on open descriptors is too low (ulimit -n): too many open files"
	if err.Error() != want {
		t.Error(err)
	}
}

// A kernel without bpf(2) gets the same words each time, whatever is created first.
func TestExplainNoBPF(t *testing.T) {
	const want = "load programs: the kernel has no bpf(2) (CONFIG_BPF_SYSCALL), or a seccomp filter hides it: function not implemented"
	for _, first := range []string{"map free_slots: map create", "map terminals: load BTF: detect support for BTF"} {
		if err := explain(fmt.Errorf("%s: %w", first, unix.ENOSYS)); err.Error() != want {
			t.Error(err)
		}
	}
}

// A kernel without a part of eBPF is errors.ErrUnsupported, which package ebpf's own error is not.
func TestUnsupported(t *testing.T) {
	err := explain(fmt.Errorf("create map: %w", ebpf.ErrNotSupported))
	if !errors.Is(err, errors.ErrUnsupported) || !errors.Is(err, ebpf.ErrNotSupported) {
		t.Errorf("%v", err)
	}
}

// What an older kernel lacks is named, all of it, whichever map it was that could not be made.
func TestLacking(t *testing.T) {
	if os.Geteuid() == 0 && lacking() != "" {
		t.Errorf("where the programs run: %s", lacking())
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
			t.Errorf("%v", err)
		}
	}
}
