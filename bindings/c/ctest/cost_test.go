package ctest

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/engine/enginetest"
)

const lifetimes = 3000 // processes in a recording

// oneByOne returns a recording in which the caller waits for each event. For most events C calls Go
// three times: to wait, to get the event, and to find that there is no other event.
func oneByOne(t testing.TB) []byte {
	m := enginetest.NewMachine()
	sh := m.Running("/bin/sh")
	for i := range lifetimes {
		p := sh.Fork()
		rich(p)
		p.Exec("/usr/bin/true", "this", "is", "life", fmt.Sprint(i))
		p.State.Task.Known |= engine.FieldsUsage
		p.Exit(0)
	}
	return record(t, m)
}

// burst is a source whose events are all available at once, as after a wait on a busy machine.
type burst struct {
	enginetest.Source
	clock *enginetest.Clock
}

func (b *burst) Clock() *engine.Clock { return b.clock.Engine() }
func (b *burst) Arm(bool) bool        { return true }

func (b *burst) Populate(to engine.Sink) error {
	if err := b.Source.Populate(to); err != nil || b.Queued() > 0 {
		return err
	}
	return io.EOF
}

func (b *burst) Finish() { b.clock.Advance(time.Hour) }

// atOnce returns a recording of the same processes without waits.
func atOnce(t testing.TB) []byte {
	b := &burst{clock: enginetest.NewClock()}
	p := enginetest.NewMachine().Running("/bin/sh")
	rich(p)
	for i := range lifetimes {
		push := func(kind engine.Kind, adjust func(*enginetest.Raw)) {
			r := p.State
			r.Kind, r.PID, r.Creator = kind, uint32(10+i), 1
			r.Time = b.clock.Now() + uint64(1000*i+int(kind))
			r.Task.Start = b.clock.Now() + uint64(1000*i)
			adjust(&r)
			b.Push(r)
		}
		push(engine.KindFork, func(*enginetest.Raw) {})
		push(engine.KindExec, func(r *enginetest.Raw) {
			r.Exe, r.Args = []byte("/usr/bin/true"), fmt.Appendf(nil, "/usr/bin/true\x00this\x00is\x00life\x00%d\x00", i)
		})
		push(engine.KindExit, func(r *enginetest.Raw) {
			r.Task.Known |= engine.FieldsUsage.With(engine.FieldExit)
			r.Task.Exit.Time = r.Time
		})
	}
	return record(t, b)
}

// costs returns the CPU time in ns of an event in C and in Go. cost.c and cost.go, which do the
// same with one recording, run in turns, in separate processes with equal garbage collection. The
// least time of each counts, because other processes use the machine too.
func costs(t testing.TB, recording []byte, turns, rounds int) (inC, inGo float64) {
	program, pure := compile(t, "testdata/cost.c"), filepath.Join(t.TempDir(), "cost")
	build := exec.Command("go", "build", "-o", pure, "testdata/cost.go")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=", "GOARCH=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	file := write(t, "cost.trace", recording)
	for range turns {
		eventsC, spentC := spent(t, program, file, rounds)
		eventsGo, spentGo := spent(t, pure, file, rounds)
		if eventsC != eventsGo || eventsGo < lifetimes*rounds {
			t.Fatalf("got %d events in C, want %d as in Go", eventsC, eventsGo)
		}
		inC, inGo = least(inC, spentC/float64(eventsC)), least(inGo, spentGo/float64(eventsGo))
	}
	return inC, inGo
}

func least(a, b float64) float64 {
	if a == 0 {
		return b
	}
	return min(a, b)
}

func spent(t testing.TB, program, file string, rounds int) (events int, ns float64) {
	out, err := exec.Command(program, file, fmt.Sprint(rounds)).CombinedOutput()
	if _, scan := fmt.Fscan(strings.NewReader(string(out)), &events, &ns); err != nil || scan != nil {
		t.Fatalf("%v, %v\n%s", err, scan, out)
	}
	return events, ns
}

// On any machine, an event in C takes at most a few times as long as in Go. BenchmarkCost measures
// the ratio.
func TestCost(t *testing.T) {
	const limit = 4
	inC, inGo := costs(t, atOnce(t), 4, 5)
	t.Logf("an event takes %.0f ns in C and %.0f ns in Go", inC, inGo)
	if inC > limit*inGo {
		t.Errorf("an event takes %.0f ns in C and %.0f ns in Go: more than %d times", inC, inGo, limit)
	}
}

func BenchmarkCost(b *testing.B) {
	for name, recording := range map[string][]byte{"at once": atOnce(b), "one by one": oneByOne(b)} {
		b.Run(name, func(b *testing.B) {
			inC, inGo := costs(b, recording, 9, 40)
			for b.Loop() {
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(inC, "C-ns/event")
			b.ReportMetric(inGo, "Go-ns/event")
			b.ReportMetric(inC-inGo, "above-ns/event")
		})
	}
}
