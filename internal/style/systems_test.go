package style

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"go/version"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Users build and test code that handles events on systems without a quark backend, where quark-mon
// replays recordings.
func TestPublicPackagesOnOtherSystems(t *testing.T) {
	if testing.Short() {
		t.Skip("checks quark-mon and the public packages for other systems")
	}
	public := []string{".", "./engine/...", "./cmd/quark-mon"}
	goList(t, public...) // check that the packages exist
	for _, system := range []string{"darwin/arm64", "windows/amd64", "linux/arm", "linux/s390x"} {
		t.Run(system, func(t *testing.T) {
			goos, goarch, _ := strings.Cut(system, "/")
			t.Setenv("GOOS", goos)
			t.Setenv("GOARCH", goarch)
			t.Setenv("CGO_ENABLED", "0")
			packages, err := listPackages(t, ".", append([]string{"-deps", "-test"}, public...)...)
			if err != nil {
				t.Fatal(err)
			}
			checkTypes(t, goarch, packages)
			if goos != "darwin" {
				return // files for non-Linux systems apply to each of them
			}
			vet := exec.Command("go", append([]string{"vet"}, public...)...)
			vet.Dir = root
			if out, err := vet.CombinedOutput(); err != nil {
				t.Errorf("go vet: %v\n%s", err, out)
			}
		})
	}
}

// checkTypes type-checks the packages of this module and their tests, but only the declarations of
// imported packages. The compiler would take a minute for the standard libraries of several
// systems.
func checkTypes(t *testing.T, goarch string, packages []listed) {
	t.Helper()
	checked := map[string]*types.Package{"unsafe": types.Unsafe}
	for _, p := range packages {
		if p.ImportPath == "unsafe" || strings.HasSuffix(p.ImportPath, ".test") {
			continue
		}
		fset, files := token.NewFileSet(), []*ast.File(nil)
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
		config := types.Config{Sizes: types.SizesFor("gc", goarch), IgnoreFuncBodies: p.Module.Path != module}
		config.Error = func(err error) { t.Error(err) }
		config.Importer = importerFunc(func(path string) (*types.Package, error) {
			if as := p.ImportMap[path]; as != "" {
				path = as
			}
			return checked[path], nil
		})
		path, _, _ := strings.Cut(p.ImportPath, " ")
		checked[p.ImportPath], _ = config.Check(path, fset, files, nil)
	}
}

type importerFunc func(path string) (*types.Package, error)

func (f importerFunc) Import(path string) (*types.Package, error) { return f(path) }

// quark must not require a newer Go than its dependencies do.
func TestLeastGo(t *testing.T) {
	own, least := "", ""
	for _, p := range goList(t, "-deps", "-test", "./...") {
		if v := "go" + p.Module.GoVersion; p.Module.Path == module {
			own = v
		} else if p.Module.GoVersion != "" && version.Compare(v, least) > 0 {
			least = v
		}
	}
	if version.Compare(own, least) > 0 {
		t.Errorf("go.mod requires Go %s, its dependencies only %s", own, least)
	}
}

// On an architecture without programs Open returns an error, and New works: Linux on 386 also runs
// on amd64.
func TestOpenOn386(t *testing.T) {
	if testing.Short() || runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("compiles the tests of package quark for 386, and runs some on linux/amd64")
	}
	run := exec.Command("go", "test", "-v", "-run", "^(TestOpenElsewhere|TestNew|TestNobody)$", ".")
	run.Dir, run.Env = root, append(os.Environ(), "GOARCH=386", "CGO_ENABLED=0")
	out, err := run.CombinedOutput()
	if strings.Contains(string(out), "exec format error") {
		t.Skip("the kernel runs no 32-bit programs")
	}
	if err != nil || strings.Count(string(out), "--- PASS") != 3 {
		t.Errorf("%v\n%s", err, out)
	}
}
