package filter

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/quark-linux/quark/engine"
)

func TestErrors(t *testing.T) {
	deep := strings.Repeat("(", 300) + "exec"
	for _, c := range []struct{ source, want string }{
		{"", "line 1, column 1: a kind of event or a field is expected, not the end"},
		{"exec and", "line 1, column 9: a kind of event or a field is expected, not the end"},
		{"exec\n  and foo == 1", `line 2, column 7: "foo" is no kind of event and no field: choose from args, birth_parent_tid, cached, cgroup`},
		{"exec exit", `line 1, column 6: and, or or the end is expected, not "exit"`},
		{"exec & exit", `line 1, column 6: "&": write "and"`},
		{"exec && && exit", `line 1, column 9: a kind of event or a field is expected, not "and"`},
		{"uid", "line 1, column 4: after uid one of == != < <= > >= is expected, not the end"},
		{"comm < 5", `line 1, column 6: after comm one of == != ~ !~ is expected, not "<"`},
		{"user == root", `line 1, column 1: "user" is no field: write uid, which takes names too`},
		{"uid == no-such-user", `line 1, column 8: /etc/passwd has no "no-such-user": give the id, which getent passwd prints if a directory`},
		{"uid == 4294967296", "line 1, column 8: a number from 0 to 4294967295"},
		{"uid == +1", "line 1, column 8: a number from 0"},
		{`uid == "0"`, "line 1, column 8: uid has a number, which stands without quotes"},
		{"uid < 0", "line 1, column 7: nothing is below 0"},
		{"pid < 1", "line 1, column 7: nothing is below 1"},
		{"exit_code > 255", "line 1, column 13: nothing is above 255"},
		{"comm == a-very-long-program-name", `line 1, column 9: comm has at most 15 bytes, and "a-very-long-program-name" more`},
		{"comm !~ (x, '*a-very-long-pro[g]?*')", "line 1, column 13: comm has at most 15 bytes, and \"*a-very-long-pro[g]?*\" more"},
		{"exe == bin/true", `line 1, column 8: exe begins with a slash: put / or **/ before "bin/true"`},
		{"cgroup ~ system.slice/**", `line 1, column 10: cgroup begins with a slash: put / or **/ before "system.slice/**"`},
		{"uid < (1, 2)", "line 1, column 7: only == and != take several values"},
		{"uid == (1, 2", "line 1, column 13: a comma or ) is expected, not the end"},
		{"uid == ()", `line 1, column 9: a value is expected, not ")"`},
		{"comm == and", `line 1, column 9: a value is expected, not "and"`},
		{`é == 1 or comm == "x`, `line 1, column 1: "é" is no kind`},
		{`comm == "é" and comm == "x`, "line 1, column 25: the quote is not closed in its line"},
		{`comm == "a\q"`, `line 1, column 11: there is no such escape`},
		{`comm == "a\x00"`, `line 1, column 11: there is no such escape`},
		{"comm == a\\b", `line 1, column 10: '\\' is not expected: put quotes around a text`},
		{"comm ~ a***", "line 1, column 8: the pattern has more than two * in a row"},
		{"comm ~ 'a[b'", "line 1, column 8: the pattern has [ without ]"},
		{"comm ~ '[b-a]'", "line 1, column 8: the pattern has a range in [] whose end is before"},
		{`comm ~ 'a\'`, `line 1, column 8: the pattern has a \ at the end`},
		{"(exec", "line 1, column 1: this ( is not closed"},
		{"(exec exit)", `line 1, column 7: and, or or ) is expected, not "exit"`},
		{"exec)", `line 1, column 5: and, or or the end is expected, not ")"`},
		{"known tree", `line 1, column 7: a field of a process is expected, not "tree"`},
		{"known pid", `line 1, column 7: a field of a process is expected, not "pid"`},
		{"tree == 0", "line 1, column 9: a number from 1"},
		{"pid != (1, 0)", `line 1, column 12: a number from 1 to 4194303 is expected, not "0"`},
		{"tree < 5", `line 1, column 6: after tree one of == != is expected, not "<"`},
		{"entry_leader_type == nobody", `line 1, column 22: "nobody" is none of unknown, init, kthread, sshd`},
		{"duration > 5", `line 1, column 12: a time such as 1.5s, 200ms or 1h is expected, not "5"`},
		{"peak_rss > 1MB", `line 1, column 12: a number of bytes such as 4096, 10K, 2M or 1G is expected, not "1MB"`},
		{"rchar > 18446744073709551615K", `line 1, column 9: a number of bytes such as`},
		{"tty == 136", `line 1, column 8: a device such as 8:1 is expected, not "136"`},
		{"exe_inode > 18446744073709551615", `line 1, column 13: nothing is above 18446744073709551615`},
		{"exec and\n privileges == root", `line 2, column 16: "root" is none of set_uid, set_gid, file_caps, none`},
		{"exe_flags ~ set_uid", `line 1, column 11: after exe_flags one of == != is expected, not "~"`},
		{"exec_failed_errno == EFOO", `line 1, column 22: a number from 1 to 4095 is expected, not "EFOO"`},
		{"environ. == x", `line 1, column 1: "environ." is no kind of event and no field`},
		{"environ.A < x", `line 1, column 11: after environ.A one of == != ~ !~ is expected, not "<"`},
		{"exit_signal == SIGFOO", `line 1, column 16: a number from 0 to 64 is expected, not "SIGFOO"`},
		{"exec_failed_errno == 0", "line 1, column 22: a number from 1 to 4095"},
		{"pid == 99999999", "line 1, column 8: a number from 1 to 4194303"},
		{"entry_leader > 4194303", "line 1, column 16: nothing is above 4194303"},
		{"tree == 4194304", "line 1, column 9: a number from 1 to 4194303"},
		{"tty == 4096:0", "line 1, column 8: a device such as 8:1"},
		{"entity_id == abc", `line 1, column 14: entity_id has 32 hexadecimal digits, and "abc" is not these`},
		{"entity_id ~ *" + strings.Repeat("a", 33), "line 1, column 13: entity_id has 32 hexadecimal digits"},
		{"container_runtime == dockr", `line 1, column 22: "dockr" is none of docker, containerd`},
		{"container_runtime ~ dockr*", `line 1, column 21: "dockr*" is none of`},
		{"exe == /usr//bin/true", `line 1, column 8: exe has no empty name, . or .. in it: write "/usr/bin/true"`},
		{"exe ~ /usr/../*/true", `line 1, column 7: exe has no empty name, . or .. in it: write "/*/true"`},
		{"exe == ..", "line 1, column 8: exe has no empty name"},
		{`cwd == "/tmp/"`, `line 1, column 8: cwd has no empty name, . or .. in it: write "/tmp"`},
		{"cwd ~ **/./tmp", `line 1, column 7: cwd has no empty name`},
		{"cgroup == /system.slice/", `line 1, column 11: cgroup has no empty name, . or .. in it: write "/system.slice"`},
		{"exec\x00", `line 1, column 5: '\x00' is not expected`},
		{"comm == \xff\x01", `line 1, column 10: '\x01' is not expected`},
		{deep, "line 1, column 201: more than 200 parentheses and nots in each other"},
		{"comm == " + strings.Repeat("x", 5000), "line 1, column 9: longer than 4096 bytes"},
		{strings.Repeat(" ", 2<<20), "line 1, column 1: longer than 1048576 bytes"},
	} {
		_, err := Parse(c.source)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%.60q: got error %v, want %s", c.source, err, c.want)
		}
	}
}

