//go:build linux && (amd64 || arm64)

package backends

import (
	"github.com/quark-linux/quark/backends/audit"
	"github.com/quark-linux/quark/backends/cnproc"
	"github.com/quark-linux/quark/backends/ebpf"
	"github.com/quark-linux/quark/backends/kprobe"
	"github.com/quark-linux/quark/engine"
)

// backends maps each backend to its implementation.
var backends = map[Set]backend{
	EBPF: {"EBPF",
		func(o *Options) error { return ebpf.Validate(o.EBPF) },
		func(o *Options) (engine.Source, error) { return opened(ebpf.Open(o.Shared, o.EBPF)) }},
	KProbe: {"KProbe",
		func(o *Options) error { return kprobe.Validate(o.KProbe) },
		func(o *Options) (engine.Source, error) { return opened(kprobe.Open(o.Shared, o.KProbe)) }},
	CNProc: {"CNProc",
		func(o *Options) error { return cnproc.Validate(o.CNProc) },
		func(o *Options) (engine.Source, error) { return opened(cnproc.Open(o.Shared, o.CNProc)) }},
	Audit: {"Audit",
		func(o *Options) error { return audit.Validate(o.Audit) },
		func(o *Options) (engine.Source, error) { return opened(audit.Open(o.Shared, o.Audit)) }},
}

// sweep removes what backends of killed processes have left in the kernel.
func sweep() { kprobe.Sweep() }

// opened returns a nil Source after an error. A nil pointer in a Source would not equal nil.
func opened[S engine.Source](s S, err error) (engine.Source, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}
