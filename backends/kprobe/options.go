package kprobe

import (
	"fmt"
	"math/bits"
	"os"

	"github.com/cilium/ebpf/btf"
	"github.com/quark-linux/quark/btfhub"
)

// Options say how the source is opened. The zero value is right for most.
type Options struct {
	// RingSize is the size in bytes of the ring of each CPU, rounded up to a
	// power of two and at least one page. 0 means 512 KiB. An exec takes about
	// 7 KiB of it, a fork 1.5 KiB, other events less than 0.5 KiB. Set it
	// larger where the reader may stop for long, smaller only to provoke loss.
	RingSize int

	// Threads reports threads too, not only their groups. It costs a record
	// for each thread.
	Threads bool

	// BTF says where the running kernel's BTF is looked for, such as a file.
	BTF btfhub.Options

	// KernelTypes is the BTF of the running kernel. nil means what btfhub.Open
	// finds by the option above. Types that are not the running kernel's make wrong events.
	KernelTypes *btf.Spec
}

const (
	defaultRing = 512 << 10
	largestRing = 1 << 30
)

func (o *Options) ringSize() (int, error) {
	size := o.RingSize
	switch {
	case size < 0 || size > largestRing:
		return 0, fmt.Errorf("option RingSize is %d: it must be 0 to %d bytes", size, largestRing)
	case size == 0:
		size = defaultRing
	}
	size = max(size, os.Getpagesize())
	return 1 << bits.Len(uint(size-1)), nil
}
