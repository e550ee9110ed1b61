package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quark-linux/quark/internal/harness/catalogue"
	"github.com/quark-linux/quark/internal/wholefile"
)

func TestParseTargets(t *testing.T) {
	for _, tt := range []struct {
		name, output string
		want         archives
	}{
		{"main and security", `Packages|http://mirror.test/debian/|bookworm|Debian|$(SIGNED_BY)
Translations|http://mirror.test/debian/|bookworm|Debian|$(SIGNED_BY)
Packages|http://mirror.test/debian/|bookworm-updates|Debian|$(SIGNED_BY)
Packages|http://sec.test/debian-security/|bookworm-security|Debian|/keys/sec.gpg
`, archives{source{"http://mirror.test/debian/", ""}, source{"http://sec.test/debian-security/", "/keys/sec.gpg"}}},
		{"others are passed over", `Packages|http://node.test/|nodistro|Node|/keys/node.gpg
Packages|http://other.test/|bookworm|Other|
Packages|http://mirror.test/debian/|trixie|Debian|/keys/debian.gpg
`, archives{main: source{"http://mirror.test/debian/", "/keys/debian.gpg"}}},
		{"lists never fetched", `Packages|http://mirror.test/debian/|trixie|$(ORIGIN)|$(SIGNED_BY)
Packages|http://mirror.test/debian/|trixie-security||
Packages|http://other.test/|nodistro||
`, archives{source{"http://mirror.test/debian/", ""}, source{"http://mirror.test/debian/", ""}}},
		{"nothing", "", archives{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, parseTargets(tt.output), cmp.AllowUnexported(archives{}, source{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSourcesList(t *testing.T) {
	a := archives{main: source{"http://mirror.test/debian/", "/keys/debian.gpg"}}
	list := a.sourcesList([]string{"bookworm-security", "bookworm"}, []string{"amd64", "arm64"})
	want := "deb [arch=amd64,arm64 target=Packages signed-by=/keys/debian.gpg] http://mirror.test/debian/ bookworm main\n"
	if list != want {
		t.Errorf("list %q, want %q", list, want)
	}
}

func TestAptConfig(t *testing.T) {
	got := aptConfig(`APT::Update::Post-Invoke:: "rm -f /var/cache/apt/archives/*.deb";
Acquire::http::Proxy "http://proxy.test:3128";
Acquire::AllowInsecureRepositories "true";
Dir::State "var/lib/apt";
`, "/private", []string{"amd64", "arm64"})
	for _, want := range []string{`Acquire::http::Proxy "http://proxy.test:3128";`, `Dir::State "/private";`, `APT::Architectures:: "arm64";`} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("no line %s", want)
		}
	}
	if strings.Contains(got, "Post-Invoke") || strings.Contains(got, "var/lib/apt") {
		t.Errorf("the system's hooks or directories are in it:\n%s", got)
	}
	// The last one counts.
	if strings.LastIndex(got, `AllowInsecureRepositories "false"`) < strings.LastIndex(got, `AllowInsecureRepositories "true"`) {
		t.Error("unsigned repositories would be allowed")
	}
}

func TestCandidates(t *testing.T) {
	if _, err := exec.LookPath("dpkg"); err != nil {
		t.Skip("no dpkg to order versions by")
	}
	var b strings.Builder
	for _, p := range []struct {
		name, version, arch string
		size                int
	}{
		{"linux-image-6.1.0-9-cloud-amd64", "6.1.90-1", "amd64", 27e6},
		{"linux-image-6.1.0-56-cloud-amd64", "6.1.192-2", "amd64", 27e6},
		{"linux-image-6.1.0-56-cloud-amd64-dbg", "6.1.192-2", "amd64", 27e6},
		{"linux-image-6.1.0-56-amd64", "6.1.192-2", "amd64", 70e6},
		{"linux-image-6.1.0-56-cloud-arm64", "6.1.192-2", "arm64", 21e6},
		{"linux-image-6.1-cloud-amd64", "6.1.192-2", "amd64", 27e6},
		{"linux-image-6.12.100+deb12-cloud-amd64", "6.12.100-1~deb12u1", "amd64", 27e6},
		{"linux-image-6.12.100+deb13-cloud-amd64", "6.12.100-1", "amd64", 27e6},
		{"linux-image-7.2.6+deb13-cloud-amd64", "7.2.6-1~bpo13+1", "amd64", 2000},
		{"linux-binary-unsigned-7.2.6+deb13-cloud-amd64", "7.2.6-1~bpo13+1", "amd64", 14e6},
		{"linux-binary-7.2.6+deb13-cloud-amd64", "7.2.6-1~bpo13+1", "amd64", 14e6},
		{"linux-binary-7.2.6+deb13-rt-amd64", "7.2.6-1~bpo13+1", "amd64", 14e6},
	} {
		fmt.Fprintf(&b, "Package: %s\nVersion: %s\nArchitecture: %s\nDescription: x\n Version: not this\nSize: %d\n\n", p.name, p.version, p.arch, p.size)
	}
	packages, err := parsePackages(strings.NewReader(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		row  catalogue.Row
		want []string
	}{
		{catalogue.Row{Series: "6.1", Flavour: "cloud", Arch: "amd64"}, []string{"linux-image-6.1.0-56-cloud-amd64", "linux-image-6.1.0-9-cloud-amd64"}},
		{catalogue.Row{Series: "6.1", Flavour: "generic", Arch: "amd64"}, []string{"linux-image-6.1.0-56-amd64"}},
		{catalogue.Row{Series: "6.1", Flavour: "cloud", Arch: "arm64"}, []string{"linux-image-6.1.0-56-cloud-arm64"}},
		{catalogue.Row{Series: "6.12", Flavour: "cloud", Arch: "amd64"}, []string{"linux-image-6.12.100+deb13-cloud-amd64", "linux-image-6.12.100+deb12-cloud-amd64"}},
		{catalogue.Row{Series: "7.2", Flavour: "cloud", Arch: "amd64"}, []string{"linux-binary-7.2.6+deb13-cloud-amd64", "linux-binary-unsigned-7.2.6+deb13-cloud-amd64"}},
		{catalogue.Row{Series: "newest", Flavour: "rt", Arch: "amd64"}, []string{"linux-binary-7.2.6+deb13-rt-amd64"}},
		{catalogue.Row{Series: "5.10", Flavour: "cloud", Arch: "amd64"}, nil},
	} {
		got, err := candidates(tt.row, packages)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, p := range got {
			names = append(names, p.Name)
		}
		if !slices.Equal(names, tt.want) {
			t.Errorf("%s-%s-%s: %q, want %q", tt.row.Series, tt.row.Flavour, tt.row.Arch, names, tt.want)
		}
	}
	if got := (Package{Name: "linux-binary-unsigned-7.3.4+deb13-cloud-amd64"}).release(); got != "7.3.4+deb13-cloud-amd64" {
		t.Errorf("release %q", got)
	}
	if _, err := parsePackages(strings.NewReader("Package: x\nSize: many\n")); err == nil {
		t.Error("a size that is no number is no error")
	}
}

func FuzzParsePackages(f *testing.F) {
	f.Add([]byte("Package: linux-image-6.1.0-56-cloud-amd64\nVersion: 6.1\nSize: 5\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		packages, err := parsePackages(bytes.NewReader(data))
		for _, p := range packages {
			if err == nil && (p.Name == "" || p.Version == "") {
				t.Errorf("a package without name or version: %+v", p)
			}
		}
	})
}

// buildDeb makes a .deb with the given files and symbolic links.
func buildDeb(t *testing.T, files map[string]string, links ...string) string {
	t.Helper()
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("no dpkg-deb to build a package with")
	}
	root := t.TempDir()
	files["DEBIAN/control"] = "Package: x\nVersion: 1\nArchitecture: all\nMaintainer: x <x@x>\nDescription: x\n"
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range links {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.Symlink("/etc/shadow", path)); err != nil {
			t.Fatal(err)
		}
	}
	deb := filepath.Join(t.TempDir(), "x.deb")
	if out, err := exec.Command("dpkg-deb", "--root-owner-group", "-b", root, deb).CombinedOutput(); err != nil {
		t.Fatalf("dpkg-deb: %v\n%s", err, out)
	}
	return deb
}

func TestUnpack(t *testing.T) {
	big := strings.Repeat("module", 1<<20) // more than a pipe holds
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"boot", map[string]string{"boot/vmlinuz-6.1.0": "image", "boot/config-6.1.0": "config", "lib/modules/big": big}, "image"},
		{"modules", map[string]string{"usr/lib/modules/7.2/vmlinuz": "image", "usr/lib/modules/7.2/config": "config"}, "image"},
		{"unsigned", map[string]string{"usr/lib/modules/7.3/vmlinuz.unsigned": "image"}, "image"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := unpack(t.Context(), buildDeb(t, tt.files), imageFile); err != nil || string(got) != tt.want {
				t.Errorf("%q, %v", got, err)
			}
		})
	}

	t.Run("no image", func(t *testing.T) {
		_, err := unpack(t.Context(), buildDeb(t, map[string]string{"usr/share/doc/x": "x"}), imageFile)
		if !errors.Is(err, errNoImage) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("link", func(t *testing.T) {
		deb := buildDeb(t, map[string]string{"usr/share/doc/x": "x"}, "boot/vmlinuz-1")
		if got, err := unpack(t.Context(), deb, imageFile); !errors.Is(err, errNoImage) {
			t.Errorf("%q, error %v", got, err)
		}
	})
	t.Run("truncated", func(t *testing.T) {
		deb := buildDeb(t, map[string]string{"boot/vmlinuz-1": big})
		if err := os.Truncate(deb, 900); err != nil {
			t.Fatal(err)
		}
		if _, err := unpack(t.Context(), deb, imageFile); err == nil || errors.Is(err, errNoImage) {
			t.Errorf("error %v, want dpkg-deb's", err)
		}
	})
}

func TestCache(t *testing.T) {
	c, err := openCache(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	name := imageName("6.1.0-1", "1:6.1.1-1")
	if _, err := c.verify(name); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("empty cache: error %v, want ErrNotExist", err)
	}
	stored, err := c.store(name, []byte("image"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.verify(name); got != stored || err != nil {
		t.Errorf("checksum %s, error %v, want %s", got, err, stored)
	}
	sum, err := os.ReadFile(c.path(name) + ".sha256")
	if err != nil || string(sum) != stored+"  "+name+"\n" {
		t.Errorf("checksum file %q, error %v", sum, err)
	}

	path := filepath.Join(t.TempDir(), "amd64", "6.1-cloud")
	for range 2 { // the second time it is there
		if err := link(c.path(name), path); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "image" {
		t.Errorf("through the link: %q, error %v", b, err)
	}

	if got := c.replacement("gone"); got != "gone" {
		t.Errorf("nothing is replaced, but by %s", got)
	}
	if err := c.replace("gone", name); err != nil || c.replacement("gone") != name {
		t.Errorf("replaced by %s, error %v", c.replacement("gone"), err)
	}

	t.Run("a failed write keeps the old one and leaves nothing", func(t *testing.T) {
		before := tree(t, c.dir)
		if _, err := c.store("none/"+name, nil); err == nil || !strings.Contains(err.Error(), c.dir) {
			t.Errorf("error %v, want one with the directory", err)
		}
		if diff := cmp.Diff(before, tree(t, c.dir)); diff != "" {
			t.Errorf("(-before +after):\n%s", diff)
		}
		if _, err := c.verify(name); err != nil {
			t.Error(err)
		}
	})

	t.Run("damage is seen", func(t *testing.T) {
		if err := os.WriteFile(c.path(name), []byte("imagE"), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := c.verify(name); !errors.Is(err, errDamaged) {
			t.Errorf("error %v, want errDamaged", err)
		}
		if err := os.Remove(c.path(name)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.verify(name); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("error %v, want ErrNotExist", err)
		}
	})

	t.Run("sweep", func(t *testing.T) {
		temp := filepath.Join(c.dir, wholefile.TempPrefix+"1")
		if err := os.WriteFile(temp, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		c.sweep(time.Now().Add(-time.Hour))
		if _, err := os.Stat(temp); err != nil {
			t.Error("a fetcher at work lost its file")
		}
		c.sweep(time.Now().Add(time.Hour))
		if _, err := os.Stat(temp); !os.IsNotExist(err) {
			t.Error("a stale file is still there")
		}
	})
}

func tree(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		names = append(names, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestComplaint(t *testing.T) {
	err := errors.New("exit status 100")
	for _, tt := range []struct{ stderr, want string }{
		{"W: slow\nE: Unable to fetch\nE: more\n", "Unable to fetch"},
		{"dpkg-deb: bad\n", "dpkg-deb: bad"},
		{"", "exit status 100"},
	} {
		if got := complaint(tt.stderr, err); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.stderr, got, tt.want)
		}
	}
}