// These expressions are correct.
func TestGoodExpressions(t *testing.T) {
	for _, source := range []string{
		`exec and uid != 0 and exe ~ "/tmp/**"`, "not not exec", "failed # those\n or thread", "exit_signal == (SIGKILL, TERM, 6)", "exit_signal == (SIGRTMIN, RTMIN+1, SIGRTMAX-2, SIG35, SIGRTMAX)", "no_new_privs == 1 and seccomp < 3 and pid_ns != 1",
		"pid <= 4194304 and pid < 4194304 and pid > 0 and pid >= 0", "exit_code <= 256", "pid_ns > 0 and uid <= 4294967296", "seccomp == 3 and parent_signal == 255",
		"login_uid != unset", "uid == root and gid != (root, 5) and login_uid == root and exe_gid == root", "container_id == '' and container_pod != x", "entry_leader_type == (container, sshd)", "duration >= 1h2m and exit_code > 127",
		"tree == (1, 4711) or tree != 4194303", "comm == \"\" or exec", "core_dump or gone or setproctitle",
		"cpu_time > 1.5s or write_bytes >= 10M or peak_rss < 4096", "exec_failed_errno == (ENOENT, 13) and exec_failed_path ~ '/opt/**'",
		"exe_flags == (set_uid, removed) and exe_dev != 8:1 and exe_inode == 18446744073709551615 and tty == 0:0", "privileges != none",
		"environ.LD_PRELOAD ~ '*' or environ.A=='' or cached environ.A", "entity_id ~ 'ab*' and ns_pid == 1", "cwd == / or cwd ~ **/ or cgroup == /../x or container_runtime == ('', docker)",
		"comm ~ [a-z]*-?", "comm == a-name-of-15-by || !(uid = 0) && !exit", "exe == bash and exe ~ (ba*, '**h', /bin/*) and exec_path == ./x",
		"comm ~ a-name*-of-15-by*", "EXEC and not Exit", "known exit_code and not cached cgroup", "container_runtime == docker and uts_ns != 4026531838",
	} {
		if _, err := Parse(source); err != nil {
			t.Errorf("%s: got error %v", source, err)
		}
	}
}

