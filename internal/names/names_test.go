package names

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/retry"
)

func TestNames(t *testing.T) {
	dir := t.TempDir()
	passwd, group := filepath.Join(dir, "passwd"), filepath.Join(dir, "group")
	writeFile(t, passwd, "root:x:0:0:root:/root:/bin/sh\ndaemon:x:1:1::/:\n", 1)
	writeFile(t, group, "adm:x:4:\nstaff:x:50:a,b", 1)
	n, p := open(passwd, group), new(engine.Process)
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
		t.Errorf("from a directory service: got user %q, group %q", u, g)
	}
	if u, g, g2 := n.User(p, 1), n.Group(p, 4), n.Group(p, 50); u != "daemon" || g != "adm" || g2 != "staff" || n.User(p, 2) != "" || n.Group(p, 0) != "" {
		t.Errorf("got user %q, groups %q and %q", u, g, g2)
	}
	p.Known, p.Cgroup = engine.SetOf(engine.FieldCgroup), "/docker/"+strings.Repeat("0123456789abcdef", 4)
	if u, g := n.User(p, 1), n.Group(p, 4); u != "" || g != "" {
		t.Errorf("in a container: got user %q of uid 1, group %q of gid 4, want none", u, g)
	}

	p.Known, p.NS.User = engine.SetOf(engine.FieldCgroup, engine.FieldUserNS), engine.InitialUserNamespace
	if u := n.User(p, 1); u != "" {
		t.Errorf("in a container with the host's users: got user %q of uid 1", u)
	}
	if p.NS.User = 4026532000; n.User(p, 1) != "daemon" {
		t.Errorf("in a container with a user namespace: got user %q of uid 1", n.User(p, 1))
	}
}
