package line

import (
	"fmt"
	"math"
	"strconv"
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

// showDuration writes the lifetime of the process, or "-" for a running process. If its start is
// known only as a tick of /proc, the real lifetime may be shorter.
func showDuration(c *cell, p *Printer, ev *quark.Event) {
	if !ended(ev.Process) {
		c.put("-", 1)
		return
	}
	d, unit := Lifetime(ev, p.Clock)
	switch {
	case unit == 0:
		c.put("?", 1)
		return
	case unit > 1 && d < time.Second:
		c.put("<", 1)
		d += unit - d%unit
	}
	var b [32]byte
	c.ascii(string(appendShort(b[:0], d)))
}

// Short returns d rounded down to about three digits, or two units.
func Short(d time.Duration) string { return string(appendShort(nil, d)) }

func appendShort(b []byte, d time.Duration) []byte {
	switch {
	case d < 0:
		return append(b, '?')
	case d < time.Millisecond:
		return append(strconv.AppendInt(b, d.Microseconds(), 10), "us"...)
	case d < 10*time.Millisecond:
		return fmt.Appendf(b, "%d.%dms", d.Milliseconds(), d.Microseconds()/100%10)
	case d < time.Second:
		return fmt.Appendf(b, "%dms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Appendf(b, "%d.%02ds", d/time.Second, d.Milliseconds()/10%100)
	case d < time.Minute:
		return fmt.Appendf(b, "%d.%ds", d/time.Second, d.Milliseconds()/100%10)
	case d < time.Hour:
		return fmt.Appendf(b, "%dm%02ds", d/time.Minute, d/time.Second%60)
	case d < 24*time.Hour:
		return fmt.Appendf(b, "%dh%02dm", d/time.Hour, d/time.Minute%60)
	}
	return fmt.Appendf(b, "%dd%02dh", d/(24*time.Hour), d/time.Hour%24)
}
