// Package source has the options of the kernel sources: those that all share, and those of each.
package source

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"time"

	"github.com/cilium/ebpf/btf"

	"github.com/quark-linux/quark/btfhub"
	"github.com/quark-linux/quark/engine"
)

// Options are the options of all sources. The zero value is right for most.
type Options struct {
	// Threads reports single threads too, not only thread groups. It costs an event for
	// the start and end of each thread.
	Threads bool

	// Kinds is the set of reported events, 0 for DefaultKinds. The kernel makes no others,
	// unless the source itself needs them. Gaps are always reported.
	Kinds engine.Events

	// Asked is the set of kinds that the user named. A kind that slows down all system calls
	// may be left out unless it was named.
	Asked engine.Events

	// Exits selects which ends are reported: all by default.
	Exits Exits

	// Environ selects the variables of the environment that are reported.
	Environ Environ

	// HoldTime is how long the engine holds events to put them in order; 0 means for any time.
	HoldTime time.Duration

	// BTF selects where to find the running kernel's types, which eBPF and kprobe need: by
	// default in the kernel, else in the archive built into quark. BTF.Path names a file.
	BTF btfhub.Options

	// KernelTypes replaces the types that BTF finds. The source trusts them, so types of
	// another kernel make wrong events. It is for tests.
	KernelTypes *btf.Spec
}

// CheckTypes is for backends that need no types. It returns an error if a named file cannot be
// used.
func (o *Options) CheckTypes() error {
	if o.BTF.FilePath() == "" {
		return nil
	}
	_, err := o.Types()
	return err
}

// Types returns the running kernel's types.
func (o *Options) Types() (*btfhub.Kernel, error) {
	if o.KernelTypes != nil {
		return &btfhub.Kernel{Spec: o.KernelTypes, Origin: "the caller", Exact: true}, nil
	}
	kernel, err := btfhub.Open(o.BTF)
	path, option := o.BTF.FilePath(), "BTF.Path"
	if err == nil || path == "" {
		return kernel, err
	}
	if o.BTF.Path == "" {
		option = btfhub.PathVariable
	}
	return nil, wrong(option, path, err)
}

// Validate returns an *engine.OptionError if a value cannot be used.
func (o *Options) Validate() error {
	switch {
	case o.Kinds&^allKinds != 0:
		value := o.Kinds.String()
		if (o.Kinds &^ allKinds).String() == "" { // the wrong bits have no name
			value = fmt.Sprintf("%#x", uint64(o.Kinds))
		}
		return wrong("Kinds", value, fmt.Errorf("it must be a set of %s", kindNames()))
	case o.Exits > ExitsNonzero:
		return wrong("Exits", uint8(o.Exits), fmt.Errorf("it must be ExitsAll (%d) or ExitsNonzero (%d)", ExitsAll, ExitsNonzero))
	case o.Exits == ExitsNonzero && !o.Reports(engine.EventExit):
		return wrong("Exits", "ExitsNonzero", errors.New("the option Kinds leaves out EXIT"))
	}
	if _, err := o.Environ.Compile(); err != nil || o.BTF.Path == "" {
		return err
	}
	f, err := os.Open(o.BTF.Path)
	if err != nil {
		return wrong("BTF.Path", o.BTF.Path, err)
	}
	return f.Close()
}

func wrong(option string, value any, err error) error {
	return &engine.OptionError{Option: option, Value: value, Err: err}
}

const largestRing = 1 << 30 // the kernel's record positions have 32 bits

// CheckRingSize returns an *engine.OptionError if a value of the option RingSize cannot be used.
func CheckRingSize(value int) error {
	if value < 0 || value > largestRing {
		return wrong("RingSize", value, fmt.Errorf("it must be from 0 to %d bytes", largestRing))
	}
	return nil
}

// RingSize returns the bytes of a ring for the option RingSize: its value, or the default
// where it is 0, rounded up to a power of two and to at least one page.
func RingSize(value, byDefault int) (int, error) {
	if err := CheckRingSize(value); err != nil {
		return 0, err
	}
	if value == 0 {
		value = byDefault
	}
	return 1 << bits.Len(uint(max(value, os.Getpagesize())-1)), nil
}

const largestBuffer = 1 << 30

// ReceiveBuffer returns the bytes of a socket's receive buffer for the option ReceiveBuffer: its
// value, or the default where it is 0.
func ReceiveBuffer(value, byDefault int) (int, error) {
	if value < 0 || value > largestBuffer {
		return 0, wrong("ReceiveBuffer", value, fmt.Errorf("it must be from 0 to %d bytes", largestBuffer))
	}
	return cmp.Or(value, byDefault), nil
}
