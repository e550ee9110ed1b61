package watch

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/cmd/quark-mon/internal/line"
)

// counts are how often a command, which is all processes of one name, did something.
type counts struct {
	Comm   *string `json:"comm,omitempty"` // nil is not known
	Bytes  []byte  `json:"comm_b64,omitempty"`
	Others bool    `json:"others,omitempty"` // all whose names found no room

	Forks    uint64 `json:"forks"`
	Execs    uint64 `json:"execs"`
	Exits    uint64 `json:"exits"`
	Failed   uint64 `json:"failed"`   // of the exits those with a code that is not 0
	Signaled uint64 `json:"signaled"` // those by a signal
	Unknown  uint64 `json:"unknown"`  // those of which it is not known how

	// The lives whose length is known to a hundredth.
	Timed uint64        `json:"timed"`
	Total time.Duration `json:"total_ns"`
	Max   time.Duration `json:"max_ns"`
}

// tally counts by command.
type tally struct {
	of      map[string]*counts
	unknown *counts // without a name
	others  *counts
}

const maxCommands = 10_000

func newTally() *tally { return &tally{of: make(map[string]*counts)} }

// command returns the counts of the command of p.
func (t *tally) command(p *quark.Process) *counts {
	if !p.Known.Has(quark.FieldComm) {
		if t.unknown == nil {
			t.unknown = new(counts)
		}
		return t.unknown
	}
	c := t.of[p.Comm]
	switch {
	case c != nil:
	case len(t.of) < maxCommands:
		name := p.Comm
		c = &counts{Comm: &name}
		if !utf8.ValidString(name) {
			c.Bytes = []byte(name)
		}
		t.of[name] = c
	default:
		if t.others == nil {
			t.others = &counts{Others: true}
		}
		c = t.others
	}
	return c
}

// count adds an event.
func (t *tally) count(ev *quark.Event, clock *quark.Clock) {
	if ev.Process == nil || ev.Thread || !ev.Events.Has(quark.EventFork|quark.EventExec|quark.EventExit) {
		return
	}
	c := t.command(ev.Process)
	for _, part := range ev.Parts {
		switch part.Kind.Events() {
		case quark.EventFork:
			c.Forks++
		case quark.EventExec:
			c.Execs++
		}
	}
	if !ev.Events.Has(quark.EventExit) {
		return
	}
	c.Exits++
	switch x := ev.Process.Task.Exit; {
	case !ev.Process.Known.Has(quark.FieldExit):
		c.Unknown++
	case x.Signal() != 0:
		c.Signaled++
	case x.Code() != 0:
		c.Failed++
	}
	if life, unit := line.Life(ev, clock); unit == 1 || unit > 1 && life >= 100*unit {
		c.Timed++
		c.Total += life
		c.Max = max(c.Max, life)
	}
}

// all returns the counts, those of the busiest command first.
func (t *tally) all() []*counts {
	all := slices.SortedFunc(maps.Values(t.of), func(a, b *counts) int {
		return cmp.Or(cmp.Compare(b.Execs+b.Exits, a.Execs+a.Exits), cmp.Compare(*a.Comm, *b.Comm))
	})
	for _, c := range []*counts{t.others, t.unknown} {
		if c != nil {
			all = append(all, c)
		}
	}
	return all
}

// write writes a table, or a JSON object for each command.
func (t *tally) write(w io.Writer, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		for _, c := range t.all() {
			if err := e.Encode(c); err != nil {
				return err
			}
		}
		return nil
	}
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "FORKS\tEXECS\tEXITS\tFAILED\tSIGNALED\tUNKNOWN\tMEAN\tMAX\tTOTAL\t  COMMAND")
	for _, c := range t.all() {
		mean, most, total := "-", "-", "-"
		if c.Timed > 0 {
			mean, most, total = line.Short(c.Total/time.Duration(c.Timed)), line.Short(c.Max), line.Short(c.Total)
		}
		name := "?"
		switch {
		case c.Others:
			name = "(others)"
		case c.Comm != nil:
			name = line.Quote(*c.Comm)
		}
		fmt.Fprintf(tw, "%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\t  %s\n", c.Forks, c.Execs, c.Exits, c.Failed, c.Signaled, c.Unknown, mean, most, total, name)
	}
	return tw.Flush()
}
