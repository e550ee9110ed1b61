// Command multicall builds one binary out of several commands of this module. The image holds it
// under the name of each, as hard links: the Go runtime and the packages that the commands share
// are in the image once.
//
// A command's package main cannot be imported, so its files are compiled, by means of go build
// -overlay, as a package of another name whose main is exported. Neither the source tree nor the
// commands have a trace of that.
//
//	go run ./initramfs/multicall -o build/amd64/guest cmd/quark-mon cmd/quark-test
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"text/template"
)

// virtual is the directory of the packages that only the overlay has, relative to the module's
// root.
const virtual = "initramfs/multicall/virtual"

func main() {
	out := flag.String("o", "", "`file` to write")
	arch := flag.String("arch", runtime.GOARCH, "architecture of the guest, amd64 or arm64")
	flag.Parse()
	if err := run(*out, *arch, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "multicall:", err)
		os.Exit(1)
	}
}

func run(out, arch string, dirs []string) error {
	if out == "" || len(dirs) == 0 {
		return errors.New("usage: multicall -o FILE [-arch ARCH] DIR [DIR...]")
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "quark-multicall-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	o := overlay{temp: temp, Replace: make(map[string]string)}
	var commands []string
	for _, dir := range dirs {
		if err := o.addCommand(root, dir); err != nil {
			return err
		}
		commands = append(commands, filepath.Base(dir))
	}
	var main bytes.Buffer
	if err := dispatcher.Execute(&main, commands); err != nil {
		return err
	}
	if err := o.add(filepath.Join(root, virtual, "main.go"), main.Bytes()); err != nil {
		return err
	}
	list, err := json.Marshal(o)
	if err != nil {
		return err
	}
	path := filepath.Join(temp, "overlay.json")
	if err := os.WriteFile(path, list, 0o644); err != nil {
		return err
	}
	// -s -w: symbols would be a third of the binary.
	cmd := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-ldflags=-s -w", "-overlay="+path, "-o", out, "./"+virtual)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd.Run()
}

// overlay is the file of go build -overlay: contents for paths, which need not exist.
type overlay struct {
	temp    string
	Replace map[string]string
}

func (o *overlay) add(path string, content []byte) error {
	file := filepath.Join(o.temp, fmt.Sprintf("%d.go", len(o.Replace)))
	o.Replace[path] = file
	return os.WriteFile(file, content, 0o644)
}

// addCommand adds the files of the command in a directory as a package.
func (o *overlay) addCommand(root, dir string) error {
	pkg := packageName(filepath.Base(dir))
	files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil {
		return err
	}
	found := false
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		exported, hasMain := export(source, pkg)
		found = found || hasMain
		if err := o.add(filepath.Join(root, virtual, pkg, filepath.Base(path)), exported); err != nil {
			return err
		}
	}
	if !found {
		return fmt.Errorf("%s has no func main", dir)
	}
	return nil
}

var (
	packageClause = regexp.MustCompile(`(?m)^package main$`)
	mainFunction  = regexp.MustCompile(`(?m)^func main\(\) `)
)

// export returns a file of package main, in gofmt's form, as one of the package named, its function
// main as Main.
func export(source []byte, pkg string) (exported []byte, hasMain bool) {
	exported = packageClause.ReplaceAll(source, []byte("package "+pkg))
	return mainFunction.ReplaceAll(exported, []byte("func Main() ")), mainFunction.Match(source)
}

func packageName(command string) string { return strings.ReplaceAll(command, "-", "") }

// dispatcher is the binary's main. The name of the executed file selects the command, not argv[0],
// which tests set. Tests and scenarios copy their program to other names; such a copy runs the
// scenario or test that its environment or arguments name.
var dispatcher = template.Must(template.New("main").Funcs(template.FuncMap{"pkg": packageName}).Parse(`package main

import (
	"os"
	"path/filepath"

	"github.com/quark-linux/quark/fidelity"
{{- range .}}
	"github.com/quark-linux/quark/` + virtual + `/{{pkg .}}"
{{- end}}
)

var commands = map[string]func(){
{{- range .}}
	"{{.}}": {{pkg .}}.Main,
{{- end}}
}

func main() {
	path, err := os.Readlink("/proc/self/exe")
	if err != nil {
		path = os.Args[0]
	}
	if command := commands[filepath.Base(path)]; command != nil {
		command()
		return
	}
	fidelity.Main()
	commands["quark-test"]()
}
`))
