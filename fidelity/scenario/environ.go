package scenario

import (
	"strings"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
)

// Environ is the selection of variables that queues must request for the scenario environ.
var Environ = source.Environ{Names: []string{"A*", "TOKEN", "NONE"}}

// withEnviron appends the execution of a program with an environment, and records the reported
// part.
func (p *process) withEnviron(path string, s truth.State, env []string, reported ...string) *process {
	if s.Set(engine.FieldEnviron, ""); len(reported) > 0 {
		s.Set(engine.FieldEnviron, cmdline(reported))
	}
	return p.program(path, []string{"x"}, s, env...)
}

// environ executes programs with environments, both short-lived and waiting ones.
func environ(d *director) {
	path, s := d.tiny("environ", 5, "x")
	for _, c := range []struct{ env, reported []string }{
		{nil, nil},
		{[]string{"B=1", "TO=2"}, nil},
		{[]string{"A=1", "B=2", "A=again", "A", "AWAY=3", "TOKEN=4", "TOKENS=x", "A=x=\xff\n", "AWAY/T=5"},
			[]string{"A=1", "A=again", "A", "AWAY=3", "TOKEN=4", "A=x=\xff\n", "AWAY/T=5"}},
		{[]string{"B=" + strings.Repeat("b", 15000), "A=after"}, []string{"A=after"}},
	} {
		d.do(d.light().withEnviron(path, s, c.env, c.reported...))
		h := d.prepare(d.script())
		held := s
		held.Forget(engine.AllFields)
		h.withEnviron(d.waiter(0), held, c.env, c.reported...)
		d.start(h.process)
		h.ready.pass(h.process)
		d.awaitReaders(h.pid)
		h.release()
	}
	long := "A=" + strings.Repeat("a", 100<<10)
	d.do(d.light().mayCut(engine.FieldEnviron.Set()).withEnviron(path, s, []string{long}, long))
}
