package gotest

import (
	"bytes"
	"regexp"
	"strings"
	"time"

	"github.com/quark-linux/quark/internal/harness/record"
)

// parser reads the output of a test binary that runs with -test.v=test2json, and calls started and
// ended for each test, and going at the start of each subtest. Subtests are a part of their test.
type parser struct {
	started func(test string)
	going   func()
	ended   func(test string, r outcome)

	current string // the test to which the output belongs
	running map[string]*outcome
	last    string // has ended and is not reported yet: a panic's text comes after it
	rest    string // the output that belongs to no test
	partial []byte // an incomplete line
}

// outcome is how a test ended.
type outcome struct {
	state    record.State
	reason   string
	took     time.Duration
	log      strings.Builder
	subtests map[record.State]int
}

// marker begins each line that the testing package writes. The test may not have ended the line
// before it.
const marker = "\x16"

var (
	headLine = regexp.MustCompile(`^=== (RUN|CONT|NAME|PAUSE) +(\S*)$`)
	tailLine = regexp.MustCompile(`^ *--- (PASS|FAIL|SKIP): (\S+) \(([0-9.]+s)\)$`)
	logLine  = regexp.MustCompile(`^ *\S+\.go:\d+: (.*)$`)
)

var stateOf = map[string]record.State{"PASS": record.Pass, "FAIL": record.Fail, "SKIP": record.Skip}

// Write takes the next part of the output.
func (p *parser) Write(b []byte) (int, error) {
	p.partial = append(p.partial, b...)
	for {
		line, rest, whole := bytes.Cut(p.partial, []byte("\n"))
		if !whole {
			return len(b), nil
		}
		p.line(string(line))
		p.partial = rest
	}
}

// line reads a line without its newline.
func (p *parser) line(s string) {
	if before, own, ok := strings.Cut(s, marker); ok {
		if before != "" {
			p.output(before)
		}
		s = strings.TrimPrefix(own, marker)
	}
	if m := headLine.FindStringSubmatch(s); m != nil {
		test, _, sub := strings.Cut(m[2], "/")
		if m[1] == "RUN" && !sub {
			p.flush()
			if p.running == nil {
				p.running = make(map[string]*outcome)
			}
			p.running[test] = &outcome{subtests: make(map[record.State]int)}
			p.started(test)
		}
		p.current = test
		if sub && m[1] == "RUN" {
			p.going()
			p.output(s)
		}
		return
	}
	m := tailLine.FindStringSubmatch(s)
	if m == nil {
		p.output(s)
		return
	}
	state := stateOf[m[1]]
	test, _, sub := strings.Cut(m[2], "/")
	p.current = test
	o := p.running[test]
	switch {
	case o == nil:
	case sub:
		o.subtests[state]++
		p.output(s)
	default:
		p.flush()
		o.state = state
		o.took, _ = time.ParseDuration(m[3]) // its form was matched
		p.last = test
	}
}

func (p *parser) output(s string) {
	if o := p.running[p.current]; o != nil {
		o.log.WriteString(s + "\n")
		return
	}
	p.rest += s + "\n"
}

// flush reports the test that ended last.
func (p *parser) flush() {
	o := p.running[p.last]
	if o == nil {
		return
	}
	if o.state == record.Pass && o.subtests[record.Skip] > 0 && o.subtests[record.Pass] == 0 {
		o.state = record.Skip
	}
	if o.state != record.Pass {
		o.reason = reason(o.log.String())
	}
	p.ended(p.last, *o)
	delete(p.running, p.last)
	p.last = ""
}

// close ends the output. Tests that have not ended failed because the binary ended as why says.
func (p *parser) close(why string) {
	if len(p.partial) > 0 {
		p.line(string(p.partial))
	}
	p.flush()
	for test, o := range p.running {
		o.state, o.reason = record.Fail, why
		if r := reason(o.log.String()); strings.HasPrefix(r, "panic: ") || strings.HasPrefix(r, "fatal error: ") {
			o.reason = r
		}
		p.ended(test, *o)
	}
	clear(p.running)
}

// reason returns the line of a log that explains best why a test did not pass: a panic, else the
// last message with a place in a file.
func reason(log string) string {
	last := ""
	for line := range strings.Lines(log) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			return line
		}
		if m := logLine.FindStringSubmatch(line); m != nil {
			last = m[1]
		}
	}
	if last == "" {
		return "no reason was logged"
	}
	return last
}
