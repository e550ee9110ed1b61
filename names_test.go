package quark

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quark-linux/quark/engine"
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
		for begin := time.Now(); ; time.Sleep(time.Millisecond) {
			n.users.next.Store(0)
			if got := n.User(nil, 1); got == want {
				return
			} else if time.Since(begin) > 10*time.Second {
				t.Fatalf("uid 1 is %q, not %q", got, want)
			}
		}
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
	for uid, name := range parseNames(text, 6) {
		u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
		if err != nil || u.Username != name || n.User(nil, uid) != name {
			t.Errorf("uid %d is %q, or %q, and not %v (%v)", uid, name, n.User(nil, uid), u, err)
		}
	}
}

// Another parser agrees, whatever is in the file.
func FuzzNames(f *testing.F) {
	for _, s := range []string{
		"root:x:0:0:root:/root:/bin/sh\n", "a:x:1:1::/:\nb:x:1:1::/:\n", "a:x:-1:1::/:", "a:x:4294967295:1::/:\n", "a:x:4294967294:1::/:\n",
		"a:x:4294967296:1::/:\n", "a:x:01:1::/:\r\n", "+::::::\n-a:x:1:1::/:\n#a:x:2:2::/:", ":x:0:0:::\n", "a:x:0\n:0::/:\n", "\xff\x1b[2J:x:7:7:\x00::\n",
		"a:x:7\nb:x:8:", strings.Repeat("a:x:9:1::/:\n", 3), "::::::", "a:x: 1:1::/:", "a:x:+1:1::/:", "a:x:1_0:1::/:",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, colons := range []int{3, 6} {
			got := parseNames([]byte(text), colons)
			want := make(map[uint32]string)
			lines := strings.Split(text, "\n")
			for i := len(lines) - 1; i >= 0; i-- {
				fields := strings.Split(lines[i], ":")
				if len(fields) <= colons || fields[0] == "" || strings.ContainsRune("#+-", rune(fields[0][0])) {
					continue
				}
				digits := strings.Trim(fields[2], "0123456789") == ""
				if id, err := strconv.ParseInt(fields[2], 10, 64); digits && err == nil && id < 1<<32-1 {
					want[uint32(id)] = fields[0]
				}
			}
			if len(got) != len(want) {
				t.Fatalf("%v, not %v", got, want)
			}
			for id, name := range want {
				if got[id] != name {
					t.Fatalf("%d is %q, not %q", id, got[id], name)
				}
			}
		}
	})
}
