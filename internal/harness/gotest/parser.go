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
	parent  string // the test that has the tests as subtests, "" if there is none
	started func(test string)
	going   func()
	ended   func(test string, r outcome)

	current string // the test to which the output belongs
	running map[string]*outcome
	last    string // ended test, not reported yet: a panic's text may follow
	rest    string // the output that belongs to no test
	partial []byte // an unfinished line
}

// ending is how a test or a subtest ended.
type ending struct {
	state  record.State
	reason string
	begin  int // of a subtest in its test's log
}

// outcome is how a test ended.
type outcome struct {
	ending
	took     time.Duration
	log      strings.Builder
	subtests map[string]*ending
}

// hasSubtest reports whether a subtest ended in a state.
func (o *outcome) hasSubtest(state record.State) bool {
	for _, s := range o.subtests {
		if s.state == state {
			return true
		}
	}
	return false
}

// endingOf returns the ending of the backend's subtest. It returns the ending of the whole test if
// there is no such subtest, or if the test failed but no subtest did.
func (o *outcome) endingOf(backend string) ending {
	if s := o.subtests[backend]; s != nil && s.state != "" && (o.state != record.Fail || o.hasSubtest(record.Fail)) {
		return *s
	}
	return o.ending
}

// marker begins each line of the testing package. The marker may follow an unfinished line of the
// test.
const marker = "\x16"

var (
	headLine = regexp.MustCompile(`^=== (RUN|CONT|NAME|PAUSE) +(\S*)$`)
	tailLine = regexp.MustCompile(`^ *--- (PASS|FAIL|SKIP): (\S+) \(([0-9.]+s)\)$`)
	logLine  = regexp.MustCompile(`^ *\S+\.go:\d+: (.*)$`)
)

var stateOf = map[string]record.State{"PASS": record.Pass, "FAIL": record.Fail, "SKIP": record.Skip}

// Write parses the next part of the output.
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
		test, sub := p.split(m[2])
		if m[1] == "RUN" && test != "" && sub == "" {
			p.flush()
			if p.running == nil {
				p.running = make(map[string]*outcome)
			}
			p.running[test] = &outcome{subtests: make(map[string]*ending)}
			p.started(test)
		}
		p.current = test
		if o := p.running[test]; o != nil && sub != "" && m[1] == "RUN" {
			p.going()
			o.subtests[sub] = &ending{begin: o.log.Len()}
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
	test, sub := p.split(m[2])
	o := p.running[test]
	if o == nil {
		return
	}
	p.current = test
	if sub == "" {
		p.flush()
		o.state = state
		o.took, _ = time.ParseDuration(m[3]) // m[3] matches, so it is valid
		p.last = test
	} else if e := o.subtests[sub]; e != nil {
		e.state = state
		if state != record.Pass {
			e.reason = reason(o.log.String()[e.begin:])
		}
		p.output(s)
	}
}

// split splits a name into the names of the test and the subtest, which are empty if absent.
func (p *parser) split(name string) (test, sub string) {
	if p.parent != "" {
		name, _ = strings.CutPrefix(name+"/", p.parent+"/")
		name = strings.TrimSuffix(name, "/")
	}
	test, sub, _ = strings.Cut(name, "/")
	return test, sub
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
	if o.state == record.Pass && o.hasSubtest(record.Skip) && !o.hasSubtest(record.Pass) {
		o.state = record.Skip
	}
	if o.state != record.Pass {
		o.reason = reason(o.log.String())
	}
	p.ended(p.last, *o)
	delete(p.running, p.last)
	p.last = ""
}

// close marks the end of the output. Each test that has not ended counts as failed, with why as the
// reason.
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

// reason returns the line of a log that best explains why a test did not pass: a panic, else the
// last message with a file and line number.
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
