package filter

import (
	"slices"
	"strings"
	"testing"

	"github.com/quark-linux/quark/engine"
)

var goodRules = []string{
	"", "\n\n", "# nothing", "pass on any", "drop on any # all",
	"drop on process.pid 1", "pass on process.ppid 0", "drop on process.uid 0", "drop on process.gid 0", "drop on process.sid 0",
	"drop on process.exe /bin/true", "drop on process.exe \"/with blank/*\"", "drop on process.exe *", "drop on process.exe /a*b",
	"drop on process.exe /with\\ blank/*", "drop on process.pid 1 \\\n  process.uid 2", "pass \\\r\n on \\\n any\r\n drop on any",
	"pass if exec and exe ~ '/tmp/*.sh'\ndrop if not exec", "pass on any\ndrop on any", `drop on process.exe "*any"`, "drop on process.exe /a=b(c)~!",
	"drop on process.exe /a#b", "all: pass on any", "a-b/1: drop if exit", "tag web if exec", "web: untag web on process.uid 0",
}

var badRules = []struct{ source, want string }{
	{"foo on any", `line 1, column 1: "foo" is no action`},
	{`"drop" on any`, "line 1, column 1: a text in quotes is no action"},
	{": pass on any", "line 1, column 1: a name is expected"}, {"a*: pass on any", "line 1, column 1: a name is expected"},
	{"tag if exec", "line 1, column 8: on or if is expected"}, {`tag "a" if exec`, "line 1, column 5: a name is expected"},
	{"all:", "line 1, column 5: the end is no action"},
	{"drop", "line 1, column 5: on or if is expected, not the end"},
	{"drop any", `line 1, column 6: on or if is expected, not "any"`},
	{"drop on", "line 1, column 8: any or a condition is expected"},
	{"pass on any\ndrop on foo 5", `line 2, column 9: "foo" is no condition`},
	{"drop on any process.pid 1", `line 1, column 13: nothing goes with any, so "process.pid" can't follow it`},
	{"drop on process.pid 1 any", `line 1, column 23: "any" is no condition`},
	{"drop on process.pid", "line 1, column 20: a number from 1 to 4194303 is expected, not the end"},
	{"drop on process.pid 0", `line 1, column 21: a number from 1`},
	{"drop on process.pid 1 2", `line 1, column 23: "2" is no condition`},
	{"drop on process.uid x", `line 1, column 21: a number from 0`},
	{"drop on process.uid 4294967296", `line 1, column 21: a number from 0`},
	{"drop on process.uid 0x10", `line 1, column 21: a number from 0`},
	{`drop on process.uid "0"`, "line 1, column 21: a number from 0 to 4294967295 is expected, not a text in quotes"},
	{"drop on process.exe /a*b*", `line 1, column 21: a path with more than one *`},
	{"drop on process.exe **", `line 1, column 21: a path with more than one *`},
	{`drop on process.exe ""`, `line 1, column 21: a path is expected`},
	{"drop on process.exe bash", `line 1, column 21: a path begins with a slash: put / or */ before "bash"`},
	{"drop on process.exe /" + strings.Repeat("x", 4095), "line 1, column 21: a path has less than 4096 bytes"},
	{"drop on process.exe " + strings.Repeat("x", 5000), "line 1, column 21: longer than 4096 bytes"},
	{`drop on process.exe "/bin/true`, "line 1, column 21: the quote is not closed in its line"},
	{"drop on file.path /etc/passwd", "line 1, column 9: quark has no events of files"},
	{"drop if", "line 1, column 8: a kind of event or a field is expected, not the end"},
	{"drop on any\n\n  drop if exec and\npass on any", "line 3, column 19: a kind of event or a field is expected, not the end"},
	{`drop on process.exe /a"b`, `line 1, column 23: '"' is not expected in a word`},
	{"drop on process.exe /a\\", `line 1, column 23: nothing follows the \`},
}

func TestRuleParser(t *testing.T) {
	for _, source := range goodRules {
		if _, err := ParseRules(source); err != nil {
			t.Errorf("%q: got error %v", source, err)
		}
	}
	for _, c := range badRules {
		if _, err := ParseRules(c.source); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%.60q: got error %v, want %s", c.source, err, c.want)
		}
	}
}

// An event is dropped only if each rule that may decide on it drops it. Conditions are true or
// unknown.
func TestRulesOfTheUnknown(t *testing.T) {
	const p, u, d = engine.VerdictPass, engine.VerdictUnsure, engine.VerdictDrop
	for _, c := range []struct {
		rules                string
		root, user, stranger engine.Verdict // uid 0, 33, unknown
	}{
		{"", p, p, p},
		{"drop on any", d, d, d},
		{"drop on process.uid 0", d, p, u},
		{"pass on process.uid 0\ndrop on any", p, d, u},
		{"drop on process.uid 0\ndrop on any", d, d, d},
		{"pass on process.uid 0\npass on process.uid 33\n", p, p, p},
		{"drop on process.uid 0\npass on any\ndrop on any", d, p, u},
		{"pass if uid == 0 or uid == 33\ndrop if known uid", p, p, p},
		{"pass on process.uid 0 process.exe /bin/*\ndrop on any", p, d, u},
		{"pass on process.uid 0 process.exe /sbin/*\ndrop on any", d, d, d},
	} {
		f, err := ParseRules(c.rules)
		m := matcher(t, f, err)
		for uid, want := range map[uint32]engine.Verdict{0: c.root, 33: c.user, 99: c.stranger} {
			ev := &engine.Event{Events: engine.EventExec, Process: &engine.Process{PID: 5, Image: engine.Image{Exe: "/bin/a/b"}}}
			ev.Process.Known = engine.SetOf(engine.FieldExe)
			if ev.Process.Cred.UID = uid; uid != 99 {
				ev.Process.Known |= engine.FieldUIDs.Set()
			}
			if got := m.Judge(ev); got != want {
				t.Errorf("%q, uid %d: got verdict %v, want %v", c.rules, uid, got, want)
			}
		}
	}
}

// A * in a rule's path matches slashes. No other character in it is special.
func TestRulePaths(t *testing.T) {
	for path, want := range map[string][]string{
		"/bin/true": {"/bin/true"},
		"/bin/*":    {"/bin/", "/bin/a", "/bin/a/b", "/bin/true", "/bin/[a]"},
		"*":         {"/", "/bin/", "/bin/a", "/bin/a/b", "/bin/true", "/bin/[a]", "/aba"},
		"/ab*ba":    nil, // both ends must match
		"/a*a":      {"/aba"},
		"*/b":       {"/bin/a/b"},
		"/bin/[a]":  {"/bin/[a]"},
		"/bin/?":    nil,
	} {
		f, err := ParseRules("pass on process.exe " + path + "\ndrop on any")
		m := matcher(t, f, err)
		for _, exe := range []string{"/", "/bin/", "/bin/a", "/bin/a/b", "/bin/true", "/bin/[a]", "/aba"} {
			ev := &engine.Event{Process: &engine.Process{Image: engine.Image{Exe: exe}}}
			ev.Process.Known = engine.FieldExe.Set()
			if got := m.Judge(ev) == engine.VerdictPass; got != slices.Contains(want, exe) {
				t.Errorf("rule %s, path %s: got match %v", path, exe, got)
			}
		}
	}
}
