package selection

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quark-linux/quark"
)

// With the option for names, names of a directory service are found by getent(1).
func TestHostID(t *testing.T) {
	dir := t.TempDir()
	program := "#!/bin/sh\ntest $1:$2 = passwd:bob && echo 'bob:*:4242:1::/:/bin/sh'\n"
	if err := os.WriteFile(filepath.Join(dir, "getent"), []byte(program), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for _, c := range []struct {
		name, want string
		names      bool
	}{{"bob", "4242", true}, {"bob", "bob", false}, {"eve", "eve", true}, {"4711", "4711", true}} {
		o := Options{Names: c.names}
		if got, err := o.hostID("passwd", c.name); got != c.want || err != nil {
			t.Errorf("%s, names=%v: got %q, error %v", c.name, c.names, got, err)
		}
	}
}

// A path that contains a symbolic link matches no process.
func TestCheckPath(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(dir+"/usr", 0o700), os.Symlink("usr", dir+"/bin"), os.WriteFile(dir+"/usr/dash", nil, 0o700), os.Symlink("dash", dir+"/usr/sh")); err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]string{
		"/bin/dash": "/usr/dash,", "/bin/*": "/usr/*,", "/bin/none": "/usr/none,", "/usr/sh": "/usr/dash,", "/bin/sh": "/usr/dash,", "/bin/d?sh": "/usr/d?sh,",
		"/usr/dash": "", "/usr/*": "", "/usr/none": "", "/none/none": "", "/us*/sh": "", "/b**": "",
	} {
		err := checkPath("cwd", dir+value)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), "write "+dir+want) {
			t.Errorf("%s: got error %v, want %q", value, err, want)
		}
	}
	if err := checkPath("exe", "**/bin/sh"); err != nil {
		t.Error(err)
	}
}

// A name of an executable that is a link to another name matches no process of this host.
func TestCheckName(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.WriteFile(dir+"/dash", nil, 0o700), os.Symlink("dash", dir+"/sh")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	for expression, want := range map[string]string{
		"exe == sh": "add dash, or use comm", "exe == (sh, bash)": "add dash", "exe == (sh, dash)": "", "exe == dash": "", "exe == none": "", "exe ~ 's*'": "",
	} {
		f, err := quark.ParseFilter(expression)
		if err != nil {
			t.Fatal(err)
		}
		if err = checkPaths(f); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q", expression, err, want)
		}
	}
}
