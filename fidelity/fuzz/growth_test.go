package fuzz

import (
	"bytes"
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/engine/enginetest"
)

var kept [][]byte

// leakAll leaks memory, a descriptor and a goroutine.
func leakAll() {
	block := make([]byte, 3<<20)
	for i := range block {
		block[i] = 1
	}
	kept = append(kept, block)
	unix.Open("/dev/null", unix.O_RDONLY, 0)
	go func() { select {} }()
}

func TestGrown(t *testing.T) {
	hour := func(f func(i int64) int64) (values []int64) {
		for i := range int64(60) {
			values = append(values, f(i))
		}
		return values
	}
	const mib = 1 << 20
	for _, tt := range []struct {
		test, name string
		values     []int64
		want       string
	}{
		{"constant", descriptors, []int64{7, 7, 7, 7, 7, 7, 7, 7}, ""},
		{"too few samples", descriptors, []int64{1, 2, 3, 4, 5, 6, 7}, ""},
		{"grows in the first quarter", descriptors, []int64{1, 5, 7, 7, 7, 7, 7, 7}, ""},
		{"comes and goes", goroutines, []int64{7, 7, 9, 7, 9, 7, 9, 7}, ""},
		{"shrinks", goroutines, []int64{7, 7, 9, 9, 8, 8, 7, 7}, ""},
		{"one each time", descriptors, []int64{1, 2, 3, 4, 5, 6, 7, 8}, "descriptors: grew from 3 to 7"},
		{"one in all", goroutines, []int64{7, 7, 7, 7, 7, 8, 8, 8}, "goroutines: grew from 7 to 8"},
		{"one in an hour", descriptors, hour(func(i int64) int64 { return 40 + i/35 }), "descriptors: grew from 40 to 41"},
		{"memory within the limit", memory, hour(func(i int64) int64 { return 100*mib + i*mib/8 }), ""},
		{"memory over the limit", memory, hour(func(i int64) int64 { return 100*mib + i*mib/2 }), "anonymous memory: grew from 112721920 to 128450560"},
		{"peaks of memory", memory, hour(func(i int64) int64 { return 50*mib + i%7/6*40*mib }), ""},
		{"table within the limit", tableOf + "ebpf", hour(func(i int64) int64 { return i }), ""},
		{"table over the limit", tableOf + "ebpf", hour(func(i int64) int64 { return 10 * i }), "ended processes in the table of ebpf: grew from 150 to 450"},
	} {
		var samples []Sample
		for i, v := range tt.values {
			samples = append(samples, Sample{After: time.Duration(i) * time.Minute, Values: map[string]int64{tt.name: v}})
		}
		if got := strings.Join(Grown(samples), "; "); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.test, got, tt.want)
		}
	}
}

func TestOpenDescriptors(t *testing.T) {
	before, err := openDescriptors()
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n, err := openDescriptors(); err != nil || n != before+1 {
		t.Errorf("got %d descriptors, error %v, want %d", n, err, before+1)
	}
}

// An ended process stays in the table if its EXIT does not arrive.
func TestEndedIn(t *testing.T) {
	m := enginetest.NewMachine() // /proc does not have its processes
	parent := m.Running("/bin/sh")
	parent.Fork().Exit(0)
	m.Sleep(time.Minute)
	parent.SetComm("later")
	m.Sleep(time.Minute)
	parent.SetComm("again")
	q, err := quark.New(m, quark.Options{HoldTime: 10 * time.Millisecond, CacheGraceTime: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	for ev, err := range q.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if n := endedIn(q); ev.Events.Has(quark.EventExit) && n != 3 {
			t.Errorf("got %d ended processes at the EXIT, want 3", n)
		}
	}
	if n := endedIn(q); n != 2 {
		t.Errorf("got %d ended processes after the grace time, want 2, those without an EXIT", n)
	}
}

// sampleLimit ends a run after this many lines of samples.
type sampleLimit struct {
	bytes.Buffer
	left int
	end  context.CancelFunc
}

func (l *sampleLimit) Write(b []byte) (int, error) {
	if l.left -= bytes.Count(b, []byte("resident monitor:")); l.left <= 0 {
		l.end()
	}
	return l.Buffer.Write(b)
}

// A leak of the resident monitor is found, and a correct monitor has no finding. With such a short
// rest the tables contain processes that just ended, so their sizes are not compared.
func TestLeakIsFound(t *testing.T) {
	asRoot(t)
	for name, want := range map[string][]string{"correct": nil, "leaks": {memory, descriptors, goroutines}} {
		t.Run(name, func(t *testing.T) {
			if want != nil {
				leak = leakAll
				defer func() { leak, kept = nil, nil }()
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			lines := &sampleLimit{left: fewest + 1, end: cancel}
			r, err := Run(ctx, Options{Every: time.Millisecond, Rest: time.Millisecond, Batch: 1, Backends: backends.CNProc, Dir: t.TempDir(), Progress: lines})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s%q", lines, r.Grown)
			grown := slices.DeleteFunc(r.Grown, func(s string) bool { return strings.HasPrefix(s, tableOf) })
			for _, name := range want {
				if !slices.ContainsFunc(grown, func(s string) bool { return strings.HasPrefix(s, name+": ") }) {
					t.Errorf("want %s in %q", name, grown)
				}
			}
			if len(r.Samples) < fewest || len(grown) != len(want) {
				t.Errorf("got %d samples, grown values %q", len(r.Samples), grown)
			}
		})
	}
}
