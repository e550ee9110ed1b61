package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/quark-linux/quark/internal/harness/debian"
)

// recipe describes a kernel that is built from Debian's source, as no package has it.
type recipe struct {
	name   string   // of the row and the link
	arch   string   // that it is built for and on
	source string   // name of the package
	suites []string // tried in this order until one has the package
	config string   // all other options are off
	// debug are the names, without directories, of the objects with debug information. Together
	// they have every type that quark reads; with that of the whole kernel a build would take
	// half as long again.
	debug []string
}

//go:embed nobtf.config
var nobtfConfig string

// nobtf is a kernel that has kprobes and bpf() but no types.
var nobtf = recipe{
	name:   "nobtf",
	arch:   "amd64",
	source: "linux-source-5.10",
	suites: []string{"bullseye-security", "bullseye"},
	config: nobtfConfig,
	debug:  []string{"cgroup", "exec", "exit", "fork", "namespace", "net_namespace", "nsproxy", "pids", "tty_io", "utsname"},
}

// compile returns make's arguments. The same source gives the same bytes.
func (r recipe) compile() []string {
	args := []string{"KBUILD_BUILD_TIMESTAMP=2000-01-01 00:00:00 UTC", "KBUILD_BUILD_USER=quark", "KBUILD_BUILD_HOST=quark"}
	for _, object := range r.debug {
		args = append(args, "CFLAGS_"+object+".o=-gdwarf-4")
	}
	return append(args, "bzImage")
}

// variant returns an identifier of the recipe, which differs between builds of the same source.
func (r recipe) variant() string {
	sum := sha256.Sum256([]byte(r.config + "\x00" + strings.Join(r.compile(), "\x00")))
	return fmt.Sprintf("%s-%x", r.name, sum[:6])
}

// ignored returns the lines of the recipe's configuration that are not in result, the kernel's
// .config: the source does not know the option, or it depends on one that is off.
func (r recipe) ignored(result string) []string {
	set := make(map[string]string)
	for _, line := range strings.Split(result, "\n") {
		if name, value, ok := strings.Cut(line, "="); ok {
			set[name] = value
		}
	}
	var lines []string
	for _, line := range strings.Split(r.config, "\n") {
		name, value, ok := strings.Cut(line, "=")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		if value == "n" {
			value = ""
		}
		if set[name] != value {
			lines = append(lines, line)
		}
	}
	return lines
}

// typesSuffix is added to the name of an image, and to that of its link, for its types.
const typesSuffix = ".btf"

// provideBuilt gets the recipe's image and types, from the cache or by building them, and links
// both below dir.
func (f *fetcher) provideBuilt(ctx context.Context, r recipe, dir string, update bool, stdout io.Writer) error {
	image, how := f.builtBefore(r), "cached"
	if image == "" || update {
		newer, err := f.build(ctx, r, sourceVersion(image))
		if err != nil {
			return fmt.Errorf("%s-%s: %w", r.name, r.arch, err)
		}
		if newer != "" {
			image, how = newer, "built"
		}
	}
	for _, suffix := range []string{"", typesSuffix} {
		if err := link(f.cache.Path(image+suffix), filepath.Join(dir, r.arch, r.name+suffix)); err != nil {
			return err
		}
	}
	fmt.Fprintf(stdout, "%s-%s: %s from %s %s\n", r.name, r.arch, how, r.source, sourceVersion(image))
	return nil
}

// builtBefore returns the name of the image that was last built by the present recipe, "" for none.
func (f *fetcher) builtBefore(r recipe) (image string) {
	var last time.Time
	paths, _ := filepath.Glob(f.cache.Path("*_" + r.variant())) // a good pattern
	for _, path := range paths {
		name := filepath.Base(path)
		_, err := f.cache.Verify(name)
		_, typesErr := f.cache.Verify(name + typesSuffix)
		st, statErr := os.Stat(path)
		if err := errors.Join(err, typesErr, statErr); err != nil {
			f.say("%s: %v; not used", name, err)
		} else if st.ModTime().After(last) {
			image, last = name, st.ModTime()
		}
	}
	return image
}

// sourceVersion returns the version of the source in the name of an image that was built from it.
func sourceVersion(image string) string {
	_, rest, _ := strings.Cut(image, "_")
	version, _, _ := strings.Cut(rest, "_")
	return strings.ReplaceAll(version, "%3a", ":")
}

