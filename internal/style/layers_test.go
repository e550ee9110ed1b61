package style

import (
	"encoding/json"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/quark-linux/quark"

// layers are the allowed imports of the packages in a tree, except tests. The first tree that
// contains a package counts. "." is package quark.
var layers = []struct{ tree, imports string }{
	{"cmd/quark-mon", ". cmd/quark-mon engine/trace internal/..."},
	{"cmd", ". fidelity backends backends/... btfhub engine exitsnoop internal"},
	{"export/cmd", ". engine/trace exehash export internal/..."},
	{"export", ". export exehash engine/schema"},
	{"bindings/c", ". engine/trace"},
	{"examples", ". engine exitsnoop"},
	{"initramfs", "internal"},
	{"kernel_images", "internal"},
	{"packaging", ""},
	{"fidelity", "fidelity . backends backends/... btfhub engine internal/..."},
	{"backends/internal", "backends/internal backends/source btfhub engine internal/..."},
	{"backends/source", "btfhub engine"},
	{"backends/ebpf", "backends/source backends/internal btfhub engine internal/..."},
	{"backends/kprobe", "backends/source backends/internal btfhub engine internal/..."},
	{"backends/cnproc", "backends/source backends/internal engine internal/..."},
	{"backends/audit", "backends/source backends/internal engine internal/..."},
	{"backends", "backends/... backends/internal engine internal/..."},
	{"exehash", ". engine internal/..."},
	{"exitsnoop", "btfhub internal/..."},
	{"btfhub", "btfhub internal/..."},
	{"engine", "engine internal/freelist"},
	{"internal/harness", "btfhub internal"},
	{"internal/getent", ""},
	{"internal/selection", ". internal/..."},
	{"internal/hostclock", "engine internal/..."},
	{"internal/names", "engine"},
	{"internal", "internal/..."},
	{".", "backends backends/... btfhub engine internal/..."},
}

// allows reports whether a package may import another one. A name in the list covers the package
// and those below it, NAME/... those one level below; neither covers an internal package that it
// does not name.
func allows(imports, pkg string) bool {
	return slices.ContainsFunc(strings.Fields(imports), func(name string) bool {
		if parent, ok := strings.CutSuffix(name, "/..."); ok {
			return path.Dir(pkg) == parent || parent == "internal" && within(pkg, "internal") && !within(pkg, "internal/harness")
		}
		if name == "." || name == "backends" {
			return pkg == name
		}
		return within(pkg, name)
	})
}

func within(pkg, tree string) bool { return pkg == tree || strings.HasPrefix(pkg, tree+"/") }

// wrongImports returns the imports of a package that no layer allows.
func wrongImports(pkg string, imports []string) (wrong []string) {
	for _, l := range layers {
		if l.tree != "." && !within(pkg, l.tree) {
			continue
		}
		for _, imported := range imports {
			if imported != pkg && !allows(l.imports, imported) {
				wrong = append(wrong, pkg+" imports "+imported)
			}
		}
		return wrong
	}
	return nil
}

// allPackages returns the packages of the two modules.
func allPackages(t *testing.T) []listed {
	exports, err := listPackages(t, "export", "./...")
	if err != nil {
		t.Skipf("go list, which needs the module's source: %v", err)
	}
	return append(goList(t, "./..."), exports...)
}

// goList returns the packages that go list prints in the main module.
func goList(t *testing.T, args ...string) (packages []listed) {
	t.Helper()
	packages, err := listPackages(t, ".", args...)
	if err != nil {
		t.Skipf("go list, which needs the module's source: %v", err)
	}
	return packages
}

// listPackages returns the packages that go list prints in the module of a folder.
func listPackages(t *testing.T, folder string, args ...string) (packages []listed, err error) {
	t.Helper()
	list := exec.Command("go", append([]string{"list", "-json=ImportPath,Imports,Module,Standard,Dir,GoFiles,CgoFiles,ImportMap"}, args...)...)
	list.Dir = filepath.Join(root, folder)
	out, err := list.Output()
	if err != nil {
		return nil, err
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		var p listed
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
	return packages, nil
}

type listed struct {
	ImportPath, Dir   string
	Imports           []string
	GoFiles, CgoFiles []string
	ImportMap         map[string]string
	Standard          bool
	Module            struct{ Path, GoVersion string }
}

// local returns the path of a package relative to the root, "." for the root's.
func local(importPath string) (name string, ok bool) {
	if importPath == module {
		return ".", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

// Imports go one way, see docs/architecture.md.
func TestArrowsPointDown(t *testing.T) {
	for _, p := range allPackages(t) {
		pkg, _ := local(p.ImportPath)
		var imports []string
		for _, imported := range p.Imports {
			if name, ok := local(imported); ok {
				imports = append(imports, name)
			}
		}
		for _, wrong := range wrongImports(pkg, imports) {
			t.Errorf("%s: the import goes upward, or is missing in the table of layers", wrong)
		}
	}
}

func TestWrongArrowsAreSeen(t *testing.T) {
	for _, arrow := range []string{
		"engine exitsnoop", "engine internal/proctext", "internal/proctext engine", "internal/tinyelf internal/harness/record",
		"backends/internal/procfs backends/ebpf", "backends/ebpf backends/kprobe", "backends/ebpf .", "backends/ebpf fidelity",
		"btfhub backends/source", "exitsnoop .", ". fidelity", ". exitsnoop", ". internal/harness/matrix", "fidelity cmd/quark-mon", "cmd/quark-mon backends",
		"export fidelity", "export/ecs engine", ". export", "export cmd/quark-mon", "fidelity export", "cmd/quark-mon export",
		"fidelity backends/internal/procfs", "internal/harness/matrix .", "kernel_images exitsnoop",
	} {
		pkg, imported, _ := strings.Cut(arrow, " ")
		if wrongImports(pkg, []string{imported}) == nil {
			t.Errorf("%s may import %s", pkg, imported)
		}
	}
}

// allowedModules are the modules that a program gets with package quark: those that only tools
// need, such as u-root, are not included.
var allowedModules = []string{
	module, "github.com/cilium/ebpf", "github.com/mdlayher/netlink", "github.com/mdlayher/socket", // netlink's
	"golang.org/x/net", "golang.org/x/sync", "golang.org/x/sys",
}

// Neither quark-mon nor a program that imports quark may link an HTTP client or server, which would
// take memory.
func TestNoHTTP(t *testing.T) {
	list := []string{"-deps", "./cmd/quark-mon"}
	for _, pkg := range public {
		if !within(pkg, "export") {
			list = append(list, "./"+pkg)
		}
	}
	if slices.ContainsFunc(goList(t, list...), func(p listed) bool { return p.ImportPath == "net/http" }) {
		t.Error("net/http is linked into quark-mon or into programs that import quark: it takes a megabyte of memory")
	}
}

func TestUserGetsFewModules(t *testing.T) {
	for _, p := range goList(t, "-deps", ".") {
		if !p.Standard && !slices.Contains(allowedModules, p.Module.Path) {
			t.Errorf("package quark must not import %s of module %s", p.ImportPath, p.Module.Path)
		}
		if name, ok := local(p.ImportPath); ok && (within(name, "fidelity") || within(name, "internal/harness") || within(name, "cmd")) {
			t.Errorf("package quark must not import %s", name)
		}
	}
}