// Check refuses terms that are never true for the reported kinds, except after "not" and in drop
// rules.
func TestCheck(t *testing.T) {
	const few = engine.EventFork | engine.EventExec
	for _, c := range []struct {
		source, want string
		kinds        engine.Events
		threads      bool
	}{
		{source: "exec or not exit and not failed", kinds: few},
		{source: "exec or exec_failed_errno == 2", kinds: few, want: "exec_failed_errno is never true: EXEC_FAILED is not reported"},
		{source: "exec_failed_path !~ x", kinds: few, want: "exec_failed_path is never true: EXEC_FAILED"},
		{source: "not (uid == 0 or not exit)", kinds: few, want: "exit is never true: EXIT"},
		{source: "exit_code != 3", kinds: few, want: "exit_code is never true: EXIT"},
		{source: "failed", kinds: few, want: "failed is never true: EXIT"},
		{source: "failed", kinds: engine.EventExecFailed},
		{source: "not failed", kinds: engine.EventExecFailed, want: "not failed is never true for one event"},
		{source: "not exec", kinds: engine.EventExec, threads: true, want: "not exec is never true for one event"},
		{source: "gone or peak_rss > 1M", kinds: engine.EventExit},
		{source: "thread", kinds: few, want: "thread is never true: the events of threads are not reported"},
		{source: "thread", kinds: few, threads: true},
		{source: "tree != 5", kinds: engine.EventExec, want: "tree is never decided: FORK"},
		{source: "pass if exec\ndrop if exec_failed or thread", kinds: few},
		{source: "drop if tree == 5\n", kinds: engine.EventExec, want: "tree is never decided: FORK"},
		{source: "drop if not exec_failed\n", kinds: few},
		{source: "pass if exec_failed\ndrop on any", kinds: few, want: "exec_failed is never"},
	} {
		parse := Parse
		if strings.Contains(c.source, "if ") {
			parse = ParseRules
		}
		f, err := parse(c.source)
		if err != nil {
			t.Fatal(err)
		}
		if err := And(nil, f).Check(Reported{Kinds: c.kinds, Threads: c.threads}); (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want %q", c.source, err, c.want)
		}
	}
}

