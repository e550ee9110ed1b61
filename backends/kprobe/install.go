package kprobe

import (
	"errors"
	"fmt"
	"slices"

	"github.com/quark-linux/quark/backends/internal/pulse"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/kernelversion"
	"github.com/quark-linux/quark/internal/proctext"
	"github.com/quark-linux/quark/internal/tracefs"
	"golang.org/x/sys/unix"
)

// installer defines the probes in tracefs.
type installer struct {
	kernel
	fs      *tracefs.FS
	probes  *tracefs.Probes
	group   string
	reports func(engine.Events) bool
	places  places

	installed []string // the lines that remove the installed probes
	notes     []string
}

// findReads determines by trial how many nested reads the kernel accepts in a fetch argument.
func (in *installer) findReads() int {
	for n := maxReads; n > minReads; n-- {
		value := firstArgument
		for range n {
			value = value.at(0)
		}
		if in.accepts(fetch{value: value, typ: typeX64}) {
			return n
		}
	}
	return minReads
}

// accepts determines by trial whether the kernel accepts a fetch argument.
func (in *installer) accepts(arg fetch) bool {
	symbol := families[familyFork].hooks[0].symbol
	d := definition{in.group, "trial", symbol, []fetch{arg}, in.places[symbol]}
	if refused != nil && refused(arg) || in.probes.Write(d.String()) != nil {
		return false
	}
	if in.probes.Write(d.removal()) != nil {
		in.installed = append(in.installed, d.removal())
	}
	return true
}

// refused is nil except in tests. It reports whether the trial of a fetch argument must fail, as on
// an older kernel.
var refused func(fetch) bool

// findForms determines by trial which forms of fetch arguments the kernel accepts.
func (in *installer) findForms() {
	in.reads = in.findReads()
	in.singles = !in.accepts(fetch{value: firstArgument.at(0), typ: typeX64, count: 2})
}

// family installs the first hook of a family that the kernel accepts.
func (in *installer) family(n int) (*set, error) {
	f := &families[n]
	var errs []error
	for i := range f.hooks {
		h := &f.hooks[i]
		if h.since != "" && !kernelversion.AtLeast(h.since) {
			errs = append(errs, fmt.Errorf("probe %s: needs Linux %s", h.symbol, h.since))
			continue
		}
		s, err := in.hook(n, f, h)
		if err == nil {
			return s, nil
		}
		if h.config != "" && errors.Is(err, errNoFunction) {
			err = fmt.Errorf("%w: needs %s", err, h.config)
		}
		errs = append(errs, fmt.Errorf("probe %s: %w", h.symbol, err))
	}
	return nil, errors.Join(errs...)
}

func (in *installer) hook(n int, f *family, h *hook) (*set, error) {
	s := &set{family: n, kind: f.kind, symbol: h.symbol, filter: h.filter, zeroes: in.singles}
	if h.threads != "" && !in.threads {
		s.filter = h.threads
	}

	if n == familyCgroup && in.cgroups != proctext.UnifiedCgroup {
		return nil, errors.New("it reports moves in cgroup v2, which is not in use")
	}
	b := builder{kernel: in.kernel}
	if h.args != nil {
		h.args(&b)
	}
	own := len(b.args)
	f.state(&b, h)
	needs := []slot{slotTID, slotTGID}
	switch {
	case n == familyIDs, n == familyNS:
		needs = append(needs, slotExecOwner)
	case n == familyPGID:
		needs = append(needs, slotNewPGID, slotSID)
	case f.kind == engine.KindExecFailed:
		needs = nil
	}
	if !fetches(b.args, needs...) {
		return nil, errors.New("the kernel's types have no " + b.lacks)
	}
	add := in.add
	if h.tracepoint {
		add = in.tracepoint
	}
	if err := add(s, f.name, b.args); err != nil {
		return nil, err
	}
	// A filter must drop all records of an event or none.
	var common []fetch
	if s.filter != "" {
		common = b.args[:own:own]
	}
	if !in.reports(f.kind.Events()) {
		return s, nil
	}
	for _, t := range f.texts {
		if t == cgroup && in.cgroups == proctext.NoHierarchy {
			continue // see Source.describe
		}
		in.text(s, f, t, common)
	}
	return s, nil
}

// text adds the probes of a text field. If this fails, the events do not have the field.
func (in *installer) text(s *set, f *family, t *text, common []fetch) {
	b := builder{kernel: in.kernel}
	parts := t.probes(&b)
	if len(parts) == 0 {
		in.notes = append(in.notes, fmt.Sprintf("%s has no %s: the kernel's types have no %s", f.kind, t.field, b.lacks))
		return
	}
	st := setText{text: t}
	for i, args := range parts {
		// The chunks come first, as the guard writes its words at the start.
		err := in.add(s, fmt.Sprintf("%s_%s%d", f.name, t.name, i), append(args, common...))
		if err == nil && (t == cmdline || t == execPath) && !in.singles {
			err = in.guard(s)
		}
		if err != nil {
			in.notes = append(in.notes, fmt.Sprintf("%s has only a part of %s: probe %s: %v", f.kind, t.field, s.symbol, err))
			break
		}
		st.parts |= s.probes[len(s.probes)-1].part
	}
	if st.parts != 0 {
		s.texts = append(s.texts, st)
	}
}

// add installs one probe of a set.
func (in *installer) add(s *set, name string, args []fetch) error {
	if len(s.probes) == maxParts {
		return fmt.Errorf("more than %d probes", maxParts)
	}
	p := &probe{def: definition{in.group, name, s.symbol, args, in.places[s.symbol]}}
	if err := in.define(p); err != nil {
		return err
	}
	s.add(p)
	return nil
}

// tracepoint adds a tracepoint of system calls to a set, instead of a probe.
func (in *installer) tracepoint(s *set, name string, args []fetch) error {
	event, err := in.fs.Event("syscalls", name)
	if err != nil {
		return err
	}
	p := &probe{def: definition{group: "syscalls", name: name, symbol: name, args: args}}
	if p.layout, err = newLayout(args, event); err == nil {
		s.add(p)
	}
	return err
}

// beat installs the probe for package pulse. It returns nil if this fails.
func (in *installer) beat() *probe {
	for _, symbol := range pulse.Functions {
		args := []fetch{{slot: slotTID, value: firstArgument, typ: typeX64}}
		p := &probe{def: definition{group: in.group, name: "beat", symbol: symbol, args: args}}
		if in.define(p) == nil {
			return p
		}
	}
	return nil
}

// define writes the definition of a probe to tracefs.
func (in *installer) define(p *probe) error {
	if err := p.def.check(in.reads); err != nil {
		return err
	}
	if err := in.probes.Write(p.def.String()); err != nil {
		return in.explain(err)
	}
	in.installed = append(in.installed, p.def.removal())
	event, err := in.fs.Event(in.group, p.def.name)
	if err == nil {
		p.layout, err = newLayout(p.def.args, event)
	}
	return err
}

var errNoFunction = errors.New("the kernel has no such function")

// explain adds the probable reason to the kernel's error for a probe.
func (in *installer) explain(err error) error {
	if errors.Is(err, unix.ENOENT) {
		return errNoFunction
	}
	if why := in.probes.Why(); why != "" {
		return fmt.Errorf("%w (%s)", err, why)
	}
	return err
}

// fetches reports whether args fetch all the slots.
func fetches(args []fetch, slots ...slot) bool {
	for _, s := range slots {
		if !slices.ContainsFunc(args, func(a fetch) bool { return a.slot <= s && s < a.slot+slot(max(a.count, 1)) }) {
			return false
		}
	}
	return true
}
