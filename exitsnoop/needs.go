package exitsnoop

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"
)

// need is a kernel feature that the program requires.
type need struct {
	name, since string
	probe       func() error // ebpf.ErrNotSupported if the kernel lacks it
}

var needs = []need{
	{"maps that user space can map", "5.5", func() error {
		m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1, Flags: unix.BPF_F_MMAPABLE})
		if err == nil {
			m.Close()
		}
		return err
	}},
	{"bpf_get_ns_current_pid_tgid", "5.7", func() error {
		return features.HaveProgramHelper(ebpf.RawTracepoint, asm.FnGetNsCurrentPidTgid)
	}},
}

// missing returns an ErrUnsupported that names the missing features, nil if none is missing or the
// probe fails. It is called only after a failure.
func missing(all []need) error {
	var names []string
	for _, n := range all {
		if errors.Is(n.probe(), ebpf.ErrNotSupported) {
			names = append(names, fmt.Sprintf("%s (Linux %s)", n.name, n.since))
		}
	}
	if names == nil {
		return nil
	}
	return fmt.Errorf("%w: it has no %s", ErrUnsupported, strings.Join(names, " and no "))
}
