package tracepoint

import (
	"errors"
	"fmt"
	"os"

	"github.com/quark-linux/quark/internal/tracefs"
)

// what says what a record tells.
type what uint8

const (
	newTask    what = iota // a task was made, and has not run yet
	executed               // a process has replaced its image
	ended                  // a thread ends
	execEnds               // execve(2) returns an error
	execAtEnds             // execveat(2) does
	numHooks               // those that follow are not of tracepoints
	renamed                // a thread has a new name
	lost                   // records are missing
)

// hook is a tracepoint.
type hook struct {
	group, name string
	filter      string // in the kernel's syntax
	fields      []field
}

// field is a member of a tracepoint's record that is read.
type field struct {
	name     string
	to       func(*layout) *place
	sizes    []int // that are understood
	optional bool  // not every kernel has it
}

const (
	sizeText    = 16 // TASK_COMM_LEN
	sizeDynamic = 4  // 16 bits of offset, 16 of length
)

var hooks = [numHooks]hook{
	newTask: {group: "task", name: "task_newtask", fields: []field{
		{name: "pid", to: func(l *layout) *place { return &l.pid }, sizes: []int{4}},
		{name: "comm", to: func(l *layout) *place { return &l.text }, sizes: []int{sizeText, sizeDynamic}},
		{name: "clone_flags", to: func(l *layout) *place { return &l.flags }, sizes: []int{8}},
	}},
	executed: {group: "sched", name: "sched_process_exec", fields: []field{
		{name: "filename", to: func(l *layout) *place { return &l.text }, sizes: []int{sizeDynamic}},
		{name: "pid", to: func(l *layout) *place { return &l.pid }, sizes: []int{4}},
		{name: "old_pid", to: func(l *layout) *place { return &l.old }, sizes: []int{4}},
	}},
	// group_dead is there since Linux 6.16.
	ended: {group: "sched", name: "sched_process_exit", fields: []field{
		{name: "comm", to: func(l *layout) *place { return &l.text }, sizes: []int{sizeText, sizeDynamic}},
		{name: "pid", to: func(l *layout) *place { return &l.pid }, sizes: []int{4}},
		{name: "group_dead", to: func(l *layout) *place { return &l.dead }, sizes: []int{1}, optional: true},
	}},
	execEnds: {group: "syscalls", name: "sys_exit_execve", filter: "ret < 0", fields: []field{
		{name: "ret", to: func(l *layout) *place { return &l.result }, sizes: []int{8}},
	}},
	execAtEnds: {group: "syscalls", name: "sys_exit_execveat", filter: "ret < 0", fields: []field{
		{name: "ret", to: func(l *layout) *place { return &l.result }, sizes: []int{8}},
	}},
}

// place is where a field is in a record; a size of 0 is for none.
type place struct{ offset, size int }

// layout is where the fields are in the records of a tracepoint on the running kernel.
type layout struct {
	what   what
	id     uint64 // the config of the perf event
	filter string // in the kernel's syntax
	// reported is set if its records become events. Others are read for what they tell of
	// these.
	reported bool
	size     int   // of the part with the fields
	pid      place // of the task that the record is about
	old      place // of the thread that executed
	flags    place // of clone(2)
	text     place
	dead     place // whether no thread of the group is left
	result   place // of a system call
}

// maxRecord bounds the size of a record's fixed part.
const maxRecord = 256

// newLayout finds the fields of a tracepoint in its format.
func newLayout(w what, event *tracefs.Event) (*layout, error) {
	if event.ID > 1<<16-1 { // records have 16 bits for it
		return nil, fmt.Errorf("tracepoint %s has ID %d", hooks[w].name, event.ID)
	}
	l := &layout{what: w, id: event.ID, filter: hooks[w].filter, size: 2}
	for _, want := range hooks[w].fields {
		f, ok := event.Field(want.name)
		if !ok && want.optional {
			continue
		}
		good := false
		for _, size := range want.sizes {
			good = good || ok && f.Size == size
		}
		if !good || f.Offset < 8 || f.Offset+f.Size > maxRecord {
			return nil, fmt.Errorf("the format of tracepoint %s/%s is none that is known: field %s has %d bytes at %d",
				hooks[w].group, hooks[w].name, want.name, f.Size, f.Offset)
		}
		*want.to(l) = place{f.Offset, f.Size}
		l.size = max(l.size, f.Offset+f.Size)
	}
	return l, nil
}

// findLayout reads the format of a tracepoint.
func findLayout(fs *tracefs.FS, w what) (*layout, error) {
	event, err := fs.Event(hooks[w].group, hooks[w].name)
	advice := ""
	switch {
	case errors.Is(err, os.ErrPermission):
		advice = ": needs root, whom tracefs is for"
	case errors.Is(err, os.ErrNotExist) && hooks[w].group == "syscalls":
		advice = ": the kernel needs CONFIG_FTRACE_SYSCALLS"
	case errors.Is(err, os.ErrNotExist):
		advice = ": the kernel needs CONFIG_EVENT_TRACING"
	}
	if err != nil {
		return nil, fmt.Errorf("find tracepoint %s/%s: %w%s", hooks[w].group, hooks[w].name, err, advice)
	}
	return newLayout(w, event)
}
