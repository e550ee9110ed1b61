package main

import (
	"encoding/json"
	"fmt"
	"io"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/exitsnoop"
	"github.com/quark-linux/quark/internal/clock"
)

// printer writes lines of text or of JSON.
type printer struct {
	w    io.Writer
	json bool
}

func (p *printer) print(text string, record any) error {
	if p.json {
		return json.NewEncoder(p.w).Encode(record)
	}
	_, err := fmt.Fprintln(p.w, text)
	return err
}

// line is the JSON form of a process. Unknown members are omitted. Trace ids are strings, because
// many JSON readers have no 64-bit numbers.
type line struct {
	Event      string `json:"event"` // tracing, exited or lost
	TraceID    uint64 `json:"trace_id,string,omitempty"`
	Pid        uint32 `json:"pid,omitempty"`
	Code       *int   `json:"code,omitempty"`
	Signal     *int   `json:"signal,omitempty"`
	CoreDumped bool   `json:"core_dumped,omitempty"`
	WaitStatus *int32 `json:"wait_status,omitempty"`
	Start      uint64 `json:"start_boottime_ns,omitempty"`
	Ended      uint64 `json:"monotonic_ns,omitempty"`
	Pidns      uint64 `json:"pidns,omitempty"`
	Tree       uint64 `json:"tree,string,omitempty"`
	Parent     uint64 `json:"parent,string,omitempty"`
	CPUTime    uint64 `json:"cpu_time,omitempty"` // ns; only for the commands that run started
	PeakRSS    uint64 `json:"peak_rss,omitempty"`
}

func (p *printer) tracing(t exitsnoop.Task) error {
	return p.print(fmt.Sprintf("%d traced as %d", t.Pid, t.TraceID),
		line{Event: "tracing", TraceID: t.TraceID, Tree: t.Tree, Parent: t.Parent, Pid: t.Pid, Pidns: t.PidnsInfo.Ino})
}

// exit prints an exit. used is nil if it is unknown.
func (p *printer) exit(e exitsnoop.Exit, used *exitsnoop.Usage) error {
	l := line{Event: "exited", TraceID: e.TraceID, Tree: e.Tree, Parent: e.Parent, Pid: e.Pid,
		WaitStatus: &e.ExitCode, Start: e.StartBoottime, Ended: e.ExitedTime()}
	if used != nil {
		l.CPUTime, l.PeakRSS = uint64(used.CPU), used.PeakRSS
	}
	w := e.WaitStatus()
	if w.Signaled() {
		n := int(w.Signal())
		l.Signal, l.CoreDumped = &n, w.CoreDump()
	} else {
		n := w.ExitStatus()
		l.Code = &n
	}
	return p.print(fmt.Sprintf("%d %s%s", e.Pid, describe(w), ago(e.ExitedTime())), l)
}

func (p *printer) lost(id uint64, pid uint32) error {
	text := fmt.Sprintf("trace %d ended, how is not known", id)
	if pid != 0 {
		text = fmt.Sprintf("%d ended, how is not known", pid)
	}
	return p.print(text, line{Event: "lost", TraceID: id, Pid: pid})
}

// describe describes the end of a process in words.
func describe(w syscall.WaitStatus) string {
	if !w.Signaled() {
		return fmt.Sprintf("exited with %d", w.ExitStatus())
	}
	name := unix.SignalName(w.Signal())
	if name == "" {
		name = fmt.Sprintf("signal %d", w.Signal())
	}
	if w.CoreDump() {
		name += " (core dumped)"
	}
	return "killed by " + name
}

// ago returns the time since at, in CLOCK_MONOTONIC, if it is more than a second.
func ago(at uint64) string {
	d := time.Duration(clock.Monotonic() - at)
	if at == 0 || d < time.Second {
		return ""
	}
	return fmt.Sprintf(" %v ago", d.Round(time.Second))
}
