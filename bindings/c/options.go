//go:build cgo

package main

/*
#include "go.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/quark-linux/quark"
)

// backendFlags lists the backends that have a flag QQ_*.
var backendFlags = []struct {
	flag    C.int
	backend quark.BackendSet
}{
	{C.QQ_EBPF, quark.EBPF}, {C.QQ_KPROBE, quark.KProbe}, {C.QQ_CNPROC, quark.CNProc}, {C.QQ_AUDIT, quark.Audit},
}

// flagOf returns the QQ_ flag of a backend, 0 if it has none.
func flagOf(name string) C.int {
	set, _ := quark.ParseBackend(name) // 0 for test backends
	for _, f := range backendFlags {
		if f.backend == set {
			return f.flag
		}
	}
	return 0
}

// options returns the options for the attributes.
func options(attr *C.struct_quark_queue_attr) (opts quark.Options, err error) {
	wrong := func(member string, value any, reason string) (quark.Options, error) {
		return opts, &quark.OptionError{Option: member, Value: value, Err: errors.New(reason)}
	}
	rest := attr.flags
	has := func(flag C.int) bool {
		set := rest&flag != 0
		rest &^= flag
		return set
	}
	for _, f := range backendFlags {
		if has(f.flag) {
			opts.Backends |= f.backend
		}
	}
	opts.Threads, opts.MinAgg = has(C.QQ_THREAD_EVENTS), has(C.QQ_MIN_AGG)
	opts.Strict, opts.FailedExecs = has(C.QQ_STRICT), has(C.QQ_FAILED_EXECS)
	if has(C.QQ_ENTRY_LEADER); rest != 0 {
		return wrong("flags", fmt.Sprintf("%#x", attr.flags), fmt.Sprintf("this library has no flag %#x", rest))
	}
	if opts.Backends == 0 && attr.replay == nil {
		return wrong("flags", fmt.Sprintf("%#x", attr.flags), "no backend is set: add QQ_ALL_BACKENDS, or QQ_EBPF or another backend")
	}
	for _, n := range attr.reserved {
		if n != 0 {
			return wrong("reserved", n, "want 0: initialize with quark_queue_default_attr")
		}
	}
	// Open checks the numbers; its errors name the valid range and the default.
	opts.MaxLength = int(attr.max_length)
	opts.HoldTime = time.Duration(attr.hold_time) * time.Millisecond
	opts.CacheGraceTime = time.Duration(attr.cache_grace_time) * time.Millisecond
	if attr.environ != nil {
		opts.Environ.Names = strings.Split(C.GoString(attr.environ), ",")
	}
	if attr.filter != nil {
		if opts.Where, err = quark.ParseFilter(C.GoString(attr.filter)); err != nil {
			return opts, fmt.Errorf("filter: %w", err)
		}
	}
	return opts, nil
}