// build builds the newest source and caches the image and the types. It returns the image's name,
// "" if the newest source has the known version.
func (f *fetcher) build(ctx context.Context, r recipe, known string) (image string, err error) {
	if runtime.GOARCH != r.arch {
		return "", fmt.Errorf("it is built on %s only", r.arch)
	}
	a, err := openArchive(ctx, f.say, r.arch)
	if err != nil {
		return "", err
	}
	defer a.Close()
	tree := filepath.Join(a.Dir, "tree")
	p, current, err := f.unpackNewest(ctx, a, r, known, tree)
	if err != nil || current {
		return "", err
	}
	config := filepath.Join(a.Dir, r.name+".config")
	if err := os.WriteFile(config, []byte(r.config), 0o644); err != nil {
		return "", err
	}
	if err := f.make(ctx, tree, "KCONFIG_ALLCONFIG="+config, "allnoconfig"); err != nil {
		return "", fmt.Errorf("configure the kernel: %w", err)
	}
	result, err := os.ReadFile(filepath.Join(tree, ".config"))
	if err != nil {
		return "", err
	}
	if lines := r.ignored(string(result)); len(lines) > 0 {
		return "", fmt.Errorf("configure the kernel: %s did not take %s", p, strings.Join(lines, " "))
	}
	f.say("building %s, which takes some minutes", p)
	if err := f.make(ctx, tree, r.compile()...); err != nil {
		return "", fmt.Errorf("build the kernel: %w", err)
	}
	btf := filepath.Join(a.Dir, r.name+typesSuffix)
	if err := f.tool(ctx, tree, "pahole", "--btf_encode_detached="+btf, "vmlinux"); err != nil {
		return "", fmt.Errorf("encode the kernel's types: %w", err)
	}
	release, err := os.ReadFile(filepath.Join(tree, "include/config/kernel.release"))
	if err != nil {
		return "", err
	}
	image = imageName(strings.TrimSpace(string(release)), p.Version) + "_" + r.variant()
	for _, file := range []struct{ name, path string }{
		{image + typesSuffix, btf}, {image, filepath.Join(tree, "arch/x86/boot/bzImage")},
	} {
		content, err := os.ReadFile(file.path)
		if err == nil {
			_, err = f.cache.Store(file.name, content)
		}
		if err != nil {
			return "", err
		}
	}
	return image, nil
}

// unpackNewest unpacks the newest package of the recipe's source that the archive still has, unless
// that has the known version (current).
func (f *fetcher) unpackNewest(ctx context.Context, a *archive, r recipe, known, tree string) (p debian.Package, current bool, err error) {
	for _, suite := range r.suites {
		if _, err = a.Update(ctx, suite); err != nil {
			continue // a suite may be gone from the archive
		}
		var packages []debian.Package
		if packages, err = a.Show(ctx, r.source); err != nil {
			continue
		}
		if err = newestFirst(packages); err != nil {
			return p, false, err
		}
		p, current, err = a.first(ctx, packages, func(p debian.Package) bool { return p.Version == known },
			func(_ debian.Package, deb string) error { return f.unpackSource(ctx, deb, tree) })
		if err == nil || ctx.Err() != nil {
			return p, current, err
		}
	}
	return p, false, err
}

// unpackSource unpacks the archive of the source in a package, without its topmost directory, into
// dir.
func (f *fetcher) unpackSource(ctx context.Context, deb, dir string) error {
	archive, err := debian.Find(ctx, deb, sourceFile)
	if errors.Is(err, debian.ErrNoFile) {
		return errors.New("unpack the source: the package holds no archive of it")
	}
	file := deb + ".source"
	if err == nil {
		err = os.WriteFile(file, archive, 0o644)
	}
	if err == nil {
		err = os.Mkdir(dir, 0o755)
	}
	if err != nil {
		return err
	}
	return f.tool(ctx, dir, "tar", "-xJ", "--no-same-owner", "--strip-components=1", "-f", file)
}

// make runs make at low priority with a job for each processor.
func (f *fetcher) make(ctx context.Context, tree string, args ...string) error {
	return f.tool(ctx, tree, "nice", append([]string{"make", "-j" + strconv.Itoa(runtime.NumCPU())}, args...)...)
}

// tool runs a program of the build. If it fails, its last lines are printed.
func (f *fetcher) tool(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = buildEnv(os.Environ())
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err := cmd.Run()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		for _, line := range lines[max(0, len(lines)-20):] {
			f.say("%s", line)
		}
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// buildEnv returns the environment for the kernel's make, without the variables of a make that
// started this program and those that select another architecture or place.
func buildEnv(environ []string) []string {
	env := []string{"LC_ALL=C"}
	for _, kv := range environ {
		switch name, _, _ := strings.Cut(kv, "="); name {
		case "LC_ALL", "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "ARCH", "CROSS_COMPILE", "KBUILD_OUTPUT", "KCFLAGS", "LOCALVERSION", "V", "O":
		default:
			env = append(env, kv)
		}
	}
	return env
}
