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

// queues has the open queues by their handles, nil where none is. The slice is replaced and never
// changed, so that of needs no lock: each call of C makes one, and a map would cost more than
// the rest of it.
var (
	queues    atomic.Pointer[[]*queue]
	replacing sync.Mutex
)

func of(handle C.uintptr_t) *queue { return (*queues.Load())[handle] }

// replace changes a copy of the open queues and lets others see that.
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

// handleOf makes a handle for q.
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

// forget frees a handle.
func forget(handle C.uintptr_t) {
	replace(func(open []*queue) []*queue {
		open[handle] = nil
		return open
	})
}
