package source

import (
	"strings"
	"unsafe"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/engine/glob"
)

// Environ selects the reported variables from the environment with which a program is started. The
// zero value selects none. Names are patterns: * stands for any characters, ? for one character,
// [a-z] and [!a-z] for one character of a set. \ makes the next character literal.
type Environ struct {
	// Names are the variables that are reported, such as "LD_*", "PATH"; "*" for all.
	Names []string
}

// Wanted reports whether any variable is reported.
func (e *Environ) Wanted() bool { return len(e.Names) > 0 }

// Has reports whether the named variable is selected. It is true for all variables if Compile
// rejects a pattern.
func (e *Environ) Has(name string) bool {
	v, err := e.Compile()
	return err != nil || v != nil && anyMatches(v.names, name)
}

// NoEnviron is the table row of a source without requested variables.
var NoEnviron = engine.Capability{Via: "needs Options.Environ"}

// Variables is a compiled Environ. Several goroutines may use one.
type Variables struct{ names []glob.Glob }

// Compile returns nil if no variable is reported, and an *[engine.OptionError] if a pattern cannot
// be used.
func (e *Environ) Compile() (*Variables, error) {
	if !e.Wanted() {
		return nil, nil
	}
	v := new(Variables)
	for _, p := range e.Names {
		g, err := glob.Compile(p)
		if err != nil {
			return nil, wrong("Environ.Names", p, err)
		}
		v.names = append(v.names, g)
	}
	return v, nil
}

// Set sets FieldEnviron of ev to the reported variables in all. Each variable in all ends with a
// NUL. cut is set if the end of all is missing, which may cut the last variable.
func (v *Variables) Set(ev *engine.RawEvent, all []byte, cut bool) {
	var room [2048]byte // that few are not allocated
	kept := room[:0]
	// A string without a copy: all does not change meanwhile, and the string is not kept.
	for rest := unsafe.String(unsafe.SliceData(all), len(all)); rest != ""; {
		variable, after, ended := strings.Cut(rest, "\x00")
		rest = after
		name, _, whole := strings.Cut(variable, "=")
		if !whole && cut && !ended || !anyMatches(v.names, name) {
			continue
		}
		kept = append(kept, variable...)
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
