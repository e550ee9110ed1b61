//go:build cgo

package main

/*
#include "go.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine/trace"
)

func main() {}

// queue is the queue behind a handle.
type queue struct {
	*quark.Queue
	event *quark.Event // the latest event, valid until the next Get
	file  *os.File     // the replayed recording, or nil
	trace *trace.Reader
	text  []byte // result of the latest quarkgo_text
}

//export quarkgo_open
func quarkgo_open(attr *C.struct_quark_queue_attr, handle *C.uintptr_t, name *C.char, size C.size_t, message *C.char) C.int {
	q, err := open(attr)
	if err != nil {
		return report(err, message)
	}
	setText(name, size, q.Backend())
	*handle = handleOf(q)
	return 0
}

func open(attr *C.struct_quark_queue_attr) (*queue, error) {
	opts, err := options(attr)
	if err != nil {
		return nil, err
	}
	if attr.replay == nil {
		q, err := quark.Open(opts)
		return &queue{Queue: q}, err
	}
	file, err := os.Open(C.GoString(attr.replay))
	if err != nil {
		return nil, fmt.Errorf("open replay: %w", err)
	}
	reader, err := trace.NewReader(file)
	if err != nil {
		file.Close()
		return nil, &badReplay{file.Name(), err}
	}
	q, err := quark.New(reader, opts)
	if err != nil {
		file.Close()
		return nil, err
	}
	return &queue{Queue: q, file: file, trace: reader}, nil
}

//export quarkgo_stop
func quarkgo_stop(handle C.uintptr_t) {
	queueOf(handle).Close() // closes even after an error
}

//export quarkgo_forget
func quarkgo_forget(handle C.uintptr_t) {
	if q := queueOf(handle); q.file != nil {
		q.file.Close()
	}
	freeHandle(handle)
}

// quarkgo_get writes the next event, or with again the event for which the block was too small.
//
//export quarkgo_get
func quarkgo_get(handle C.uintptr_t, to *C.struct_block, again C.int, message *C.char) C.int {
	q := queueOf(handle)
	if again == 0 {
		ev, err := q.Get()
		q.event = ev
		switch {
		case err == nil:
		case !errors.Is(err, quark.ErrNothing):
			return report(err, message)
		case q.Drained():
			return q.endError(message)
		default:
			return C.int(syscall.EAGAIN)
		}
	}
	memory := arenaOf(to)
	q.writeEvent(&memory, q.event)
	return memory.done(to)
}

// endError returns the error of a queue that has no more events.
func (q *queue) endError(message *C.char) C.int {
	if q.trace != nil && q.trace.Torn() != nil {
		return report(&badReplay{q.file.Name(), q.trace.Torn()}, message)
	}
	return C.int(syscall.ENODATA)
}

//export quarkgo_block
func quarkgo_block(handle C.uintptr_t, milliseconds C.int, message *C.char) C.int {
	return report(queueOf(handle).Block(time.Duration(milliseconds)*time.Millisecond), message)
}

//export quarkgo_wake
func quarkgo_wake(handle C.uintptr_t) { queueOf(handle).Wake() }

//export quarkgo_fd
func quarkgo_fd(handle C.uintptr_t) C.int { return C.int(queueOf(handle).FD()) }

//export quarkgo_stats
func quarkgo_stats(handle C.uintptr_t, to *C.struct_quark_queue_stats, message *C.char) C.int {
	q := queueOf(handle)
	s, err := q.Stats()
	if err != nil {
		return report(err, message)
	}
	to.insertions, to.removals = C.uint64_t(s.Insertions), C.uint64_t(s.Removals)
	to.aggregations, to.non_aggregations = C.uint64_t(s.Aggregations), C.uint64_t(s.NonAggregations)
	to.lost, to.backend = C.uint64_t(s.Lost()), flagOf(s.Backend)
	to.garbage_collections, to.late = C.uint64_t(s.GarbageCollections), C.uint64_t(s.Late)
	to.filtered, to.unsure = C.uint64_t(s.Filtered), C.uint64_t(s.Unsure)
	to.buffered, to.processes = C.uint64_t(s.Buffered), C.uint64_t(s.Processes)
	to.produced = C.uint64_t(s.Source.Produced)
	for cause, n := range s.Source.Lost {
		to.lost_by[cause] = C.uint64_t(n)
	}
	return 0
}

//export quarkgo_lookup
func quarkgo_lookup(handle C.uintptr_t, pid C.int, to *C.struct_block) C.int {
	q := queueOf(handle)
	p := q.Lookup(uint32(pid))
	if p == nil {
		return C.int(syscall.ESRCH)
	}
	memory := arenaOf(to)
	q.writeProcess(&memory, (*C.struct_quark_process)(memory.alloc(C.sizeof_struct_quark_process)), p)
	return memory.done(to)
}

//export quarkgo_processes
func quarkgo_processes(handle C.uintptr_t, count *C.uint64_t, to *C.struct_block) C.int {
	q := queueOf(handle)
	n := 0
	for range q.Processes() {
		n++
	}
	*count = C.uint64_t(n)
	memory := arenaOf(to)
	at := memory.alloc(uintptr(n) * C.sizeof_struct_quark_process)
	for p := range q.Processes() {
		q.writeProcess(&memory, (*C.struct_quark_process)(at), p)
		if at != nil {
			at = unsafe.Add(at, C.sizeof_struct_quark_process)
		}
	}
	return memory.done(to)
}

//export quarkgo_text
func quarkgo_text(handle C.uintptr_t, json C.int, to *C.struct_block) C.int {
	q := queueOf(handle)
	if json != 0 {
		q.text = q.AppendJSON(q.text[:0], q.event)
	} else {
		q.text = q.AppendDump(q.text[:0], q.event)
	}
	memory := arenaOf(to)
	memory.bytes(q.text)
	return memory.done(to)
}
