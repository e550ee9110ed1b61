package monitor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/score"
)

// Format maps members of a JSON line to fields. A path names a member, with "/" between nested
// names: "process/pid". In paths "*" stands for the key of Kinds that the line has.
type Format struct {
	// Name is the name of the monitor.
	Name string `json:"name"`
	// Note is a remark for the capability table.
	Note string `json:"note"`
	// Kind is the path of the text, or list of texts, with the kind of event. If Kind is empty,
	// the line has a member named by a key of Kinds.
	Kind string `json:"kind"`
	// Kinds maps these texts to kinds of event: fork, exec, exit, id_change, setproctitle,
	// ptrace, core_dump, exec_failed, gap; or "" to ignore the line. Lines with none of the
	// texts are ignored too.
	Kinds map[string]string `json:"kinds"`
	// Only maps paths to required texts.
	Only map[string]string `json:"only"`
	// Time is the time of the event. nil means the arrival of the line.
	Time *TimeFormat `json:"time"`
	// Members are the paths of the fields of the process; the manual lists their names.
	Members map[string]string `json:"members"`
	// Absent are values that the line omits, such as 0.
	Absent map[string]uint64 `json:"absent"`
	// Base64 is a suffix of member names. If the value of a member is not UTF-8, the member
	// with the suffix has the value in base64.
	Base64 string `json:"base64"`
	// IDs maps texts of the member id_change to changes: uid, gid, sid.
	IDs map[string]string `json:"ids"`
	// At maps a member to the kinds of event that have it. A member that is not in At comes
	// with every event.
	At map[string][]string `json:"at"`
	// Partial are kinds that are reported only partly, for example without 32-bit programs.
	Partial []string `json:"partial"`
	// Unchanged is set if setting ids to their current values counts as a change.
	Unchanged bool `json:"unchanged"`
	// Slash is set if directories (cwd) end with a slash.
	Slash bool `json:"slash"`
	// Terminal and Tracefs are as in Monitor.
	Terminal bool `json:"terminal"`
	Tracefs  bool `json:"tracefs"`
	// Late is the largest delay of a line, such as "2s". Default 10s.
	Late string `json:"late"`
}

// TimeFormat describes the time of a line.
type TimeFormat struct {
	Member string `json:"member"`
	Unit   string `json:"unit"`  // s, ms, us, ns, or rfc3339
	Clock  string `json:"clock"` // monotonic, boottime or realtime (rfc3339 needs none)
	// Tolerance is the largest error, such as "1ms".
	Tolerance string `json:"tolerance"`
}

var kindNames = map[string]engine.Kind{
	"fork": engine.KindFork, "exec": engine.KindExec, "exit": engine.KindExit, "id_change": engine.KindIDChange, "setproctitle": engine.KindSetProcTitle,
	"ptrace": engine.KindPtrace, "core_dump": engine.KindCoreDump, "exec_failed": engine.KindExecFailed, "gap": engine.KindGap,
}

var idNames = map[string]engine.IDChange{"uid": engine.ChangedUID, "gid": engine.ChangedGID, "sid": engine.ChangedSID, "pgid": engine.ChangedPGID}

