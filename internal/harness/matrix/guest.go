package matrix

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/quark-linux/quark/internal/harness/gotest"
)

// BTF is how a guest has its kernel's types.
type BTF string

const (
	BTFPresent BTF = "present" // from the kernel, as it is
	BTFHidden  BTF = "hidden"  // covered, so that quark takes those embedded in it
	BTFFile    BTF = "file"    // from a file in the initramfs: the kernel has none
)

// Kernel is an image to boot.
type Kernel struct {
	Name   string `json:"name"` // as 6.1-cloud-amd64, or local/NAME
	Arch   string `json:"arch"` // GOARCH
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`

	// Features are what the kernel must offer, by the names in the hello record.
	Features []string `json:"features,omitempty"`

	// BTFFile is the base name of the file with its types, for a kernel that has none itself.
	BTFFile string `json:"btf_file,omitempty"`
}

// Part is what a guest runs.
type Part string

// The parts that each kernel is booted for.
const (
	PartTests   Part = "quark-test" // the default
	PartGo      Part = "gotest"     // test binaries of packages, which are in its image
	PartCommand Part = "command"    // any command, judged by its exit status
)

func (p Part) String() string {
	if p == "" {
		return string(PartTests)
	}
	return string(p)
}

// Guest is one boot of a kernel, with one command.
type Guest struct {
	Kernel   Kernel
	BTF      BTF
	Part     Part // PartTests if ""
	Backends []Backend
	Packages []string // whose tests run, as ./DIR, with PartGo
	Tests    []string // patterns of the part's tests; none: all
	Env      []string // NAME=VALUE, for the command
	// with PartCommand; a test of guests sets it without, for a command that reports tests
	Command []string
	Wrap    []string // a command that runs that one
	Keep    []string // files of the guest that it hands out at its end
	Image   string   // path of the initramfs
}

// Backend is a backend's name and quark-test's option for it.
type Backend struct{ Name, Option string }

// Backends are all, in the order of the tables.
var Backends = []Backend{{"ebpf", "-b"}, {"kprobe", "-k"}, {"cnproc", "-c"}}

// NoBackend is the backend of tests that need none.
const NoBackend = "none"

// Name tells guests apart; it is a file name but for the slash of a local kernel's.
func (g Guest) Name() string {
	name := g.Kernel.Name
	if g.BTF == BTFHidden {
		name += "-hidden"
	}
	if g.Part.String() != string(PartTests) {
		name += "-" + string(g.Part)
	}
	return name
}

// Dir is the name as one element of a path.
func (g Guest) Dir() string { return strings.ReplaceAll(g.Name(), "/", "-") }

// command is what the guest is to run.
func (g Guest) command() []string {
	words := slices.Clone(g.Wrap)
	if len(g.Command) > 0 {
		return append(words, g.Command...)
	}
	if g.Part == PartGo {
		return append(append(words, gotest.Command), g.Tests...)
	}
	words = append(words, "quark-test")
	for _, b := range g.Backends {
		words = append(words, b.Option)
	}
	if g.BTF == BTFHidden && len(g.Tests) == 0 {
		words = append(words, "--types") // t_types_archive shows that all else is the same
	}
	words = append(words, "-j", "/run/quark-results")
	return append(words, g.Tests...)
}

// claims are the features that the guest must have.
func (g Guest) claims() []string {
	return slices.DeleteFunc(slices.Clone(g.Kernel.Features), func(f string) bool { return f == "btf" && g.BTF == BTFHidden })
}

// arguments are the words for the guest's kernel command line.
func (g Guest) arguments() []string {
	var words []string
	if g.BTF == BTFHidden {
		words = append(words, "quark.hide_btf=1")
	}
	if g.BTF == BTFFile {
		words = append(words, "quark.env.QUARK_BTF_PATH=/"+g.Kernel.BTFFile)
	}
	for _, e := range g.Env {
		words = append(words, "quark.env."+e)
	}
	for _, k := range g.Keep {
		words = append(words, "quark.keep="+k)
	}
	return words
}

// Repro is the shell command that does again what the guest did, or one test of it on the backends
// that it ran on at once.
func (g Guest) Repro(krun, test string, backends ...string) string {
	if g.Part == PartGo {
		return g.reproGo(test)
	}
	one := g
	one.Wrap = nil
	if test != "" && len(g.Command) == 0 {
		one.Tests = []string{test}
		one.Backends = nil
		for _, b := range Backends {
			if slices.Contains(backends, b.Name) {
				one.Backends = append(one.Backends, b)
			}
		}
	}
	var b strings.Builder
	if words := one.arguments(); len(words) > 0 {
		fmt.Fprintf(&b, "KRUN_APPEND=%s ", quote(strings.Join(words, " ")))
	}
	fmt.Fprintf(&b, "%s %s %s", quote(krun), quote(g.Image), quote(g.Kernel.Path))
	for _, w := range one.command() {
		if w == "-j" || w == "/run/quark-results" {
			continue
		}
		b.WriteString(" " + quote(w))
	}
	return b.String()
}

// reproGo is the command for test binaries, which are in an image only while a guest runs them.
func (g Guest) reproGo(test string) string {
	packages, run := g.Packages, ""
	if pkg, name, ok := strings.Cut(test, "."); ok {
		run = " RUN=" + quote("^"+name+"$$") // for make, $$ is a $
		for _, p := range g.Packages {
			if (gotest.Binary{Package: p}).Name() == pkg {
				packages = []string{p}
			}
		}
	}
	arch := ""
	if g.Kernel.Arch != runtime.GOARCH {
		arch = " GOARCH=" + g.Kernel.Arch
	}
	for _, e := range g.Env {
		arch = " " + quote(e) + arch
	}
	return fmt.Sprintf("make guest-test%s PKG=%s KERNELS=%s%s", arch, quote(strings.Join(packages, " ")),
		quote(strings.TrimSuffix(g.Kernel.Name, "-"+g.Kernel.Arch)), run)
}

// quote makes a word that a shell leaves as it is.
func quote(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.,:=/@+^-", r)
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
