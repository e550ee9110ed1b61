package scenario

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/fidelity/script"
)

const filePrefix = "file:"

// FromFile returns the scenario of a script in a file (see package script), which is read when the
// scenario is performed. The path must not have a semicolon. Its name is "file:" and the path.
func FromFile(path string) Scenario {
	return Scenario{Name: filePrefix + path, Doc: "the script " + path, run: func(d *director) {
		text, err := os.ReadFile(path)
		d.must(err)
		s, err := script.Parse(string(text))
		d.must(err)
		d.script1(s)
	}}
}

// parseFile reads the name of a script.
func parseFile(name string) (s Scenario, ok bool) {
	path, ok := strings.CutPrefix(name, filePrefix)
	return FromFile(path), ok && path != ""
}

// script1 performs a script.
func (d *director) script1(s *script.Script) {
	for _, l := range s.Lives {
		d.do(d.life(l))
	}
}

func (d *director) life(l *script.Life) *process {
	p := d.script()
	for _, op := range l.Ops {
		switch op.Name {
		case "fork":
			p.child(0, d.life(op.Life))
		case "wait":
			p.awaitChild()
		case "setsid":
			p.setsid()
		case "comm":
			p.setComm(op.Args[0])
		case "exit":
			p.end(0)
		case "sleep":
			p.call("nanosleep", unix.SYS_NANOSLEEP, []unix.Timespec{{Nsec: 1000}}, nil)
		}
	}
	return p
}
