package getent

import (
	"os"
	"path/filepath"
	"testing"
)

func TestLookup(t *testing.T) {
	dir := t.TempDir()
	program := "#!/bin/sh\ntest $1 = passwd && case $2 in bob|4242) echo 'bob:*:4242:1::/:/bin/sh';; *) exit 2; esac\n"
	if err := os.WriteFile(filepath.Join(dir, "getent"), []byte(program), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for _, c := range []struct {
		database, key, name, id string
	}{{"passwd", "bob", "bob", "4242"}, {"passwd", "4242", "bob", "4242"}, {"passwd", "eve", "", ""}, {"group", "bob", "", ""}, {"passwd", "-h", "", ""}} {
		if name, id, err := Lookup(c.database, c.key); err != nil || name != c.name || id != c.id {
			t.Errorf("%s %s: got name %q, id %q, error %v", c.database, c.key, name, id, err)
		}
	}
	t.Setenv("PATH", t.TempDir())
	if name, _, err := Lookup("passwd", "bob"); name != "" || err != nil {
		t.Errorf("without getent: got name %q, error %v", name, err)
	}
}
