package matrix

import (
	"encoding/xml"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/quark-linux/quark/internal/harness/record"
)

type junitSuites struct {
	XMLName xml.Name     `xml:"testsuites"`
	Suites  []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Time     float64     `xml:"time,attr"` // seconds
	Stamp    string      `xml:"timestamp,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	Time    float64       `xml:"time,attr"` // seconds
	Failure *junitOutcome `xml:"failure"`
	Error   *junitOutcome `xml:"error"`
	Skipped *junitOutcome `xml:"skipped"`
	Output  string        `xml:"system-out,omitempty"`
}

type junitOutcome struct {
	Type    string `xml:"type,attr,omitempty"`
	Message string `xml:"message,attr"`
}

// JUnit returns the results as the XML that CI systems read: a suite for each guest, with a case
// for each test on a backend and one named "guest" for the guest itself. A failed test is a
// failure; every other bad state is an error.
func (r Results) JUnit() ([]byte, error) {
	var doc junitSuites
	for _, g := range r.Guests {
		s := junitSuite{Name: g.Guest, Time: float64(g.TotalMS) / 1000, Stamp: r.Time.UTC().Format(time.RFC3339)}
		guest := Cell{Result: record.Result{State: g.State, Reason: g.Reason, DurationMS: g.OverheadMS()}}
		switch {
		case g.State == record.Fail && g.explained(): // its tests are the failures
			guest.State = record.Pass
		case !g.State.Good():
			guest.Repro = g.Repro
		}
		s.add("guest", guest)
		for _, c := range g.Cells {
			s.add(c.Test+" @ "+c.Backend, c)
		}
		doc.Suites = append(doc.Suites, s)
	}
	for _, name := range r.Missing {
		s := junitSuite{Name: name, Stamp: r.Time.UTC().Format(time.RFC3339)}
		s.add("guest", Cell{Result: record.Result{State: record.Lost, Reason: notRunAtAll}})
		doc.Suites = append(doc.Suites, s)
	}
	b, err := xml.MarshalIndent(doc, "", " ")
	return append([]byte(xml.Header), append(b, '\n')...), err
}

func (s *junitSuite) add(name string, c Cell) {
	jc := junitCase{Name: name, Class: s.Name, Time: float64(c.DurationMS) / 1000, Output: xmlText(c.Log)}
	outcome := &junitOutcome{Type: string(c.State), Message: xmlText(c.Reason)}
	s.Tests++
	switch c.State {
	case record.Pass:
	case record.Skip:
		s.Skipped++
		jc.Skipped = &junitOutcome{Message: outcome.Message}
	case record.Fail:
		s.Failures++
		jc.Failure = outcome
	default:
		s.Errors++
		jc.Error = outcome
	}
	if c.Repro != "" {
		jc.Output += "repro: " + xmlText(c.Repro) + "\n"
	}
	s.Cases = append(s.Cases, jc)
}

// xmlText removes the characters that XML 1.0 has no form for.
func xmlText(s string) string {
	return strings.Map(func(c rune) rune {
		if c == utf8.RuneError || c < ' ' && c != '\n' && c != '\t' || c == 0xfffe || c == 0xffff {
			return -1
		}
		return c
	}, s)
}
