// Package pulse checks whether probes of kernel functions work: it calls a function that the source
// probes, and compares the number of hits. sysctl kernel.ftrace_enabled=0 and a 0 in
// kprobes/enabled of debugfs silence all probes without an error.
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

// Functions are the functions to probe: a source uses the first that it can. getsid(2) with a pid
// calls them. It is the only caller of the first one, which needs CONFIG_SECURITY.
var Functions = []string{"security_task_getsid", "find_task_by_vpid"}

// ErrSilent is wrapped by the error of Open for probes that do not work.
var ErrSilent = errors.New("kprobes are silenced")

// Pulse checks the probes of a source. A nil Pulse makes no checks.
type Pulse struct {
	hits   func() (n uint64, counter int)
	pause  uint64 // between two checks, ns
	next   uint64 // time of the next check
	worked uint64 // the probes worked until then, or a gap reports they did not
	silent bool   // at the last check
	missed bool
	ended  bool // see Stop
}

// longest is the longest silence that one gap reports, in ns.
const longest = 10e9

// Open checks the probes, after Silenced. hits returns how often a function was hit, and the index
// of the counter, -1 for unknown. Events are delayed by hold.
func Open(hold time.Duration, hits func() (n uint64, counter int)) (*Pulse, error) {
	p := &Pulse{hits: hits, pause: uint64(min(hold, time.Second)) / 4, worked: clock.Monotonic()}
	silent, sure := p.check()
	switch {
	case silent:
		return nil, fmt.Errorf("%w: a call of a probed function is not counted", ErrSilent)
	case !sure:
		return nil, errors.New("getsid(2) does not work, or no counter of hits")
	}
	return p, nil
}

// Silenced returns an error that wraps ErrSilent if a setting silences all probes. Then no probe
// may be made or removed: kernels have warned (6.12) or hung (5.10).
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

// Interval is the longest time between two calls of Gap while the source is idle, 0 for no limit.
func (p *Pulse) Interval() time.Duration {
	if p == nil {
		return 0
	}
	return time.Second
}

// Stop ends the checks, before the probes are removed.
func (p *Pulse) Stop() {
	if p != nil {
		p.ended = true
	}
}

// Missed reports whether the probes have been silent.
func (p *Pulse) Missed() bool { return p != nil && p.missed }

// Silence returns since when the probes may be silent, if they were so at the last check.
func (p *Pulse) Silence() (since uint64, ok bool) {
	if p == nil {
		return 0, false
	}
	return p.worked, p.silent
}

// Gap checks the probes if a check is due. It returns one gap of a silence at its end, from the
// last check before it to the first one after it, or after each 10 s of a longer one.
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

// check reports whether the probes are silent. sure is false if the counter is another one after
// the call, or seccomp(2) refuses the call.
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
