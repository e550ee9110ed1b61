package matrix

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/quark-linux/quark/internal/harness/catalogue"
	"github.com/quark-linux/quark/internal/harness/gotest"
)

// BTF is the source of the kernel's types in a guest.
type BTF string

// Values of BTF.
const (
	BTFPresent BTF = "present" // the kernel
	BTFHidden  BTF = "hidden"  // quark's archive, because the kernel's BTF is hidden
	BTFFile    BTF = "file"    // a file in the initramfs, because the kernel has no BTF
)

// Kernel is an image to boot.
type Kernel struct {
	Name   string `json:"name"` // such as 6.1-cloud-amd64, or local/NAME
	Arch   string `json:"arch"` // GOARCH
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`

	Features []string `json:"features,omitempty"` // features that the hello must list
	GoTests  bool     `json:"-"`                  // runs Go tests even if no test is named
	BTFFile  string   `json:"btf_file,omitempty"` // types of a kernel without BTF, else ""
	NoBTF    bool     `json:"no_btf,omitempty"`   // the kernel has no BTF, and there is no file

	catalogue.Odd

	// Unarchived means that quark's archive lacks the kernel's types. Hidden types are then
	// tested only on request.
	Unarchived bool `json:"-"`
}

// Part is what a guest runs.
type Part string

// The parts. A kernel is booted once for each.
const (
	PartTests   Part = "quark-test" // the default
	PartGo      Part = "gotest"     // test binaries of packages, which its image contains
	PartCommand Part = "command"    // any command; its result is its exit status
)

// Guest is one boot of a kernel, with one command.
type Guest struct {
	Kernel   Kernel
	BTF      BTF
	Part     Part
	Backends []Backend
	Packages []string // ./DIR; their tests run with PartGo
	Tests    []string // patterns of the part's tests; none: all
	Env      []string // NAME=VALUE, for the command
	Append   []string // words for the kernel's command line
	Command  []string // of PartCommand, or instead of a part's own
	Keep     []string // files that the guest sends at its end
	Image    string   // path of the initramfs
}

// Backend is a backend.
type Backend struct {
	Name    string
	Option  string // option of quark-test
	Types   bool   // it reads the kernel's types
	Default bool   // it runs if no backend is named
}

// Backends lists all backends, in the order of the tables.
var Backends = []Backend{
	{Name: "ebpf", Option: "-b", Types: true, Default: true},
	{Name: "kprobe", Option: "-k", Types: true, Default: true},
	{Name: "cnproc", Option: "-c", Default: true},
	{Name: "audit", Option: "--audit"},
}

// NoBackend is the backend of tests that need no backend.
const NoBackend = "none"

// Name returns the unique name of the guest. With a local kernel it has a slash.
func (g Guest) Name() string {
	name := g.Kernel.Name
	if g.BTF == BTFHidden {
		name += "-hidden"
	}
	if g.Part != PartTests {
		name += "-" + string(g.Part)
	}
	return name
}

// Dir returns the name as one element of a path.
func (g Guest) Dir() string { return strings.ReplaceAll(g.Name(), "/", "-") }

// resultsPort is the path of the result port in the guest.
const resultsPort = "/run/quark-results"

// command returns the guest's command with its arguments.
func (g Guest) command() []string {
	if len(g.Command) > 0 {
		return g.Command
	}
	if g.Part == PartGo {
		return append([]string{gotest.Command}, g.Tests...)
	}
	words := []string{"quark-test"}
	for _, b := range g.Backends {
		words = append(words, b.Option)
	}
	if g.BTF == BTFHidden && len(g.Tests) == 0 {
		words = append(words, "--types") // for all other tests see t_types_archive
	}
	words = append(words, "-j", resultsPort)
	return append(words, g.Tests...)
}

// claims returns the features that the guest must have.
func (g Guest) claims() []string {
	return slices.DeleteFunc(slices.Clone(g.Kernel.Features), func(f string) bool { return f == "btf" && g.BTF == BTFHidden })
}

// arguments returns words for the guest's kernel command line.
func (g Guest) arguments() []string {
	var words []string
	if g.BTF == BTFHidden {
		words = append(words, "quark.hide_btf=1")
	}
	if g.BTF == BTFFile {
		words = append(words, "quark.env.QUARK_BTF_PATH=/"+g.Kernel.BTFFile)
	}
	if slices.ContainsFunc(g.Backends, func(b Backend) bool { return b.Name == "audit" }) || slices.Contains(g.Packages, "./backends/audit") {
		words = append(words, "audit=1")
	}
	for _, e := range slices.Concat(g.Kernel.Env, g.Env) {
		words = append(words, "quark.env."+e)
	}
	for _, k := range g.Keep {
		words = append(words, "quark.keep="+k)
	}
	return slices.Concat(words, g.Kernel.Append, g.Append)
}

// Repro returns the shell command that repeats the guest, or one test of it.
func (g Guest) Repro(test string) string {
	if g.Part == PartGo {
		return g.reproGo(test)
	}
	one := g
	if test != "" && len(g.Command) == 0 {
		one.Tests = []string{test}
	}
	var b strings.Builder
	if words := one.arguments(); len(words) > 0 {
		fmt.Fprintf(&b, "KRUN_APPEND=%s ", quote(strings.Join(words, " ")))
	}
	if g.Kernel.CPUs != 0 {
		fmt.Fprintf(&b, "KRUN_SMP=%d ", g.Kernel.CPUs)
	}
	fmt.Fprintf(&b, "./krun.sh %s %s", quote(g.Image), quote(g.Kernel.Path))
	for _, w := range one.command() {
		if w != "-j" && w != resultsPort {
			b.WriteString(" " + quote(w))
		}
	}
	return b.String()
}

// reproGo returns the command that repeats Go tests. It builds the test binaries again, because the
// image of a guest is temporary.
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
	if len(g.Append) > 0 {
		arch += " APPEND=" + quote(strings.Join(g.Append, " "))
	}
	return fmt.Sprintf("make guest-test%s PKG=%s KERNELS=%s%s", arch, quote(strings.Join(packages, " ")),
		quote(strings.TrimSuffix(g.Kernel.Name, "-"+g.Kernel.Arch)), run)
}

// quote quotes a word for a shell.
func quote(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.,:=/@+^-", r)
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
