package quark_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/engine/enginetest"
)

// deadline limits waits that normally take milliseconds.
const deadline = 30 * time.Second

// A queue on any source uses the source's clock and processes, and ends with the source.
func TestNew(t *testing.T) {
	m := enginetest.NewMachine()
	m.Running("/bin/sh").Fork().Exit(0)
	q, err := quark.New(m, quark.Options{HoldTime: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if p := q.Lookup(2); p == nil || p.Comm != "sh" || p.AsOf() != q.Clock().Now() || q.Backend() != m.Name() {
		t.Errorf("got process 2 %+v", p)
	}
	var got []string
	for ev, err := range q.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, ev.Wall.UTC().Format("05.000 ")+ev.Events.String())
	}
	if !slices.Equal(got, []string{"01.001 FORK+EXIT"}) || !q.Drained() {
		t.Errorf("got events %q, drained %v", got, q.Drained())
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	if err := m.Populate(nil); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the source after Close: got error %v", err)
	}
	m = enginetest.NewMachine()
	if _, err := quark.New(m, quark.Options{MaxLength: -1}); err == nil || !strings.Contains(err.Error(), "option MaxLength is -1") ||
		!errors.Is(m.Populate(nil), os.ErrClosed) {
		t.Errorf("a wrong option: %v", err)
	}
}

// An invalid value of an option is an error, even if valid values have no effect.
func TestNewWrongOptions(t *testing.T) {
	for want, opts := range map[string]quark.Options{
		"option Kinds is ":           {Kinds: 1 << 30},
		"option Exits is ":           {Exits: 99},
		"option Backends is ":        {Backends: 1 << 7},
		"option Environ.Names is ":   {Environ: quark.Environ{Names: []string{"["}}},
		"option BTF.Path is /no/btf": {BTF: quark.BTFOptions{Path: "/no/btf"}},
	} {
		m := enginetest.NewMachine()
		_, err := quark.New(m, opts)
		if wrong := new(quark.OptionError); !errors.As(err, &wrong) || !strings.Contains(err.Error(), want) || !errors.Is(m.Populate(nil), os.ErrClosed) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if _, err := quark.New(nil, quark.Options{}); err == nil || !strings.Contains(err.Error(), "the source is nil") {
		t.Errorf("no source: %v", err)
	}
}

// A process that Lookup does not find has no relatives and no cgroups.
func TestNobody(t *testing.T) {
	q, err := quark.New(enginetest.NewMachine(), quark.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	nobody := q.Lookup(4711)
	ancestors, whole := q.Ancestors(nobody)
	if nobody.Clone() != nil || q.SessionLeader(nobody) != nil || q.GroupLeader(nobody) != nil ||
		len(ancestors) > 0 || whole {
		t.Errorf("nil process: got ancestors %v, whole %v", ancestors, whole)
	}
	for n := range 256 { // a newer version may have more values
		for _, v := range []fmt.Stringer{quark.Kind(n), quark.Kind(n).Events(), quark.Field(n), quark.Loss(n), quark.Join(n), quark.Origin(n),
			quark.EntryType(n), quark.BackendSet(n), quark.IDChange(n)} {
			_ = v.String()
		}
	}
}

// A source without a descriptor is polled.
func TestNewPolls(t *testing.T) {
	src := new(enginetest.Source)
	q, err := quark.New(src, quark.Options{HoldTime: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	for i, wait := 0, time.Now().Add(deadline); ; i++ {
		if _, err := q.Get(); err == nil {
			return
		}
		if err := q.Block(-1); err != nil || time.Now().After(wait) {
			t.Fatalf("no event: %v", err)
		}
		if i == 3 {
			src.Push(enginetest.Raw{Kind: engine.KindFork, PID: 8, Time: 1})
		}
	}
}

// The accessors report whether a value is known. Duration is the time from the start to the end.
func TestAccessors(t *testing.T) {
	m := enginetest.NewMachine()
	child := m.Running("/bin/sh").Fork().Exec("/bin/sleep", "5")
	m.Sleep(5 * time.Second)
	child.Exit(0)
	q, err := quark.New(m, quark.Options{HoldTime: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	var last *quark.Process
	for ev, err := range q.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		last = ev.Process.Clone()
	}
	uid, known1 := last.UID()
	exe, known2 := last.Exe()
	args, known3 := last.Args()
	d, known4 := last.Duration()
	if uid != 0 || exe != "/bin/sleep" || !slices.Equal(args, []string{"/bin/sleep", "5"}) || d.Round(time.Second) != 5*time.Second || !known1 || !known2 || !known3 || !known4 {
		t.Errorf("got %d, %s, %q, %v; known %v %v %v %v", uid, exe, args, d, known1, known2, known3, known4)
	}
	nothing := new(quark.Process)
	_, known1 = nothing.UID()
	_, known2 = nothing.Exe()
	_, known3 = nothing.Args()
	if _, known4 = nothing.Duration(); known1 || known2 || known3 || known4 {
		t.Errorf("%v %v %v %v", known1, known2, known3, known4)
	}
}

// OpenContext does not open with an ended context.
func TestOpenContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if q, err := quark.OpenContext(ctx, quark.Options{HoldTime: 1}); q != nil || err == nil {
		t.Errorf("got queue %v, error %v", q, err)
	}
}

// The comments of the main types name all their members and methods, for go doc quark.Process.
func TestMembersAreDocumented(t *testing.T) {
	source, err := os.ReadFile("api.go")
	if err != nil {
		t.Skip(err) // in a guest
	}
	for _, v := range []any{quark.Event{}, quark.Process{}, quark.Task{}, quark.Stats{}} {
		of := reflect.TypeOf(v)
		before, _, ok := strings.Cut(string(source), "\ntype "+of.Name()+" = ")
		if !ok {
			t.Fatalf("%s has no declaration of its own", of.Name())
		}
		comment := before[strings.LastIndex(before, "\n\n"):]
		var names []string
		for i := range of.NumField() {
			if f := of.Field(i); f.IsExported() {
				names = append(names, f.Name)
			}
		}
		for i := range reflect.PointerTo(of).NumMethod() {
			if m := reflect.PointerTo(of).Method(i); !strings.HasPrefix(m.Name, "AppendEntity") && m.Name != "NumberText" {
				names = append(names, m.Name)
			}
		}
		for _, name := range names {
			if !regexp.MustCompile(`\b` + name + `\b`).MatchString(comment) {
				t.Errorf("the comment of %s does not name %s", of.Name(), name)
			}
		}
	}
}
