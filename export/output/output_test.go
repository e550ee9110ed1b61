package output

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine/enginetest"
)

// quick are options with pauses that a test has time for.
func quick() Options {
	return Options{RetryMin: 5 * time.Millisecond, RetryMax: 20 * time.Millisecond, Grace: 2 * time.Second,
		Gap: func(n uint64, _, _ time.Time) []byte { return fmt.Appendf(nil, "dropped %d\n", n) }}
}

func open(t *testing.T, target string, o Options) *Output {
	t.Helper()
	out, err := Open(target, o)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// closed closes an output and checks that each of n lines is somewhere.
func closed(t *testing.T, out *Output, n uint64) map[string]uint64 {
	t.Helper()
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	c := out.Counts()
	if c.Taken != n || c.Taken != c.Delivered+c.Lost() || c.Queued != 0 {
		t.Fatalf("of %d lines: %+v", n, c)
	}
	return c.Dropped
}

// lines returns those of a file and, before them, of those that were renamed.
func lines(t *testing.T, name string) (all []string, files int) {
	t.Helper()
	names, err := filepath.Glob(name + ".*")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	for _, name := range append(names, name) {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) > 0 && b[len(b)-1] != '\n' {
			t.Errorf("%s ends in half a line: %q", name, b[max(0, len(b)-50):])
		}
		all = append(all, strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")...)
	}
	return all, len(names) + 1
}

// put writes numbered lines, one every few microseconds, so that some make a batch.
func put(out *Output, from, to int) {
	for i := from; i < to; i++ {
		if out.Put(nil, fmt.Appendf(nil, "line %06d\n", i)); i%50 == 0 {
			time.Sleep(10 * time.Millisecond)
		}
	}
}

func numbered(from, to int) (all []string) {
	for i := from; i < to; i++ {
		all = append(all, fmt.Sprintf("line %06d", i))
	}
	return all
}

// No file is larger than it may be, no line is missing or in two parts, and a second run goes on
// where the first ended. A line that is longer than a file may be has one of its own.
func TestRotateBySize(t *testing.T) {
	name := filepath.Join(t.TempDir(), "events")
	o := quick()
	o.RotateSize = 6000
	long := strings.Repeat("x", 7000)
	for run := range 2 {
		out := open(t, name, o)
		put(out, 1000*run, 1000*run+1000)
		out.Put(nil, []byte(long+"\n"))
		closed(t, out, 1001)
	}
	got, files := lines(t, name)
	want := slices.Concat(numbered(0, 1000), []string{long}, numbered(1000, 2000), []string{long})
	if !slices.Equal(got, want) || files != 2*(1000*12/6000+1) {
		t.Errorf("%d lines in %d files", len(got), files)
	}
	all, _ := filepath.Glob(name + "*")
	for _, f := range all {
		st, err := os.Stat(f)
		if err != nil || st.Size() > o.RotateSize && st.Size() != int64(len(long)+1) || st.Mode().Perm() != 0o600 && runtime.GOOS != "windows" {
			t.Errorf("%s: %v, %v", f, st, err)
		}
	}
}

// What others do to a file is seen: one that they cut has room again, and a line whose writer was
// killed in its middle leaves the next one as it is.
func TestChangedByOthers(t *testing.T) {
	name := filepath.Join(t.TempDir(), "events")
	if err := os.WriteFile(name, []byte("line 000000\nli"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := quick()
	o.RotateSize = 12 * 100
	out := open(t, name, o)
	put(out, 1, 90)
	for out.Counts().Queued > 0 {
		time.Sleep(time.Millisecond)
	}
	got, _ := lines(t, name)
	if !slices.Equal(got, slices.Concat([]string{"line 000000", "li"}, numbered(1, 90))) {
		t.Errorf("got %q", got)
	}
	if err := os.Truncate(name, 0); err != nil {
		t.Skip(err) // Windows, while a file is open
	}
	put(out, 90, 180)
	closed(t, out, 179)
	if got, files := lines(t, name); !slices.Equal(got, numbered(90, 180)) || files != 1 {
		t.Errorf("%d lines in %d files: %q", len(got), files, got)
	}
}

// Of a link it is the file that is renamed: the link stays, as /dev/stdout has to.
func TestRotateLinked(t *testing.T) {
	dir := t.TempDir()
	link, name := filepath.Join(dir, "link"), filepath.Join(dir, "events")
	if err := os.Symlink("events", link); err != nil {
		t.Skip(err) // Windows, to who may not
	}
	o := quick()
	o.RotateSize, o.Keep = 1200, 2
	out := open(t, link, o)
	put(out, 0, 1000)
	closed(t, out, 1000)
	got, files := lines(t, name)
	if to, err := os.Readlink(link); err != nil || to != "events" || files != 3 || !slices.Equal(got, numbered(700, 1000)) {
		t.Errorf("%q, %v: %d lines in %d files", to, err, len(got), files)
	}
}

// By time, with the oldest files removed; others' files with alike names stay.
func TestRotateByTime(t *testing.T) {
	name := filepath.Join(t.TempDir(), "events")
	for _, other := range []string{name + ".old", name + ".1"} {
		if err := os.WriteFile(other, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := quick()
	o.RotateEvery, o.Keep = 300*time.Millisecond, 2
	out := open(t, name, o)
	for i := range 12 {
		out.Put(nil, fmt.Appendf(nil, "line %06d\n", i))
		time.Sleep(300 * time.Millisecond)
	}
	closed(t, out, 12)
	all, _ := filepath.Glob(name + ".2*Z")
	got, _ := os.ReadFile(name)
	if others, _ := filepath.Glob(name + ".*"); len(all) != 2 || len(others) != 4 || !bytes.HasSuffix(got, []byte("line 000011\n")) {
		t.Errorf("there are %v beside %q", others, got)
	}
}

// A file that others rename, as logrotate(8) does, is begun anew.
func TestRenamedByOthers(t *testing.T) {
	name := filepath.Join(t.TempDir(), "events")
	out := open(t, name, quick())
	put(out, 0, 100)
	for out.Counts().Queued > 0 {
		time.Sleep(time.Millisecond)
	}
	if err := os.Rename(name, name+".1"); err != nil {
		t.Fatal(err)
	}
	put(out, 100, 200)
	closed(t, out, 200)
	if got, files := lines(t, name); !slices.Equal(got, numbered(0, 200)) || files != 2 {
		t.Errorf("%d lines in %d files", len(got), files)
	}
}

// What was open to others is not any more, and what is no file is refused.
func TestOwner(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "events")
	if err := os.WriteFile(name, []byte("line 000000\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	out := open(t, name, quick())
	put(out, 1, 2)
	closed(t, out, 1)
	if st, err := os.Stat(name); err != nil || st.Mode().Perm() != 0o600 && runtime.GOOS != "windows" {
		t.Errorf("%v, %v", st, err)
	}
	if got, _ := lines(t, name); !slices.Equal(got, numbered(0, 2)) {
		t.Errorf("got %q", got)
	}
	for _, target := range []string{os.DevNull, dir, filepath.Join(dir, "no", "dir"), "syslog+unix:" + filepath.Join(dir, "none"), "syslog+x:y", "syslog+udp://nowhere",
		"syslog+tcp://[::1]:99999", "syslog+udp://localhost:-1", "syslog+tcp://localhost:0", "syslog+tcp://localhost:nothing", "syslog+tcp://localhost:"} {
		if _, err := Open(target, quick()); err == nil {
			t.Errorf("%s is opened", target)
		}
	}
}

// A directory that takes no new file after a rename is tried again, and nothing waits for that.
func TestUnwritableLater(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "events")
	o := quick()
	reports := make(chan error, 10)
	o.Report = func(err error) { reports <- err }
	out := open(t, name, o)
	put(out, 0, 10)
	for out.Counts().Queued > 0 {
		time.Sleep(time.Millisecond)
	}
	if err := os.Rename(dir, dir+"-away"); err != nil {
		t.Skip(err) // Windows, while a file is open
	}
	put(out, 10, 20)
	if err := <-reports; !errors.Is(err, os.ErrNotExist) {
		t.Errorf("reported %v", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := <-reports; err != nil {
		t.Errorf("reported %v", err)
	}
	closed(t, out, 20)
	if got, _ := lines(t, name); !slices.Equal(got, numbered(10, 20)) {
		t.Errorf("got %q", got)
	}
}

// A journal's entry and a message of RFC 5424 for what happens to a process.
func TestForms(t *testing.T) {
	m := enginetest.NewMachine()
	p := m.Running("/bin/sh")
	m.Sleep(time.Second)
	m.Miss(quark.LossRingFull, 3)
	p.Fork().SetComm("two\nlines").Exit(1)
	q, err := quark.New(m, quark.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	s := &syslog{host: token("my host", 255), header: token("", 48) + " 7"}
	var got []string
	for ev, err := range q.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		e := entryOf(ev, []byte("{\"a\": 1}\n"))
		got = append(got, string(s.append(nil, &e)), string(appendJournal(nil, "quark-mon", &e)))
	}
	for i, want := range []string{
		`^<28>1 \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z my_host - 7 GAP - \{"a": 1\}$`,
		"^MESSAGE=events were lost: ring_full\nPRIORITY=4\nSYSLOG_IDENTIFIER=quark-mon\nSYSLOG_FACILITY=3\nQUARK_TIME=\\S+Z\nQUARK_EVENTS=GAP\nQUARK_DOCUMENT=\\{\"a\": 1\\}\n$",
		`^<30>1 \S+ my_host - 7 FORK\+EXIT\+SETPROCTITLE - \{"a": 1\}$`,
		"^MESSAGE=FORK\\+EXIT\\+SETPROCTITLE two\ufffdlines\\[3\\]\nPRIORITY=6\n(.*\n){4}QUARK_PID=3\nQUARK_DOCUMENT=\\{\"a\": 1\\}\n$",
	} {
		if i >= len(got) || !regexp.MustCompile(want).MatchString(got[i]) {
			t.Errorf("want %s, got %q", want, got)
		}
	}
	if b := string(appendField(nil, "A", []byte("x\ny"))); b != "A\n\x03\x00\x00\x00\x00\x00\x00\x00x\ny\n" {
		t.Errorf("got %q", b)
	}
}

func BenchmarkPut(b *testing.B) {
	out, err := Open(filepath.Join(b.TempDir(), "events"), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer out.Close()
	line := bytes.Repeat([]byte("x"), 1000)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%1000 == 0 { // what finds no room is quick
			b.StopTimer()
			for out.Counts().Queued > 1000 {
				time.Sleep(time.Millisecond)
			}
			b.StartTimer()
		}
		out.Put(nil, line)
	}
}