var units = map[string]uint64{"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1, "rfc3339": 1}

var clocks = []string{"monotonic", "boottime", "realtime"}

// ReadFormat reads a Format from a file, and returns a monitor that runs command and decodes its
// output. Instead of a file it accepts the name of a known monitor.
func ReadFormat(file, command string) (*Monitor, error) {
	words := []string{"-c", "exec " + command}
	if strings.ContainsAny(command, "|;&<>()`$") {
		words[1] = command // for example a pipeline
	}
	if m, err := Find(file); err == nil {
		m.Name += "*"
		m.Programs, m.Arguments, m.Package, m.Needs, m.GuestOnly = []string{"sh"}, words, "", nil, ""
		m.Accounting, m.File, m.Apart, m.Traces = false, false, false, false
		return m, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("monitor format: %w", err)
	}
	m, err := ParseFormat(text, strings.TrimSuffix(filepath.Base(file), ".json"))
	if err != nil {
		return nil, fmt.Errorf("monitor format: %s: %w", file, err)
	}
	m.Programs, m.Arguments = []string{"sh"}, words
	return m, nil
}

// ParseFormat returns the monitor of a JSON format, without its command. name is the default name.
func ParseFormat(text []byte, name string) (*Monitor, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	f := &Format{Name: name}
	if err := d.Decode(f); err != nil {
		return nil, err
	}
	return f.Monitor()
}

// Monitor returns the monitor of a format, without its command.
func (f *Format) Monitor() (*Monitor, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	m := &Monitor{Name: f.Name, Terminal: f.Terminal, Tracefs: f.Tracefs, Threads: f.Members["thread"] != ""}
	m.Foreign = score.Tolerance{As: f.as, Unchanged: f.Unchanged}
	late, err := duration("late", f.Late, 10*time.Second)
	if err != nil {
		return nil, err
	}
	if t := f.Time; t == nil {
		m.Foreign.NoStamps, m.Foreign.Late = true, late
	} else {
		tolerance, err := duration("tolerance", t.Tolerance, 0)
		if err != nil {
			return nil, err
		}
		m.Foreign.Late = tolerance
		if m.Foreign.Early = tolerance; units[t.Unit] > 1 {
			m.Foreign.Early += units[t.Unit]
		}
	}
	kinds := make(map[engine.Kind]string)
	for text, kind := range f.Kinds {
		if kind != "" {
			kinds[kindNames[kind]] = strings.TrimPrefix(f.Kind+" "+text, " ")
		}
	}
	if f.Members["path"] == "" && kinds[engine.KindExecFailed] != "" {
		kinds[engine.KindExecFailed] += "; each path is unknown"
	}
	delete(kinds, engine.KindGap)
	m.Table = table(kinds, f.claims())
	if f.Note != "" {
		m.Table.Notes = []string{f.Note}
	}
	for _, name := range f.Partial {
		m.Table.Kinds[kindNames[name]].Partial = kindNames[name].Events()
	}
	m.Decoder = func() Decoder { return newJSONDecoder(f) }
	return m, nil
}

func duration(what, text string, otherwise time.Duration) (uint64, error) {
	if text == "" {
		return uint64(otherwise), nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%s: %q is not a duration, such as 1ms", what, text)
	}
	return uint64(d), nil
}

func (f *Format) check() error {
	if f.Members["pid"] == "" {
		return fmt.Errorf("members: pid is missing")
	}
	for text, kind := range f.Kinds {
		if _, ok := kindNames[kind]; !ok && kind != "" {
			return fmt.Errorf("kinds: %q is %q, want one of %s", text, kind, names(kindNames))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.Members)) {
		if _, ok := memberFields[name]; !ok {
			return fmt.Errorf("members: unknown name %q, want one of %s", name, names(memberFields))
		}
	}
	for name, kinds := range f.At {
		if f.Members[name] == "" {
			return fmt.Errorf("at: %q is not among the members", name)
		}
		for _, k := range kinds {
			if _, ok := kindNames[k]; !ok {
				return fmt.Errorf("at: unknown kind %q of %q, want one of %s", k, name, names(kindNames))
			}
		}
	}
	for name := range f.Absent {
		if f.Members[name] == "" {
			return fmt.Errorf("absent: %q is not among the members", name)
		}
	}
	for _, k := range f.Partial {
		if _, ok := kindNames[k]; !ok {
			return fmt.Errorf("partial: unknown kind %q, want one of %s", k, names(kindNames))
		}
	}
	for text, id := range f.IDs {
		if _, ok := idNames[id]; !ok {
			return fmt.Errorf("ids: %q is %q, want one of %s", text, id, names(idNames))
		}
	}
	if t := f.Time; t != nil {
		if t.Unit == "rfc3339" && t.Clock == "" {
			t.Clock = "realtime"
		}
		switch {
		case t.Member == "":
			return fmt.Errorf("time: member is missing")
		case units[t.Unit] == 0:
			return fmt.Errorf("time: unknown unit %q, want one of %s", t.Unit, names(units))
		case !slices.Contains(clocks, t.Clock):
			return fmt.Errorf("time: unknown clock %q, want one of %s", t.Clock, strings.Join(clocks, ", "))
		}
	}
	return nil
}

func names[V any](m map[string]V) string { return strings.Join(slices.Sorted(maps.Keys(m)), ", ") }

// claims returns the fields of which the format names a member.
func (f *Format) claims() (list []claim) {
	at := make(map[engine.Field]engine.Events)
	for name, path := range f.Members {
		field := memberFields[name]
		if field == noField {
			continue
		}
		events := ^engine.Events(0)
		if kinds, ok := f.At[name]; ok {
			events = 0
			for _, k := range kinds {
				events |= kindNames[k].Events()
			}
		}
		at[field] |= events
		list = append(list, claim{field, 0, path})
	}
	for i, c := range list {
		list[i].at = at[c.field]
	}
	return list
}

// as converts a ground-truth text to the format of the output.
func (f *Format) as(field engine.Field, text string) string {
	one := func(first, second string) string {
		a, b, _ := strings.Cut(text, " ")
		switch {
		case f.Members[second] == "":
			return a + " " + a
		case f.Members[first] == "":
			return b + " " + b
		}
		return text
	}
	switch field {
	case engine.FieldUIDs:
		return one("uid", "euid")
	case engine.FieldGIDs:
		return one("gid", "egid")
	case engine.FieldArgs:
		switch {
		case f.Members["args"] == "":
			return spaced(field, text)
		case text != "" && !strings.HasSuffix(text, "\x00"):
			return text + "\x00" // a list has no final NUL
		}
	}
	return text
}
