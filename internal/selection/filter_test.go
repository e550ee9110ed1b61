package selection

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// hostID returns the id of a name, or the expected error.
func TestHostID(t *testing.T) {
	for _, c := range []struct{ name, id, want, err string }{
		{name: "plus", id: "+7006", want: "7006"},
		{name: "max", id: "4294967295", want: "4294967295"},
		{name: "neg", id: "-1", err: `user "neg" has the invalid id "-1"`},
		{name: "17", id: "18", want: "17"},
	} {
		got, err := new(Options).hostID("user", "passwd", c.name, func() (string, error) { return c.id, nil })
		if got != c.want || err == nil && c.err != "" || err != nil && err.Error() != c.err {
			t.Errorf("%s: %q, %v, not %q, %s", c.name, got, err, c.want, c.err)
		}
	}
}

// Names of a directory service are found by getent(1).
func TestGetent(t *testing.T) {
	dir := t.TempDir()
	program := "#!/bin/sh\ntest $1:$2 = passwd:quark-test-bob && echo 'quark-test-bob:*:4242:1::/:/bin/sh'\n"
	if err := os.WriteFile(filepath.Join(dir, "getent"), []byte(program), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for _, c := range []struct {
		name, want string
		names      bool
	}{{"quark-test-bob", "4242", true}, {"quark-test-bob", "", false}, {"quark-test-eve", "", true}, {"4711", "4711", false}} {
		o := Options{Names: c.names}
		if got, err := o.userID(c.name); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s, %v: %q, %v", c.name, c.names, got, err)
		}
	}
}

// A path through a symbolic link matches nothing.
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
			t.Errorf("%s: %v, and not %s", value, err, want)
		}
	}
	if err := checkPath("exe", "**/bin/sh"); err != nil {
		t.Error(err)
	}
}
