package source

import (
	"bytes"
	"fmt"
	"path"

	"github.com/quark-linux/quark/engine"
)

// Environ says which variables of the environment that a program is started with are reported. The
// zero value is for none. Names are patterns, in which * stands for any characters, ? for one, and
// [a-z] for one of a set.
type Environ struct {
	// Names are the variables that are reported, such as "LD_*", "PATH"; "*" for all.
	Names []string
	// Redacted are those of them of which only the name is. Nothing keeps their values: neither
	// a recording nor a process in the table.
	Redacted []string
}

// Redacted is the value of a variable that is redacted.
const Redacted = "[redacted]"

// Wanted reports whether any variable is reported.
func (e *Environ) Wanted() bool { return len(e.Names) > 0 }

// NoEnviron is the row of a source that is not asked for the environment.
var NoEnviron = engine.Capability{Via: "needs Options.Environ"}

func (e *Environ) validate() error {
	if len(e.Redacted) > 0 && !e.Wanted() {
		return wrong("Environ.Redacted", e.Redacted, fmt.Errorf("Environ.Names is empty"))
	}
	for option, patterns := range map[string][]string{"Environ.Names": e.Names, "Environ.Redacted": e.Redacted} {
		for _, p := range patterns {
			if _, err := path.Match(p, ""); err != nil {
				return wrong(option, p, err)
			}
		}
	}
	return nil
}

// Set sets FieldEnviron of ev to the variables of all that are reported. all is what NULs end; cut
// is set if its end is missing, with a part of the last variable perhaps.
func (e *Environ) Set(ev *engine.RawEvent, all []byte, cut bool) {
	var kept []byte
	for len(all) > 0 {
		variable, rest, ended := bytes.Cut(all, []byte{0})
		all = rest
		name, _, whole := bytes.Cut(variable, []byte{'='})
		if !whole && cut && !ended || !matches(e.Names, name) {
			continue
		}
		if whole && matches(e.Redacted, name) {
			kept = append(append(append(kept, name...), '='), Redacted...)
		} else {
			kept = append(kept, variable...)
		}
		if ended || !cut {
			kept = append(kept, 0)
		}
	}
	ev.Set(engine.FieldEnviron, kept)
	if cut {
		ev.Task.Truncated |= engine.FieldEnviron.Set()
	}
}

func matches(patterns []string, name []byte) bool {
	for _, p := range patterns {
		if ok, _ := path.Match(p, string(name)); ok || p == "*" {
			return true
		}
	}
	return false
}
