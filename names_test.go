package quark

import (
	"maps"
	"math/big"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/retry"
)

// writeFile writes a file whose time is so many seconds after 1970.
func writeFile(t *testing.T, file, text string, seconds int64) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(file, time.Time{}, time.Unix(seconds, 0)); err != nil {
		t.Fatal(err)
	}
}

func TestNames(t *testing.T) {
	dir := t.TempDir()
	passwd, group := filepath.Join(dir, "passwd"), filepath.Join(dir, "group")
	const root = "root:x:0:0:root:/root:/bin/sh\n"
	writeFile(t, passwd, root+"daemon:x:1:1::/:\n", 1)
	writeFile(t, group, "adm:x:4:\nstaff:x:50:a,b", 1)
	n, p := newNames(passwd, group), new(Process)
	n.Ask = func(database, id string) string {
		if id == "4242" {
			return database + "-bob"
		}
		return ""
	}
	for range retry.For(10 * time.Second) {
		if n.User(p, 4242) == "passwd-bob" && n.Group(p, 4242) == "group-bob" {
			break
		}
	}
	if u, g := n.User(p, 4242), n.Group(p, 4242); u != "passwd-bob" || g != "group-bob" {
		t.Errorf("of a directory service: %q, %q", u, g)
	}
	if u, g, g2 := n.User(p, 1), n.Group(p, 4), n.Group(p, 50); u != "daemon" || g != "adm" || g2 != "staff" || n.User(p, 2) != "" || n.Group(p, 0) != "" {
		t.Errorf("%q %q %q", u, g, g2)
	}
	p.Known, p.Cgroup = SetOf(FieldCgroup), "/docker/"+strings.Repeat("0123456789abcdef", 4)
	if u, g := n.User(p, 1), n.Group(p, 4); u != "" || g != "" {
		t.Errorf("in a container uid 1 is %q, gid 4 %q", u, g)
	}

	p.Known, p.NS.User = SetOf(FieldCgroup, FieldUserNS), engine.InitialUserNamespace
	if u := n.User(p, 1); u != "" {
		t.Errorf("in a container with the host's users uid 1 is %q", u)
	}
	if p.NS.User = 4026532000; n.User(p, 1) != "daemon" {
		t.Errorf("in a container with a user namespace uid 1 is %q", n.User(p, 1))
	}

	// waitFor asks for the name of uid 1, of a file to be looked at again, until it is want.
	waitFor := func(want string) {
		t.Helper()
		for range retry.For(10 * time.Second) {
			n.users.next.Store(0)
			if n.User(nil, 1) == want {
				return
			}
		}
		t.Fatalf("uid 1 is %q, not %q", n.User(nil, 1), want)
	}
	for i, text := range []string{root, root + "bin:x:1:1::/:\n", "sys:x:1:1::/:\n"} {
		writeFile(t, passwd, text, int64(2+i))
		waitFor([]string{"", "bin", "sys"}[i])
	}
	// Of the same size and time, in place of the other.
	writeFile(t, passwd+"+", "man:x:1:1::/:\n", 4)
	if err := os.Rename(passwd+"+", passwd); err != nil {
		t.Fatal(err)
	}
	waitFor("man")
	if err := os.Remove(passwd); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		n.users.next.Store(0)
		waitFor("man")
	}
	if got := newNames(passwd, dir).User(nil, 1); got != "" {
		t.Errorf("without a file uid 1 is %q", got)
	}
}

// A file is looked at once a second at most, and not for each name.
func TestNamesAreCached(t *testing.T) {
	passwd := filepath.Join(t.TempDir(), "passwd")
	writeFile(t, passwd, "a:x:1:1::/:\n", 1)
	n := newNames(passwd, passwd)
	n.users.next.Store(time.Now().Add(time.Hour).UnixNano())
	writeFile(t, passwd, "b:x:1:1::/:\n", 2)
	if allocs := testing.AllocsPerRun(1000, func() { n.User(nil, 1) }); allocs != 0 || n.User(nil, 1) != "a" {
		t.Errorf("%g allocations, %q", allocs, n.User(nil, 1))
	}
}

// os/user reads the same files, where it does not ask the C library.
func TestNamesOfThisHost(t *testing.T) {
	text, err := os.ReadFile("/etc/passwd")
	if err != nil {
		t.Skip(err)
	}
	n := NewNames()
	for uid, name := range parseNames(text, 2) {
		u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
		if err != nil || u.Username != name || n.User(nil, uid) != name {
			t.Errorf("uid %d is %q, or %q, and not %v (%v)", uid, name, n.User(nil, uid), u, err)
		}
	}
}

