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

// Format says which member of a line of JSON is what. A path names a member, with "/" before each
// member within another one: "process/pid". In paths "*" stands for the key of Kinds that the line
// has.
type Format struct {
	// Name is what the monitor is called.
	Name string `json:"name"`
	// Note is what is to be known of the output or of this file, for its table.
	Note string `json:"note"`
	// Kind is the path of the text, or the list of texts, that says what happened. Without it
	// the line has a member with one of the names in Kinds.
	Kind string `json:"kind"`
	// Kinds are the kinds of event by that text: fork, exec, exit, id_change, comm, ptrace,
	// core_dump, exec_failed, gap; "" is none that is of interest. Lines without any of these
	// are left out too.
	Kinds map[string]string `json:"kinds"`
	// Only, if not empty, are paths and the texts that they have to have.
	Only map[string]string `json:"only"`
	// Time is when it happened. Without it this is when the line arrives.
	Time *TimeFormat `json:"time"`
	// Members are the paths of what is said of the process: see the manual for the names.
	Members map[string]string `json:"members"`
	// Absent are values of members that are not in the line because they have them: 0, for one.
	Absent map[string]uint64 `json:"absent"`
	// Base64 ends the names of members that have in base64 what the one without that ending
	// has as text, if that is not UTF-8.
	Base64 string `json:"base64"`
	// IDs are the changes by the text of the member id_change: uid, gid, sid.
	IDs map[string]string `json:"ids"`
	// At has the kinds of event that bring a member; the rest come with every event.
	At map[string][]string `json:"at"`
	// Partial are kinds of which it does not report all: not what 32-bit programs do, for one.
	Partial []string `json:"partial"`
	// Unchanged says that ids that are set to what they are count as a change.
	Unchanged bool `json:"unchanged"`
	// Slash says that directories (cwd) end with a slash.
	Slash bool `json:"slash"`
	// Terminal and Tracefs are as in Monitor.
	Terminal bool `json:"terminal"`
	Tracefs  bool `json:"tracefs"`
	// Late is how much later than it happened a line may come, such as "2s"; 10 s without it.
	Late string `json:"late"`
}

// TimeFormat says what the time of a line is.
type TimeFormat struct {
	Member string `json:"member"`
	Unit   string `json:"unit"`  // s, ms, us, ns, or rfc3339
	Clock  string `json:"clock"` // monotonic, boottime or realtime (rfc3339 needs none)
	// Tolerance is by how much it may be wrong, such as "1ms".
	Tolerance string `json:"tolerance"`
}

var kindNames = map[string]engine.Kind{
	"fork": engine.KindFork, "exec": engine.KindExec, "exit": engine.KindExit, "id_change": engine.KindIDChange, "comm": engine.KindComm,
	"ptrace": engine.KindPtrace, "core_dump": engine.KindCoreDump, "exec_failed": engine.KindExecFailed, "gap": engine.KindGap,
}

var idNames = map[string]engine.IDChange{"uid": engine.ChangedUID, "gid": engine.ChangedGID, "sid": engine.ChangedSID}

var units = map[string]uint64{"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1, "rfc3339": 1}

var clocks = []string{"monotonic", "boottime", "realtime"}

// ReadFormat reads a file with a Format, and returns the monitor that is a command with output of
// this format. In place of a file it takes the name of a known monitor, whose output the command
// prints.
func ReadFormat(file, command string) (*Monitor, error) {
	words := []string{"-c", "exec " + command}
	if strings.ContainsAny(command, "|;&<>()`$") {
		words[1] = command // a pipeline, say
	}
	if m, err := Find(file); err == nil {
		m.Name += "*"
		m.Programs, m.Arguments, m.Package, m.Needs, m.GuestOnly = []string{"sh"}, words, "", nil, ""
		m.Accounting, m.File, m.Apart, m.Traces = false, false, false, false
		return m, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("the format of a monitor: %w", err)
	}
	m, err := ParseFormat(text, strings.TrimSuffix(filepath.Base(file), ".json"))
	if err != nil {
		return nil, fmt.Errorf("the format of a monitor: %s: %w", file, err)
	}
	m.Programs, m.Arguments = []string{"sh"}, words
	return m, nil
}

// ParseFormat returns the monitor of a format in JSON, without its command. name is what it is
// called if the format does not say that.
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
		return 0, fmt.Errorf("%s: %q is no duration, such as 1ms", what, text)
	}
	return uint64(d), nil
}

func (f *Format) check() error {
	if f.Members["pid"] == "" {
		return fmt.Errorf("members: the pid is missing")
	}
	for text, kind := range f.Kinds {
		if _, ok := kindNames[kind]; !ok && kind != "" {
			return fmt.Errorf("kinds: %q is %q, which is none of %s", text, kind, names(kindNames))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.Members)) {
		if _, ok := memberFields[name]; !ok {
			return fmt.Errorf("members: %q is none of %s", name, names(memberFields))
		}
	}
	for name, kinds := range f.At {
		if f.Members[name] == "" {
			return fmt.Errorf("at: %q is not among the members", name)
		}
		for _, k := range kinds {
			if _, ok := kindNames[k]; !ok {
				return fmt.Errorf("at: %q of %q is none of %s", k, name, names(kindNames))
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
			return fmt.Errorf("partial: %q is none of %s", k, names(kindNames))
		}
	}
	for text, id := range f.IDs {
		if _, ok := idNames[id]; !ok {
			return fmt.Errorf("ids: %q is %q, which is none of %s", text, id, names(idNames))
		}
	}
	if t := f.Time; t != nil {
		if t.Unit == "rfc3339" && t.Clock == "" {
			t.Clock = "realtime"
		}
		switch {
		case t.Member == "":
			return fmt.Errorf("time: the member is missing")
		case units[t.Unit] == 0:
			return fmt.Errorf("time: the unit %q is none of %s", t.Unit, names(units))
		case !slices.Contains(clocks, t.Clock):
			return fmt.Errorf("time: the clock %q is none of %s", t.Clock, strings.Join(clocks, ", "))
		}
	}
	return nil
}

func names[V any](m map[string]V) string { return strings.Join(slices.Sorted(maps.Keys(m)), ", ") }

// claims returns the fields whose members all are named.
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

// as returns a true value in the form of the output.
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
	case engine.FieldCmdline:
		switch {
		case f.Members["argv"] == "":
			return spaced(field, text)
		case text != "" && !strings.HasSuffix(text, "\x00"):
			return text + "\x00" // a list does not tell
		}
	}
	return text
}
