package soak

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/engine/enginetest"
	"github.com/quark-linux/quark/fidelity/hunt"
)

func TestMain(m *testing.M) {
	hunt.Main()
	if os.Getenv("QUARK_SOAK_EXPORTER") != "" {
		fakeExporter()
	}
	os.Exit(m.Run())
}

// series makes samples of one figure.
func series(slack int64, values ...int64) (list []Sample) {
	for i, v := range values {
		list = append(list, Sample{After: time.Duration(i) * time.Minute, Figures: []Figure{{Name: "it", Value: v, Slack: slack}}})
	}
	return list
}

func TestGrown(t *testing.T) {
	const mib = 1 << 20
	hour := func(f func(i int64) int64) (values []int64) {
		for i := range int64(60) {
			values = append(values, f(i))
		}
		return values
	}
	for _, tt := range []struct {
		name    string
		samples []Sample
		want    string // "" for none
	}{
		{"the same", series(0, 5, 9, 7, 7, 7, 7, 7, 7), ""},
		{"filled while it warms up", series(0, 1, 5, 7, 7, 7, 7, 7, 7), ""},
		{"comes and goes", series(0, 7, 7, 7, 9, 7, 9, 8, 9), ""},
		{"fewer", series(0, 7, 7, 9, 9, 8, 8, 7, 7), ""},
		{"one more each time", series(0, 1, 2, 3, 4, 5, 6, 7, 8), "it: 4, then 7"},
		{"one more in all", series(0, 7, 7, 7, 7, 7, 8, 8, 8), "it: 7, then 8"},
		{"one an hour", series(0, hour(func(i int64) int64 { return 40 + i/35 })...), "it: 40, then 41"},
		{"memory within 5 %", series(mib, hour(func(i int64) int64 { return 100*mib + i*mib/15 })...), ""},
		{"memory by 7 %", series(mib, hour(func(i int64) int64 { return 100*mib + i*mib/4 })...), "% more"},
		{"little memory", series(mib, hour(func(i int64) int64 { return mib + i*1000 })...), ""},
		{"peaks of memory", series(mib, hour(func(i int64) int64 { return 50*mib + i%7/6*40*mib })...), ""},
	} {
		got, err := Grown(tt.samples)
		if err != nil || (tt.want == "") != (len(got) == 0) || !strings.Contains(strings.Join(got, "; "), tt.want) {
			t.Errorf("%s: %q, %v; want %q", tt.name, got, err, tt.want)
		}
	}
	if got, err := Grown(series(0, 1, 2, 3, 4, 5, 6, 7)); err == nil {
		t.Errorf("seven samples: %q, want an error", got)
	}
}

// TestGrownAmidOthers: memory is that of samples in which other processes had few events. If there
// is none at the begin, or at the end, nothing is said of memory; of the rest it is.
func TestGrownAmidOthers(t *testing.T) {
	const mib = 1 << 20
	// samples has memory as given, from the third on, of which some are busy.
	samples := func(busy string, values ...int64) []Sample {
		list := series(mib, append([]int64{0, 0}, values...)...)
		for i := range list {
			list[i].Busy = i >= 2 && busy[i-2] == 'b'
			list[i].Figures = append(list[i].Figures, Figure{Name: "descriptors", Value: int64(i)})
		}
		return list
	}
	for _, tt := range []struct {
		name    string
		samples []Sample
		want    string
		err     error
	}{
		{"a storm at the end", samples("...b.b", 100*mib, 100*mib, 100*mib, 400*mib, 100*mib, 400*mib), "", nil},
		{"a storm at the begin hides nothing", samples("b.....", 400*mib, 100*mib, 100*mib, 100*mib, 110*mib, 110*mib), "it: 100.00 MiB, then 110.00 MiB", nil},
		{"one calm sample is more", samples("....b.", 100*mib, 100*mib, 100*mib, 100*mib, 100*mib, 110*mib), "it: 100.00 MiB, then 110.00 MiB", nil},
		{"no calm at the end", samples("....bb", 100*mib, 100*mib, 100*mib, 100*mib, 100*mib, 110*mib), "", errBusy},
		{"no calm at the begin", samples("bb....", 100*mib, 100*mib, 100*mib, 100*mib, 100*mib, 110*mib), "", errBusy},
	} {
		got, err := Grown(tt.samples)
		all := strings.Join(got, "; ")
		if err != tt.err || !strings.Contains(all, "descriptors: 3, then 6") || !strings.Contains(all, tt.want) || tt.want == "" && len(got) > 1 {
			t.Errorf("%s: %q, %v; want %q, %v", tt.name, got, err, tt.want, tt.err)
		}
	}
}