// What glibc 2.36 makes of a line of /etc/passwd and of /etc/group: 0 where that is nothing.
func TestNamesAsOfGlibc(t *testing.T) {
	for _, c := range []struct {
		line          string
		passwd, group uint32
	}{
		{"n:x:7:8:g:d:s", 7, 7}, {"  n:x:7:7::/:", 7, 7}, {"\v\f\t\rn:x:7:7::/:\r", 7, 7}, {"n:x:+7:7::/:", 7, 7}, {"n:x: 7:+7::/:", 7, 7}, {"n:x:\r07:7::/:", 7, 7},
		{"\t#n:x:7:7::/:", 0, 0}, {" # n:x:7:7::/:", 0, 0}, {"#n:x:7:7::/:", 0, 0},
		{"+n:x:7:7::/:", 0, 0}, {" +n:x:7:7::/:", 0, 0}, {"-n:x:7:7::/:", 0, 0}, {"+", 0, 0},
		{"n:x:-1:7::/:", 0, 0}, {"n:x:0x1b:7::/:", 0, 0}, {"n:x:4294974305:7::/:", 0, 0}, {"n:x:7 :7::/:", 0, 0}, {"n:x:7x:7::/:", 0, 0}, {"n:x::7::/:", 0, 0},
		{"n:x:\xc2\xa07:7::/:", 0, 0}, {"n:x:++7:7::/:", 0, 0},
		{"n:x:7", 0, 7}, {"n:x:7:8", 7, 7}, {"n:x:7:", 0, 7}, {"n:x:7:q::/:", 0, 7}, {"n:x:7:-1::/:", 0, 7}, {"n:x:7:99999999999:g:d:s", 0, 7}, {"n:x", 0, 0}, {"n", 0, 0},
		{"n:x:7:8\x00::/:", 7, 7}, {"n:x:7\x00:8::/:", 0, 7}, {"n\x00:x:7:8::/:", 0, 0},
	} {
		for ids, id := range map[int]uint32{2: c.passwd, 1: c.group} {
			want := map[uint32]string{}
			if id != 0 {
				want[id] = "n"
			}
			if got := parseNames([]byte(c.line+"\n"), ids); !maps.Equal(got, want) {
				t.Errorf("%q with %d ids: %v, not %v", c.line, ids, got, want)
			}
		}
	}
}

// Another parser agrees, whatever is in the file.
func FuzzNames(f *testing.F) {
	for _, s := range []string{
		"root:x:0:0:root:/root:/bin/sh\n", "a:x:1:1::/:\nb:x:1:1::/:\n", "a:x:-1:1::/:", "a:x:4294967295:1::/:\n", "a:x:4294967294:1::/:\n",
		"a:x:4294967296:1::/:\n", "a:x:01:1::/:\r\n", "+::::::\n-a:x:1:1::/:\n#a:x:2:2::/:", ":x:0:0:::\n", "a:x:0\n:0::/:\n", "\xff\x1b[2J:x:7:7:\x00::\n",
		"a:x:7\nb:x:8:", strings.Repeat("a:x:9:1::/:\n", 3), "::::::", "a:x: 1:1::/:", "a:x:+1:1::/:", "a:x:1_0:1::/:", " \t#a:x:1:1::/:\n \v+a:x:2:2:", ":x:3:3\nb:x:3:3",
	} {
		f.Add(s)
	}
	const begin, id = `^[ \t\v\f\r]*([^#+:\- \t\v\f\r][^:]*|):[^:]*:`, `[ \t\v\f\r]*\+?([0-9]+)`
	rules := map[int]*regexp.Regexp{2: regexp.MustCompile(begin + id + ":" + id + "(?::|$)"), 1: regexp.MustCompile(begin + id + "(?::|$)")}
	f.Fuzz(func(t *testing.T, text string) {
		for ids, rule := range rules {
			want := make(map[uint32]string)
			lines := strings.Split(text, "\n")
			for _, line := range slices.Backward(lines) {
				line, _, _ = strings.Cut(line, "\x00")
				m := rule.FindStringSubmatch(line)
				if m == nil {
					continue
				}
				n, _ := new(big.Int).SetString(m[2], 10)
				last, _ := new(big.Int).SetString(m[len(m)-1], 10)
				if n.BitLen() <= 32 && last.BitLen() <= 32 && n.Uint64() < 1<<32-1 {
					want[uint32(n.Uint64())] = m[1]
				}
			}
			if got := parseNames([]byte(text), ids); !maps.Equal(got, want) {
				t.Fatalf("%v, not %v", got, want)
			}
		}
	})
}
