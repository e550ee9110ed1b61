package source

import (
	"fmt"
	"strings"
	"unsafe"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/engine/glob"
)

// Environ says which variables of the environment that a program is started with are reported. The
// zero value is for none. Names are patterns, in which * stands for any characters, ? for one,
// [a-z] and [!a-z] for one of a set; \ takes its meaning from the character after it.
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

// Has reports whether the variable of that name is reported, with its value. If a pattern can't be
// used, which Compile says, all are.
func (e *Environ) Has(name string) bool {
	v, err := e.Compile()
	return err != nil || v != nil && anyMatches(v.names, name) && !anyMatches(v.redacted, name)
}

// NoEnviron is the row of a source that is not asked for the environment.
var NoEnviron = engine.Capability{Via: "needs Options.Environ"}

// Variables is a compiled Environ. Several goroutines may use one.
type Variables struct{ names, redacted []glob.Glob }

// Compile returns nil if no variable is reported, and an *[engine.OptionError] if a pattern can't
// be used.
func (e *Environ) Compile() (*Variables, error) {
	if len(e.Redacted) > 0 && !e.Wanted() {
		return nil, wrong("Environ.Redacted", e.Redacted, fmt.Errorf("Environ.Names is empty"))
	}
	names, err := compile("Environ.Names", e.Names)
	if err != nil || names == nil {
		return nil, err
	}
	redacted, err := compile("Environ.Redacted", e.Redacted)
	if err != nil {
		return nil, err
	}
	return &Variables{names, redacted}, nil
}

func compile(option string, patterns []string) (globs []glob.Glob, err error) {
	for _, p := range patterns {
		g, err := glob.Compile(p)
		if err != nil {
			return nil, wrong(option, p, err)
		}
		globs = append(globs, g)
	}
	return globs, nil
}

// Set sets FieldEnviron of ev to the variables of all that are reported. all is what NULs end; cut
// is set if its end is missing, with a part of the last variable perhaps.
func (v *Variables) Set(ev *engine.RawEvent, all []byte, cut bool) {
	var room [2048]byte // that few are not allocated
	kept := room[:0]
	// A string without a copy: nothing changes all meanwhile, and nothing keeps it.
	for rest := unsafe.String(unsafe.SliceData(all), len(all)); rest != ""; {
		variable, after, ended := strings.Cut(rest, "\x00")
		rest = after
		name, _, whole := strings.Cut(variable, "=")
		if !whole && cut && !ended || !anyMatches(v.names, name) {
			continue
		}
		if whole && anyMatches(v.redacted, name) {
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

func anyMatches(patterns []glob.Glob, name string) bool {
	for i := range patterns {
		if patterns[i].Match(name) {
			return true
		}
	}
	return false
}
