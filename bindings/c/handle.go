//go:build cgo

package main

/*
#include "go.h"
*/
import "C"

import (
	"slices"
	"sync"
	"sync/atomic"
)

// queues holds the open queues, indexed by handle; nil for unused handles. The slice is replaced
// and never changed, so that readers need no lock: each C call looks up a handle, and a map would
// cost more than the rest of the call.
var (
	queues    atomic.Pointer[[]*queue]
	replacing sync.Mutex
)

func queueOf(handle C.uintptr_t) *queue { return (*queues.Load())[handle] }

// replace changes a copy of the slice of open queues and publishes it.
func replace(change func(open []*queue) []*queue) {
	replacing.Lock()
	defer replacing.Unlock()
	var open []*queue
	if now := queues.Load(); now != nil {
		open = slices.Clone(*now)
	}
	open = change(open)
	queues.Store(&open)
}

// handleOf allocates a handle for q.
func handleOf(q *queue) (handle C.uintptr_t) {
	replace(func(open []*queue) []*queue {
		free := slices.Index(open, nil)
		if free < 0 {
			free, open = len(open), append(open, nil)
		}
		open[free], handle = q, C.uintptr_t(free)
		return open
	})
	return handle
}

// freeHandle frees a handle.
func freeHandle(handle C.uintptr_t) {
	replace(func(open []*queue) []*queue {
		open[handle] = nil
		return open
	})
}