// Check refuses terms that no single event makes true, because of its kinds or its wait status.
func TestContradictions(t *testing.T) {
	all := Reported{Kinds: ^engine.Events(0), Threads: true}
	minimal, nonzero := all, all
	minimal.MinAgg, nonzero.Nonzero = true, true
	for _, c := range []struct {
		source, want string
		of           Reported
	}{
		{"exit_code == 0", "exit_code is never true: ends with status 0 are not reported", nonzero},
		{"exit_code < 1 or exec", "exit_code is never true: ends", nonzero},
		{"exit_code < 2", "", nonzero},
		{"not (exit or not exit)", "not exit and exit is never", nonzero},
		{"exit and not failed", "exit and not failed is never true for one event", nonzero},
		{"exec and not failed", "", nonzero},
		{"exit and not exit_code > 0", "", nonzero},
		{"core_dump and exit_code == 1", "core_dump and exit_code is never", all},
		{"core_dump and exit_signal == 0", "core_dump and exit_signal is never", all},
		{"core_dump and not exit", "", all},
		{"core_dump and exit and not failed", "core_dump and exit and not failed is never", all},
		{"core_dump and not failed", "", all},
		{"exec_failed and not failed", "exec_failed and not failed is never", all},
		{"failed and not failed", "failed and not failed is never", all},
		{"not failed and exit_code == 5", "not failed and exit_code is", all},
		{"not failed and exit_signal == 0 and exit_code == 0", "", all},
		{"failed and exit_signal == 0", "", all},
		{"exit and not exit_code >= 0 and not exit_signal > 0", "exit and not exit_code and not exit_signal is", all},
		{"exec and not exit_signal >= 0", "", all},
		{"exit and exit_signal == 0 and not exit_code > 0", "exit and exit_signal and not exit_code is", nonzero},
		{"not failed and not exit_code == 5 and uid == 0", "", all},
		{"fork and exit_code == 1", "", all},
		{"fork and exit_code == 1", "fork and exit_code is never true for one event", minimal},
		{"fork and (exec or exit)", "fork and exec and exit is never", minimal},
		{"(fork or exec) and (exec or exit)", "", minimal},
		{"fork and setproctitle", "", minimal},
		{"exec and gone", "exec and gone is never", all},
		{"failed and gone", "", all},
		{"failed and exit_code == 0", "failed and exit_code is", all},
		{"fork and not fork", "fork and not fork is", all},
		{"fork and not (fork and exec)", "", all},
		{"not (exec or not exec)", "not exec and exec is", all},
		{"thread and not thread", "thread and not thread is", all},
		{"thread and exec", "thread and exec is", all},
		{"core_dump and thread", "core_dump and thread is", all},
		{"thread and fork and exit", "thread and fork and exit is", all},
		{"thread and (id_change or ptrace) or not thread and gone", "", all},
		{"thread and exit_code == 3", "", all},
		{"not exit_code == 3 and exit_code == 3 or exec", "not exit_code and exit_code is", all},
		{"exit_code == 137 and exit_signal == 9", "exit_code and exit_signal is", all},
		{"exit_signal > 0 and exit_code != 0", "exit_signal and exit_code is", all},
		{"exit and known exe and not cached exe and tree == 1 and duration > 5s", "", all},
		{"tag == a or not tag == b", "", all},
		{"exec_failed_errno == 2 and exec_failed_path ~ /a*", "", all},
		{"exe_uid == 0 or exe_flags == set_uid and args == a", "", all},
	} {
		f, err := Parse(c.source)
		if err != nil {
			t.Errorf("%s: got error %v", c.source, err)
		} else if err := f.Check(c.of); (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want %q", c.source, err, c.want)
		}
	}
	a, _ := Parse("failed")
	b, _ := Compare("exit_code", "==", "0")
	if And(a, b).Check(all) == nil {
		t.Error("Check accepted two filters that contradict each other")
	}
	deep, err := Parse(strings.Repeat("(uid == 1 and exec or not (", 60) + "exit" + strings.Repeat("))", 60))
	if err != nil || deep.Check(all) != nil {
		t.Error("deep expression:", err, deep.Check(all))
	}
}

