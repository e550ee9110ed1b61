package line

import (
	"fmt"
	"math"
	"time"

	"github.com/quark-linux/quark"
)

// showStatus writes an exit code or a signal, or "-" for a running process.
func showStatus(c *cell, _ *Printer, ev *quark.Event) {
	p := ev.Process
	if ev.Events == quark.EventExecFailed {
		c.style = red
		c.ascii(ev.Failed.ErrnoName())
		return
	}
	if !ended(p) {
		c.put("-", 1)
		c.style = dim
		return
	}
	if !c.mark(p, 1<<quark.FieldExit) {
		return
	}
	switch x := p.Task.Exit; {
	case x.Signal() == 0:
		c.uint(uint64(x.Code()))
		if x.Code() != 0 {
			c.style = red
		}
	default:
		c.style = bold + ";" + red
		c.ascii(quark.SignalName(x.Signal()))
		if x.CoreDumped() {
			c.ascii("+core")
		}
	}
}

// ended reports whether the process, or the thread of the event, has ended.
func ended(p *quark.Process) bool { return p.Exited || p.Known.Has(quark.FieldExit) }

// Lifetime returns the lifetime of the process or thread whose EXIT is in the event. The real
// lifetime is shorter by less than unit nanoseconds: unit 1 means that the result is exact. Without
// an EXIT, unit is 0.
func Lifetime(ev *quark.Event, c *quark.Clock) (life time.Duration, unit time.Duration) {
	proc := ev.Process
	if !proc.Known.Has(quark.FieldExit) {
		return 0, 0
	}
	begin, end, unit := proc.Start, c.Boot(proc.Task.Exit.Time), time.Duration(max(proc.StartUnit, 1))
	started := !ev.Thread && proc.Known.Has(quark.FieldStart)
	if (!started || unit > 1) && len(ev.Parts) > 0 && ev.Parts[0].Kind.Events() == quark.EventFork {
		begin, unit, started = c.Boot(ev.Parts[0].Time), 1, true
	}
	if !started || end < begin || end-begin > math.MaxInt64 {
		return 0, 0
	}
	return time.Duration(end - begin), unit
}

// duration returns the lifetime of the process, or "-" for a running process. If its start is known
// only as a tick of /proc, the real lifetime may be shorter.
func (p *Printer) duration(ev *quark.Event) string {
	if !ended(ev.Process) {
		return "-"
	}
	switch d, unit := Lifetime(ev, p.Clock); {
	case unit == 0:
		return "?"
	case unit > 1 && d < time.Second:
		return "<" + Short(d/unit*unit+unit)
	default:
		return Short(d)
	}
}

// Short returns d rounded down to about three digits, or two units.
func Short(d time.Duration) string {
	switch {
	case d < 0:
		return "?"
	case d < time.Millisecond:
		return fmt.Sprintf("%dus", d.Microseconds())
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%d.%dms", d.Milliseconds(), d.Microseconds()/100%10)
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%d.%02ds", d/time.Second, d.Milliseconds()/10%100)
	case d < time.Minute:
		return fmt.Sprintf("%d.%ds", d/time.Second, d.Milliseconds()/100%10)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d/time.Second%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d/time.Minute%60)
	}
	return fmt.Sprintf("%dd%02dh", d/(24*time.Hour), d/time.Hour%24)
}
