// Package pulse checks whether probes of kernel functions work: it calls a function that the source
// probes, and compares the number of hits. sysctl kernel.ftrace_enabled=0 and a 0 in
// kprobes/enabled of debugfs disable all probes without an error.
package pulse

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/clock"
)

// Functions are the functions to probe. A source uses the first that it can. getsid(2) with a pid
// calls them. No other system call calls the first function, which needs CONFIG_SECURITY.
var Functions = []string{"security_task_getsid", "find_task_by_vpid"}

// ErrSilent is wrapped by the error of Open if the probes do not work.
var ErrSilent = errors.New("kprobes are disabled")

// Pulse checks the probes of a source. A nil Pulse makes no checks.
type Pulse struct {
	hits   func() (n uint64, counter int)
	pause  uint64 // time between two checks in ns
	next   uint64 // time of the next check
	worked uint64 // time until which the probes worked or a gap reports the silence
	silent bool   // the probes were silent at the last check
	missed bool
	ended  bool // see Stop
}

// longest is the longest silence in ns that one gap reports.
const longest = 10e9

// Open calls Silenced, then checks the probes. hits returns how often a function was hit, and the
// index of the counter, or -1 if that is unknown. hold is the time by which events are delayed.
func Open(hold time.Duration, hits func() (n uint64, counter int)) (*Pulse, error) {
	p := &Pulse{hits: hits, pause: uint64(min(hold, time.Second)) / 4, worked: clock.Monotonic()}
	silent, sure := p.check()
	switch {
	case silent:
		return nil, fmt.Errorf("%w: a call of a probed function was not counted", ErrSilent)
	case !sure:
		return nil, errors.New("getsid(2) does not work, or no counter of hits")
	}
	return p, nil
}

// Silenced returns an error that wraps ErrSilent if a setting disables all probes. Then no probe
// may be created or removed: kernels have printed warnings (6.12) or hung (5.10).
func Silenced() error {
	for file, why := range map[string]string{
		"/proc/sys/kernel/ftrace_enabled":   "sysctl kernel.ftrace_enabled is 0",
		"/sys/kernel/debug/kprobes/enabled": "/sys/kernel/debug/kprobes/enabled is 0",
	} {
		if b, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(b)) == "0" {
			return fmt.Errorf("%w: %s", ErrSilent, why)
		}
	}
	return nil
}

// Interval returns the longest time between two calls of Gap while the source is idle, or 0 for no
// limit.
func (p *Pulse) Interval() time.Duration {
	if p == nil {
		return 0
	}
	return time.Second
}

// Stop ends the checks. It must be called before the probes are removed.
func (p *Pulse) Stop() {
	if p != nil {
		p.ended = true
	}
}

// Missed reports whether the probes have ever been silent.
func (p *Pulse) Missed() bool { return p != nil && p.missed }

// Silence returns the time since when the probes may be silent. ok is false if they worked at the
// last check.
func (p *Pulse) Silence() (since uint64, ok bool) {
	if p == nil {
		return 0, false
	}
	return p.worked, p.silent
}

// Gap checks the probes if a check is due. At the end of a silence it returns one gap, from the
// last check before the silence to the first check after it. A silence of more than 10 s has a gap
// after each 10 s.
func (p *Pulse) Gap() (g engine.Gap, ok bool) {
	if p == nil {
		return g, false
	}
	now := clock.Monotonic()
	was := p.silent
	switch {
	case p.ended:
		p.silent = false
	case now < p.next:
		return g, false
	default:
		p.next = now + p.pause
		silent, sure := p.check()
		if !sure {
			return g, false
		}
		p.silent, p.missed = silent, p.missed || silent
	}
	if p.silent && now-p.worked < longest {
		return g, false
	}
	g = engine.Gap{Cause: engine.LossUnseen, CPU: engine.AllCPUs, From: p.worked, To: now}
	p.worked = now
	return g, was || p.silent
}

// check reports whether the probes are silent. sure is false if the call moved to another counter,
// or if seccomp(2) denies the call.
func (p *Pulse) check() (silent, sure bool) {
	for range 3 {
		before, counter := p.hits()
		_, _, errno := unix.RawSyscall(unix.SYS_GETSID, uintptr(unix.Getpid()), 0, 0)
		after, same := p.hits()
		switch {
		case counter < 0 || counter != same:
		case after > before:
			return false, true
		case errno == 0:
			silent, sure = true, true
		}
	}
	return silent, sure
}