// matcher returns the matcher of a filter, with an empty clock.
func matcher(t testing.TB, f *Filter, err error) *Matcher {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	m, err := f.Matcher(new(engine.Clock))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Compare takes values literally: quotes and operators in them have no effect.
func TestCompare(t *testing.T) {
	ev := &engine.Event{Process: &engine.Process{Comm: `a" or 'b) `}}
	ev.Process.Known = engine.FieldComm.Set()
	f, err := Compare("comm", "==", "x", ev.Process.Comm)
	if v := matcher(t, f, err).Judge(ev); v != engine.VerdictPass {
		t.Errorf("an exact name: got verdict %v", v)
	}
	f, err = Compare("comm", "~", "b*", "*'b*")
	if v := matcher(t, f, err).Judge(ev); v != engine.VerdictPass {
		t.Errorf("a pattern: got verdict %v", v)
	}
	for _, wrong := range [][]string{{"uid", "==", ""}, {"uid", "==", "-3"}, {"uid", "==", "1 or exec"}, {"comm", "~", "["}, {"foo", "==", "1"}, {"uid", "~", "1"}, {"uid", "=="}} {
		if _, err := Compare(wrong[0], wrong[1], wrong[2:]...); err == nil {
			t.Errorf("%q: got no error", wrong)
		}
	}
}

// An event passes And only if all its filters pass it. The marks of all filters fit into one
// process.
func TestAnd(t *testing.T) {
	if And(nil, nil) != nil {
		t.Error("And(nil, nil): got a filter, want nil")
	}
	a, errA := Parse("tree == (5, 6)")
	b, errB := ParseRules("pass if tree == 6\ndrop on process.pid 8")
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	m := matcher(t, And(a, nil, b), nil)
	for pid, want := range map[uint32]engine.Verdict{5: engine.VerdictPass, 6: engine.VerdictPass, 7: engine.VerdictDrop, 8: engine.VerdictDrop} {
		if got := m.Judge(&engine.Event{Process: &engine.Process{PID: pid}}); got != want {
			t.Errorf("pid %d: got verdict %v, want %v", pid, got, want)
		}
	}
	var many []*Filter
	for n := range 33 {
		f, err := Compare("tree", "==", fmt.Sprint(n+1))
		if err != nil {
			t.Fatal(err)
		}
		many = append(many, f)
	}
	if _, err := And(many...).Matcher(new(engine.Clock)); err == nil {
		t.Error("33 trees: got no error")
	}
	matcher(t, And(many[:32]...), nil)
}

// The manual describes all words.
func TestWordsAreDocumented(t *testing.T) {
	b, err := os.ReadFile("../../docs/quark.7")
	if err != nil {
		t.Fatal(err)
	}
	has := regexp.MustCompile(`\w+(\.\w+)*`).FindAllString(string(b), -1)
	for _, word := range words() {
		if !slices.Contains(has, word) {
			t.Errorf("quark(7) does not have %s", word)
		}
	}
}

func TestMatcherDoesNotAllocate(t *testing.T) {
	f, err := Parse(`exec and uid != 0 and (exe ~ ("/tmp/**", "/**/*x[a-z]?") or args ~ "*secret*" or container_id ~ "ab*" or
		duration > 1s or tree == 7 or entry_leader_type == init or not known cwd and not failed or
		entity_id ~ "a*" or environ.A ~ "*x" or privileges == set_uid or exec_failed_errno == ENOENT or peak_rss > 1M or exe_dev == 8:1)`)
	rules, err2 := ParseRules("pass if tree == 3 and exit\ndrop on process.uid 77")
	if err2 != nil {
		t.Fatal(err2)
	}
	m := matcher(t, And(f, rules), err)
	m.clock.Host = testHost
	r := events{rand.New(rand.NewPCG(3, 3))}
	var list []*engine.Event
	for range 100 {
		ev := r.event()
		ev.Process.Cgroup = pick(r, "/", "/docker/"+strings.Repeat("ab", 32), "/user.slice/a.scope")
		list = append(list, ev)
	}
	if n := testing.AllocsPerRun(10, func() {
		for _, ev := range list {
			m.Judge(ev)
		}
	}); n != 0 {
		t.Errorf("got %v allocations for %d events, want 0", n, len(list))
	}
}

// checkError checks that an error is an *Error whose position is in the source.
func checkError(t *testing.T, source string, err error) {
	t.Helper()
	e := new(Error)
	if !errors.As(err, &e) {
		t.Fatalf("%q: %v is not an *Error", source, err)
	}
	lines := strings.Split(source, "\n")
	if e.Line < 1 || e.Line > len(lines) || e.Column < 1 || e.Column > utf8.RuneCountInString(lines[e.Line-1])+1 {
		t.Fatalf("%q: %v has a position outside of the source", source, err)
	}
	if e.Msg == "" || !utf8.ValidString(e.Msg) {
		t.Fatalf("%q: invalid message %q", source, e.Msg)
	}
}

// judgeEvents checks a filter's results for some events.
func judgeEvents(t *testing.T, f *Filter) {
	m, err := f.Matcher(new(engine.Clock))
	if err != nil {
		return // too many trees
	}
	r := events{rand.New(rand.NewPCG(9, 9))}
	for range 10 {
		ev := r.event()
		if v := m.Judge(ev); v > engine.VerdictDrop {
			t.Fatalf("got verdict %d", v)
		}
		if ev.Process.Marks.Set&ev.Process.Marks.Maybe != 0 {
			t.Fatalf("got marks %+v that are both set and maybe", ev.Process.Marks)
		}
	}
}

func FuzzParse(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(events{rand.New(rand.NewPCG(seed, 4))}.expression(3).text)
	}
	f.Add(`exec and uid != 0 and exe ~ "/tmp/**"`)
	f.Add("environ.A ~ x or peak_rss > 1G or privileges != (set_uid, none) or exe_dev == 8:1 and exec_failed_errno == ENOENT")
	f.Add("comm ~ [a-z\\")
	f.Add("exit_signal == (SIGKILL, 9) or tree == 1 # x\n and known\xff")
	f.Fuzz(func(t *testing.T, source string) {
		filter, err := Parse(source)
		if err != nil {
			checkError(t, source, err)
			return
		}
		judgeEvents(t, filter)
	})
}

func FuzzParseRules(f *testing.F) {
	for _, source := range goodRules {
		f.Add(source)
	}
	for _, c := range badRules {
		f.Add(c.source)
	}
	f.Fuzz(func(t *testing.T, source string) {
		filter, err := ParseRules(source)
		if err != nil {
			checkError(t, source, err)
			return
		}
		judgeEvents(t, filter)
	})
}
