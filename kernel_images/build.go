package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
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

func (r recipe) imageRow() string { return r.name + "-" + r.arch }
func (r recipe) typesRow() string { return r.name + ".btf-" + r.arch }

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
	return r.name + "-" + hex.EncodeToString(sum[:6])
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

// provideBuilt gets the recipe's image and types, from the cache or by building them, and links
// both below dir.
func (f *fetcher) provideBuilt(ctx context.Context, r recipe, dir string, update bool, stdout io.Writer) error {
	image, err := f.builtBefore(r, r.imageRow())
	types, typesErr := f.builtBefore(r, r.typesRow())
	cached := err == nil && typesErr == nil && image.Version == types.Version
	how := "cached"
	if !cached || update {
		known := ""
		if cached {
			known = image.Version
		}
		newImage, newTypes, err := f.build(ctx, r, known)
		switch {
		case errors.Is(err, errCurrent):
		case err != nil:
			return fmt.Errorf("%s: %w", r.imageRow(), err)
		default:
			image, types, how = newImage, newTypes, "built"
		}
	}
	for path, e := range map[string]Entry{r.name: image, r.name + ".btf": types} {
		if err := f.cache.link(e, filepath.Join(dir, r.arch, path)); err != nil {
			return err
		}
	}
	fmt.Fprintf(stdout, "%s: %s from %s\n", r.imageRow(), how, image)
	return nil
}

// builtBefore returns a row's entry if it was built by the present recipe.
func (f *fetcher) builtBefore(r recipe, row string) (Entry, error) {
	e, err := f.cache.load(row)
	if err == nil && !strings.HasPrefix(e.Variant, r.variant()) {
		err = os.ErrNotExist
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		f.say("%s: %v; building it again", row, err)
	}
	return e, err
}

// errCurrent means that the newest source has the known version.
var errCurrent = errors.New("the newest was built")

// build builds the newest source, unless that has the known version, and caches the image and the
// types.
func (f *fetcher) build(ctx context.Context, r recipe, known string) (image, types Entry, err error) {
	if runtime.GOARCH != r.arch {
		return image, types, fmt.Errorf("it is built on %s only", r.arch)
	}
	if err := checkTools(); err != nil {
		return image, types, err
	}
	dir, err := os.MkdirTemp("", "quark-build-")
	if err != nil {
		return image, types, fmt.Errorf("make a temporary directory: %w", err)
	}
	defer os.RemoveAll(dir)
	p, deb, err := f.fetchSource(ctx, r, dir, known)
	if err != nil {
		return image, types, err
	}
	tree := filepath.Join(dir, "tree")
	if err := unpackSource(ctx, deb, tree); err != nil {
		return image, types, err
	}
	os.Remove(deb)

	config := filepath.Join(dir, r.name+".config")
	if err := os.WriteFile(config, []byte(r.config), 0o644); err != nil {
		return image, types, err
	}
	if err := f.make(ctx, tree, "KCONFIG_ALLCONFIG="+config, "allnoconfig"); err != nil {
		return image, types, fmt.Errorf("configure the kernel: %w", err)
	}
	result, err := os.ReadFile(filepath.Join(tree, ".config"))
	if err != nil {
		return image, types, err
	}
	if lines := r.ignored(string(result)); len(lines) > 0 {
		return image, types, fmt.Errorf("configure the kernel: %s %s did not take %s", p.Name, p.Version, strings.Join(lines, " "))
	}
	f.say("building %s %s, which takes some minutes", p.Name, p.Version)
	if err := f.make(ctx, tree, r.compile()...); err != nil {
		return image, types, fmt.Errorf("build the kernel: %w", err)
	}
	btf := filepath.Join(dir, r.name+".btf")
	if err := f.tool(ctx, tree, "pahole", "--btf_encode_detached="+btf, "vmlinux"); err != nil {
		return image, types, fmt.Errorf("encode the kernel's types: %w", err)
	}
	release, err := os.ReadFile(filepath.Join(tree, "include/config/kernel.release"))
	if err != nil {
		return image, types, err
	}

	e := Entry{Package: p.Name, Version: p.Version, Release: strings.TrimSpace(string(release)), DebSHA256: p.SHA256}
	types, image = e, e
	types.Name, types.Variant = r.typesRow(), r.variant()+".btf"
	image.Name, image.Variant = r.imageRow(), r.variant()
	if types, err = f.cache.store(types, copyFile(btf)); err != nil {
		return image, types, err
	}
	image, err = f.cache.store(image, copyFile(filepath.Join(tree, "arch/x86/boot/bzImage")))
	return image, types, err
}

func copyFile(path string) func(io.Writer) error {
	return func(w io.Writer) error {
		in, err := os.Open(path)
		if err != nil {
			return err
		}
		defer in.Close()
		_, err = io.Copy(w, in)
		return err
	}
}

// fetchSource downloads the newest package of the recipe's source that the archive still has.
func (f *fetcher) fetchSource(ctx context.Context, r recipe, dir, known string) (p Package, deb string, err error) {
	from, err := systemArchives(ctx)
	if err != nil {
		return p, "", err
	}
	a, err := newApt(ctx, dir, []string{r.arch})
	if err != nil {
		return p, "", err
	}
	err = fmt.Errorf("apt's sources name no archive that has %v", r.suites)
	for _, suite := range r.suites {
		list, covered := from.sourcesList([]string{suite}, a.arches)
		if len(covered) == 0 {
			continue
		}
		f.say("asking apt for the %s of %s", r.source, suite)
		var packages []Package
		if packages, err = a.named(ctx, list, r.source); err != nil {
			continue // a suite may be gone from the archive
		}
		if err = newestFirst(packages, olderVersion); err != nil {
			return p, "", err
		}
		err = fmt.Errorf("no suite has %s", r.source)
		for _, p := range packages[:min(tries, len(packages))] {
			if p.Version == known {
				return p, "", errCurrent
			}
			var files map[Package]string
			files, err = a.download(ctx, []Package{p})
			if deb, ok := files[p]; ok {
				return p, deb, nil
			}
			if ctx.Err() != nil {
				return p, "", context.Cause(ctx)
			}
		}
	}
	return p, "", err
}

// unpackSource unpacks the archive of the source in a package, without its topmost directory, into
// dir.
func unpackSource(ctx context.Context, deb, dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "tar", "-xJ", "--no-same-owner", "--strip-components=1", "-C", dir)
	cmd.WaitDelay = 5 * time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("unpack the source: %w", err)
	}
	err = extractFile(ctx, deb, sourceFiles, in)
	in.Close()
	tarErr := cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, errNoImage):
		return errors.New("unpack the source: the package holds no archive of it")
	case tarErr != nil:
		return fmt.Errorf("unpack the source: tar: %s", complaint(stderr.String(), tarErr))
	}
	return err
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