// TestLeast: what comes and goes between the readings of a sample is in none of its figures.
func TestLeast(t *testing.T) {
	one := func(values ...int64) (list []Figure) {
		for _, v := range values {
			list = append(list, Figure{Name: "it", Value: v})
		}
		return list
	}
	got := least(least(nil, one(5, 7, 3)), one(6, 2, 3))
	if want := one(5, 2, 3); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestKept: a process whose EXIT does not come stays in the table and is found there; one that has
// ended in time is not.
func TestKept(t *testing.T) {
	m := enginetest.NewMachine()
	parent := m.Running("/bin/sh")
	parent.Fork().Exit(0)
	for _, name := range []string{"later", "again"} {
		m.Sleep(time.Minute)
		parent.SetComm(name)
	}
	q, err := quark.New(m, quark.Options{HoldTime: 10 * time.Millisecond, CacheGraceTime: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	var gone map[quark.Identity]bool
	for ev, err := range q.Events(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		if !ev.Events.Has(quark.EventExit) {
			continue
		}
		// On this machine nobody of that one is alive.
		if gone = ended(q); len(gone) != 3 || kept(q, gone) != 3 {
			t.Fatalf("%d processes have ended, %d of them are in the table; want all 3", len(gone), kept(q, gone))
		}
	}
	if n := kept(q, gone); n != 2 {
		t.Errorf("%d are kept after the grace time, want those without an EXIT, 2", n)
	}
}

// TestFigures: a descriptor, a mapping and memory more are seen.
func TestFigures(t *testing.T) {
	value := func(name string) int64 {
		list, err := ownFigures()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range list {
			if f.Name == name {
				return f.Value
			}
		}
		t.Fatalf("no %s in %v", name, list)
		return 0
	}
	// As many of ended processes as a source may have yet are none, and one more is one.
	was := value("descriptors")
	for i := range unread + 1 {
		if got := value("descriptors"); i > 0 && got != was {
			t.Fatalf("%d descriptors with %d of processes that have ended, %d without", got, i, was)
		}
		child := exec.Command("/bin/true")
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		fd, err := unix.PidfdOpen(child.Process.Pid, 0)
		if err != nil {
			t.Skipf("pidfd_open: %v", err)
		}
		defer unix.Close(fd)
		child.Wait()
	}
	if got := value("descriptors"); got != was+1 {
		t.Errorf("%d descriptors with %d of processes that have ended, %d without", got, unread+1, was)
	}
	fds, heap, memory := value("descriptors"), value("heap"), value("memory")
	f, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 8<<20)
	for i := range block {
		block[i] = 1
	}
	if got := value("descriptors"); got != fds+1 {
		t.Errorf("%d descriptors after one more than %d", got, fds)
	}
	if got := value("heap"); got < heap+7<<20 {
		t.Errorf("heap %d after 8 MiB more than %d", got, heap)
	}
	if got := value("memory"); got < memory+6<<20 {
		t.Errorf("memory %d after 8 MiB more than %d", got, memory)
	}
	fmt.Fprint(f, block[0]) // it is in use until here
}

// TestRun soaks for two minutes, with an exporter whose targets fail, while a descriptor, memory
// and a goroutine leak each time: all are named, and nothing is unexplained.
func TestRun(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	if os.Getenv("QUARK_SOAK") == "" {
		t.Skip("takes two minutes: make test-soak runs it")
	}
	var lost []*os.File
	var kept [][]byte
	stop := make(chan struct{})
	leak = func(*soak) {
		f, err := os.Open("/dev/null")
		if err != nil {
			t.Fatal(err)
		}
		lost, kept = append(lost, f), append(kept, make([]byte, 3<<20))
		go func() { <-stop }()
	}
	defer func() {
		leak = nil
		close(stop)
		for _, f := range lost {
			f.Close()
		}
	}()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("QUARK_SOAK_EXPORTER", "1")
	var lines strings.Builder
	r, err := Run(context.Background(), Options{For: 2 * time.Minute, Every: time.Millisecond, Batch: 3, Backends: backends.CNProc,
		Progress: &lines, Exporters: []Exporter{{"fake", self + " {url} {addr}"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s%v\ngrown %q", &lines, r, r.Grown)
	for _, want := range []string{"heap: ", "descriptors: ", "goroutines: "} {
		if !strings.Contains("\n"+strings.Join(r.Grown, "\n"), "\n"+want) {
			t.Errorf("no %q in %q", want, r.Grown)
		}
	}
	if len(r.Findings) > 0 || r.Opened == 0 || r.Lives == 0 || r.Good() {
		t.Errorf("%v, findings %q", r, r.Findings)
	}
	if n := strings.Count(lines.String(), "\n"); n != len(r.Samples) {
		t.Errorf("%d lines of %d samples", n, len(r.Samples))
	}
}

// fakeExporter serves its second argument, and posts to the first one, whatever becomes of it. With
// QUARK_SOAK_EXPORTER=die it ends.
func fakeExporter() {
	if os.Getenv("QUARK_SOAK_EXPORTER") == "die" {
		fmt.Fprintln(os.Stderr, "out of order")
		os.Exit(3)
	}
	url, addr := os.Args[1], os.Args[2]
	go func() {
		client := http.Client{Timeout: 300 * time.Millisecond}
		for {
			if r, err := client.Post(url, "text/plain", strings.NewReader("an event")); err == nil {
				r.Body.Close()
			}
			fmt.Println("a line")
			time.Sleep(20 * time.Millisecond)
		}
	}()
	http.ListenAndServe(addr, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "up 1") }))
	os.Exit(1)
}

// TestExporter: the target of an exporter fails in all ways while it runs, and works in between;
// one that ends is told with its last words.
func TestExporter(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("QUARK_SOAK_EXPORTER", "1")
	x, err := startExporter(Exporter{"fake", self + " {url} {addr}"})
	if err != nil {
		t.Fatal(err)
	}
	got := func() int64 { x.target.mu.Lock(); defer x.target.mu.Unlock(); return x.target.got }
	for begin := time.Now(); got() == 0 || x.check() != nil; time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > 20*time.Second {
			t.Fatalf("%d requests, %v", got(), x.check())
		}
	}
	for phase := refuses; phase < phases; phase++ {
		x.target.set(phase)
		was := got()
		time.Sleep(100 * time.Millisecond)
		if n := got(); n > was+1 { // one was on its way
			t.Errorf("phase %d: the target took %d requests", phase, n-was)
		}
	}
	stop := make(chan struct{})
	time.AfterFunc(50*time.Millisecond, func() { close(stop) })
	x.fail(stop)
	if err := x.check(); err != nil {
		t.Error(err)
	}
	if list, err := x.figures(); err != nil || len(list) == 0 || list[0].Name != "fake memory" || list[0].Value == 0 {
		t.Errorf("figures %v, %v", list, err)
	}
	if err := x.stop(); err != nil {
		t.Error(err)
	}

	t.Setenv("QUARK_SOAK_EXPORTER", "die")
	if x, err = startExporter(Exporter{"fake", self}); err != nil {
		t.Fatal(err)
	}
	<-x.ended
	if err := x.check(); err == nil || !strings.Contains(err.Error(), "exporter fake ended, exit status 3: out of order") {
		t.Errorf("an exporter that has ended: %v", err)
	}
	x.stop()
	if _, err := startExporter(Exporter{"fake", filepath.Join(t.TempDir(), "none")}); err == nil {
		t.Error("a program that is not there was started")
	}
}

func TestParseExporter(t *testing.T) {
	if e, err := ParseExporter("ecs=quark-mon --ecs --kind=x"); err != nil || e != (Exporter{"ecs", "quark-mon --ecs --kind=x"}) {
		t.Errorf("%v, %v", e, err)
	}
	for _, text := range []string{"", "ecs", "ecs=", "ecs=  ", "=quark-mon"} {
		if e, err := ParseExporter(text); err == nil {
			t.Errorf("%q: %v, want an error", text, e)
		}
	}
}

// TestNothingLeft: who can't open anything leaves no directory.
func TestNothingLeft(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	if r, err := Run(context.Background(), Options{Backends: backends.CNProc, Exporters: []Exporter{{"none", filepath.Join(dir, "none")}}}); err == nil {
		t.Errorf("%v, want an error", r)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 0 {
		t.Errorf("left: %v, %v", list, err)
	}
}
