package source

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quark-linux/quark/btfhub"
	"github.com/quark-linux/quark/engine"
)

func TestRingSize(t *testing.T) {
	page := os.Getpagesize()
	for _, tc := range []struct{ value, byDefault, want int }{
		{0, 1 << 20, 1 << 20}, {0, 1<<20 + 1, 2 << 20}, {1, 0, page}, {1 << 30, 0, 1 << 30}, {3 * page, 0, 4 * page},
	} {
		if got, err := RingSize(tc.value, tc.byDefault); err != nil || got != tc.want {
			t.Errorf("value %d, default %d: got %d, error %v, want %d", tc.value, tc.byDefault, got, err, tc.want)
		}
	}
	for _, value := range []int{-1, 1<<30 + 1} {
		_, err := RingSize(value, 0)
		if wrong := new(engine.OptionError); !errors.As(err, &wrong) || wrong.Option != "RingSize" || !strings.Contains(err.Error(), "from 0 to 1073741824 bytes") {
			t.Errorf("value %d: got error %v", value, err)
		}
	}
}

// A types file that cannot be used is an error of the option that names the file.
func TestTypesFile(t *testing.T) {
	missing, garbage := filepath.Join(t.TempDir(), "missing"), filepath.Join(t.TempDir(), "garbage")
	if err := os.WriteFile(garbage, []byte("no types"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{missing, garbage} {
		named := Options{BTF: btfhub.Options{Path: path}}
		t.Setenv(btfhub.PathVariable, "")
		wantOption(t, &named, "BTF.Path", path)
		t.Setenv(btfhub.PathVariable, path)
		wantOption(t, new(Options), btfhub.PathVariable, path)
	}
	if err := (&Options{BTF: btfhub.Options{Path: missing}}).Validate(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Validate of a missing file: got error %v", err)
	}
}

func wantOption(t *testing.T, o *Options, option, value string) {
	t.Helper()
	_, err := o.Types()
	if wrong := new(engine.OptionError); !errors.As(err, &wrong) || wrong.Option != option || wrong.Value != value {
		t.Errorf("%s=%s: got error %v", option, value, err)
	}
}

// LeaveOut returns an error if the source has none of the wanted kinds.
func TestLeaveOut(t *testing.T) {
	table := new(engine.CapabilityTable)
	table.Kinds[engine.KindFork].Origin = engine.OriginKernel
	if err := (&Options{Kinds: engine.EventPtrace}).LeaveOut(table); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("options with unreported kinds only: got error %v, want ErrUnsupported", err)
	}
}

// A process that ends with a core dump has a CORE_DUMP and an EXIT, if these kinds are wanted.
func TestInsertExit(t *testing.T) {
	for _, c := range []struct {
		kinds  engine.Events
		exits  Exits
		status int32
		thread bool
		want   engine.Events
	}{
		{0, ExitsAll, 0x8b, false, engine.EventCoreDump | engine.EventExit},
		{0, ExitsAll, 0x8b, true, engine.EventExit},
		{0, ExitsAll, 0x0b, false, engine.EventExit},
		{0, ExitsNonzero, 0, false, 0},
		{engine.EventCoreDump, ExitsAll, 0x8b, false, engine.EventCoreDump},
		{engine.EventCoreDump, ExitsAll, 0x0b, false, 0},
		{engine.EventExit, ExitsAll, 0x8b, false, engine.EventExit},
	} {
		b := engine.NewBuffer(4)
		exit := b.Reserve()
		exit.Kind, exit.PID, exit.Time, exit.Thread = engine.KindExit, 5, 9, c.thread
		exit.Task.Exit.WaitStatus = c.status
		exit.Task.Known = engine.FieldExit.Set()
		exit.Set(engine.FieldComm, []byte("comm"))
		n := (&Options{Kinds: c.kinds, Exits: c.exits}).InsertExit(b, exit)
		if n != len(c.want.Names(nil)) || b.Len() != n {
			t.Errorf("%+v: got %d events, %d in the buffer", c, n, b.Len())
		}
	}
}

// Invalid patterns are errors.
func TestEnvironValidate(t *testing.T) {
	for _, c := range []struct {
		environ Environ
		option  string
	}{
		{Environ{}, ""},
		{Environ{Names: []string{"*", "LD_[!A-Z]?"}}, ""},
		{Environ{Names: []string{"A["}}, "Environ.Names"},
	} {
		err := (&Options{Environ: c.environ}).Validate()
		wrong := new(engine.OptionError)
		if c.option == "" && err != nil || c.option != "" && (!errors.As(err, &wrong) || wrong.Option != c.option) {
			t.Errorf("%+v: got error %v", c.environ, err)
		}
	}
}

// The name of a variable may have any characters, even slashes. A few variables need no allocation.
func TestVariables(t *testing.T) {
	v, err := (&Environ{Names: []string{"A*B", "*?/[a-z]", "LONG*KEY"}}).Compile()
	if err != nil {
		t.Fatal(err)
	}
	long := "LONG" + strings.Repeat("_", 100) + "KEY"
	all := []byte("A/B=s\x00A/C=1\x00A-B=s\x00A/x/y=s\x00B=\x00" + long + "=s\x00")
	want := "A/B=s\x00A-B=s\x00A/x/y=s\x00" + long + "=s\x00"
	var ev engine.RawEvent
	set := func() {
		ev.Reset()
		v.Set(&ev, all, false)
	}
	if set(); string(ev.Bytes(engine.FieldEnviron)) != want {
		t.Errorf("got %q, want %q", ev.Bytes(engine.FieldEnviron), want)
	}
	if n := testing.AllocsPerRun(100, set); n > 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}
