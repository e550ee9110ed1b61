package style

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// public are the packages that users import.
var public = []string{".", "engine", "engine/container", "engine/enginetest", "engine/filter", "engine/glob", "engine/trace", "exitsnoop",
	"export", "export/ecs", "export/otlp", "export/prom"}

// make apidiff compares exactly these packages.
func TestAPIDiffHasAllPackages(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	var compared []string
	for _, word := range strings.Fields(string(regexp.MustCompile(`(?m)^API :=.*`).Find(makefile)))[2:] {
		compared = append(compared, path.Clean(word))
	}
	if slices.Sort(compared); !slices.Equal(compared, slices.Sorted(slices.Values(public))) {
		t.Errorf("make apidiff compares %q, public are %q", compared, public)
	}
}

// parsed returns the files of a package, either its tests or the others, for every system.
func parsed(t *testing.T, pkg string, tests bool) (syntax []*ast.File) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, pkg, "*.go"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no files of package %s: %v", pkg, err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") != tests {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		syntax = append(syntax, file)
	}
	return syntax
}

// export is an exported name of a package.
type export struct {
	name       string // methods are TYPE.METHOD
	documented bool
	signature  ast.Node // as its users see it, nil for none
}

// exports returns the exported names of a file.
func exports(file *ast.File) (list []export) {
	add := func(name *ast.Ident, signature ast.Node, docs ...*ast.CommentGroup) {
		if name.IsExported() {
			list = append(list, export{name.Name, slices.ContainsFunc(docs, func(d *ast.CommentGroup) bool { return d != nil }), signature})
		}
	}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				add(d.Name, d.Type, d.Doc)
			} else if of := receiver(d); of.IsExported() && d.Name.IsExported() {
				add(ast.NewIdent(of.Name+"."+d.Name.Name), d.Type, d.Doc)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					add(s.Name, s.Type, s.Doc, s.Comment, d.Doc)
				case *ast.ValueSpec:
					for _, name := range s.Names {
						add(name, s.Type, s.Doc, s.Comment, d.Doc)
					}
				}
			}
		}
	}
	return list
}

// receiver returns the name of a method's type.
func receiver(d *ast.FuncDecl) *ast.Ident {
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		default:
			return x.(*ast.Ident)
		}
	}
}

// inherited are methods that are documented by the interface they implement.
var inherited = regexp.MustCompile(`\.(String|Error)$`)

func TestExportedNamesAreDocumented(t *testing.T) {
	for _, p := range allPackages(t) {
		pkg, _ := local(p.ImportPath)
		if strings.HasPrefix(pkg, "cmd/") || strings.Contains(pkg, "internal/") {
			continue
		}
		for _, file := range parsed(t, pkg, false) {
			for _, e := range exports(file) {
				if !e.documented && !inherited.MatchString(e.name) {
					t.Errorf("package %s: %s has no comment", pkg, e.name)
				}
			}
		}
	}
}

func TestPublicPackagesHaveExamples(t *testing.T) {
	for _, pkg := range public {
		if !slices.ContainsFunc(parsed(t, pkg, true), func(file *ast.File) bool {
			return slices.ContainsFunc(exports(file), func(e export) bool { return strings.HasPrefix(e.name, "Example") })
		}) {
			t.Errorf("package %s has no example", pkg)
		}
	}
}

// stable are modules above version 0 with types in the API.
var stable = []string{"github.com/prometheus/client_golang"}

// Modules of version 0 may change at any time, so the API must not use their types.
func TestNoTypesOfVersionZero(t *testing.T) {
	for _, pkg := range public {
		for _, file := range parsed(t, pkg, false) {
			foreign := make(map[string]bool)
			for _, spec := range file.Imports {
				name, _ := strconv.Unquote(spec.Path.Value)
				if domain, _, _ := strings.Cut(name, "/"); strings.Contains(domain, ".") && !within(name, module) &&
					!slices.ContainsFunc(stable, func(m string) bool { return within(name, m) }) {
					foreign[path.Base(name)] = true
				}
			}
			for _, e := range exports(file) {
				for _, used := range visible(e.signature) {
					if foreign[used] {
						t.Errorf("package %s: %s has a type of package %s", pkg, e.name, used)
					}
				}
			}
		}
	}
}

// visible returns the packages of the types in a signature, except in unexported members.
func visible(signature ast.Node) (packages []string) {
	if s, ok := signature.(*ast.StructType); ok {
		for _, member := range s.Fields.List {
			if len(member.Names) == 0 || slices.ContainsFunc(member.Names, (*ast.Ident).IsExported) {
				packages = append(packages, visible(member.Type)...)
			}
		}
		return packages
	}
	if signature == nil {
		return nil
	}
	ast.Inspect(signature, func(n ast.Node) bool {
		if x, ok := n.(*ast.SelectorExpr); ok {
			packages = append(packages, x.X.(*ast.Ident).Name)
		}
		return true
	})
	return packages
}

// ofSources are names of package engine that only authors of sources and engines use.
var ofSources = regexp.MustCompile(`^(\w+\..*|Engine|New|Options|(Default|Max|Min)[A-Z]\w*(Length|Time)|ProcStartUnit|FieldChanges?|ChangeUnseen|` +
	`Fields(Thread|Inherited|Image)|Sink|RawEvent|UnknownReaper|Timekeeper|Scanner|Buffer|NewBuffer|Finisher|Detacher|Holder|Watcher|PIDState|PID(Unknown|Gone|Alive)|Verdict\w*|Offset|NewClock|Rows?|NSNames)$`)

// All other names are also in package quark, so that users need no other import.
func TestQuarkIsAllToImport(t *testing.T) {
	names := make(map[string]bool)
	for _, file := range parsed(t, ".", false) {
		for _, e := range exports(file) {
			names[e.name] = true
		}
	}
	for _, file := range parsed(t, "engine", false) {
		for _, e := range exports(file) {
			if !names[e.name] && !ofSources.MatchString(e.name) {
				t.Errorf("engine.%s is missing in api.go", e.name)
			}
		}
	}
}
