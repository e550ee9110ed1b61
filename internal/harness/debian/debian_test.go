package debian

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
		t.Errorf("got the system's hooks or directories:\n%s", got)
	}
	// The last one counts.
	if strings.LastIndex(got, `AllowInsecureRepositories "false"`) < strings.LastIndex(got, `AllowInsecureRepositories "true"`) {
		t.Error("unsigned repositories would be allowed")
	}
}

func FuzzParsePackages(f *testing.F) {
	f.Add([]byte("Package: linux-image-6.1.0-56-cloud-amd64\nVersion: 6.1\nSize: 5\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		packages, err := ParsePackages(bytes.NewReader(data))
		for _, p := range packages {
			if err == nil && (p.Name == "" || p.Version == "") {
				t.Errorf("got a package without name or version: %+v", p)
			}
		}
	})
}

func TestComplaint(t *testing.T) {
	err := errors.New("exit status 100")
	for _, tt := range []struct{ stderr, want string }{
		{"W: slow\nE: Unable to fetch\nE: more\n", "Unable to fetch"},
		{"dpkg-deb: bad\n", "dpkg-deb: bad"},
		{"", "exit status 100"},
	} {
		if got := errorMessage(tt.stderr, err); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.stderr, got, tt.want)
		}
	}
}
