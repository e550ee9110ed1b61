package kprobe

import "github.com/quark-linux/quark/backends/source"

// Options are those of this source alone. The zero value is right for most.
type Options struct {
	// RingSize is the size in bytes of the ring of each CPU, rounded up to a
	// power of two and at least one page. 0 means 512 KiB. An exec takes about
	// 7 KiB of it, a fork 1.5 KiB, other events less than 0.5 KiB. Set it
	// larger where the reader may stop for long, smaller only to provoke loss.
	RingSize int
}

// Validate returns a *source.OptionError if a value can't be used.
func (o *Options) Validate() error {
	_, err := o.ringSize()
	return err
}

const defaultRing = 512 << 10

func (o *Options) ringSize() (int, error) { return source.RingSize(o.RingSize, defaultRing) }
