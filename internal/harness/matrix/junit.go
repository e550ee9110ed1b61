package matrix

import (
	"encoding/xml"
	"fmt"
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
	Time     string      `xml:"time,attr"`
	Stamp    string      `xml:"timestamp,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	Time    string        `xml:"time,attr"`
	Failure *junitOutcome `xml:"failure"`
	Error   *junitOutcome `xml:"error"`
	Skipped *junitOutcome `xml:"skipped"`
	Output  string        `xml:"system-out,omitempty"`
}

type junitOutcome struct {
	Type    string `xml:"type,attr,omitempty"`
	Message string `xml:"message,attr"`
}

// JUnit returns the results as the XML that CI systems read: a suite for each guest, a case for
// each test on a backend, and one named "guest" for what became of the guest itself. A failed test
// is a failure, all else that is bad an error.
func (r Results) JUnit() ([]byte, error) {
	var doc junitSuites
	for _, g := range r.Guests {
		s := junitSuite{Name: g.Guest, Time: seconds(g.TotalMS), Stamp: r.Time.UTC().Format(time.RFC3339)}
		add := func(c Cell, name string) {
			jc := junitCase{Name: name, Class: g.Guest, Time: seconds(c.DurationMS), Output: xmlText(c.Log)}
			outcome := &junitOutcome{Type: string(c.State), Message: xmlText(c.Reason)}
			s.Tests++
			switch c.State {
			case record.Pass:
			case record.Skip:
				s.Skipped++
				outcome.Type = ""
				jc.Skipped = outcome
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
		guest := Cell{State: g.State, Reason: g.Reason, DurationMS: g.OverheadMS()}
		if !g.State.Good() {
			guest.Repro = g.Repro
		}
		if g.State == record.Fail && g.explained() {
			// its tests say it
			guest = Cell{State: record.Pass, DurationMS: g.OverheadMS()}
		}
		add(guest, "guest")
		for _, c := range g.Cells {
			add(c, c.Test+" @ "+c.Backend)
		}
		doc.Suites = append(doc.Suites, s)
	}
	b, err := xml.MarshalIndent(doc, "", " ")
	return append([]byte(xml.Header), append(b, '\n')...), err
}

func seconds(ms int64) string { return fmt.Sprintf("%.3f", float64(ms)/1000) }

// xmlText leaves out what XML 1.0 cannot hold, however it is escaped.
func xmlText(s string) string {
	return strings.Map(func(c rune) rune {
		if c == utf8.RuneError || c < ' ' && c != '\n' && c != '\t' || c == 0xfffe || c == 0xffff {
			return -1
		}
		return c
	}, s)
}
