package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/quark-linux/quark/internal/harness/catalogue"
	"github.com/quark-linux/quark/internal/harness/debian"
)

// typesSuffix is added to the name of an image, and to that of its link, for its types.
const typesSuffix = ".btf"

// builtRow is a row whose image is built.
type builtRow struct {
	recipe
	build bool // unless it is cached; without build a row that is not cached has no link
}

// provideBuilt gets the images and types of rows, from the cache or by building them, and links
// them below dir. With update those that are to be built are built again if there is a newer
// source.
func (f *fetcher) provideBuilt(ctx context.Context, rows []builtRow, dir string, update bool, stdout io.Writer) error {
	var s *source
	defer func() { s.Close() }()
	var failures []error
	for _, r := range rows {
		image, how := f.builtBefore(r.recipe), "cached"
		if r.build && (image == "" || update) {
			newer, err := f.build(ctx, &s, r.recipe, sourceVersion(image))
			if ctx.Err() != nil {
				return err
			}
			if err != nil {
				failures = append(failures, fmt.Errorf("%s-%s: %w", r.name, r.arch, err))
				continue
			}
			if newer != "" {
				image, how = newer, "built"
			}
		}
		for _, suffix := range []string{"", typesSuffix} {
			path, err := filepath.Join(dir, r.arch, r.name+suffix), error(nil)
			if image != "" {
				err = link(f.cache.Path(image+suffix), path)
			} else if err = os.Remove(path); errors.Is(err, fs.ErrNotExist) {
				err = nil // it would have been of another recipe
			}
			if err != nil {
				return err
			}
		}
		if image == "" {
			fmt.Fprintf(stdout, "%s-%s: not built: 'make %s' does it, in some minutes\n", r.name, r.arch, catalogue.BuildTarget(r.name))
		} else {
			fmt.Fprintf(stdout, "%s-%s: %s from %s %s\n", r.name, r.arch, how, sourcePackage, sourceVersion(image))
		}
	}
	return errors.Join(failures...)
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
// "" if the newest source has the known version. *s is the source, unpacked for the first recipe.
func (f *fetcher) build(ctx context.Context, s **source, r recipe, known string) (image string, err error) {
	if runtime.GOARCH != r.arch {
		return "", fmt.Errorf("it is built on %s only", r.arch)
	}
	if *s == nil {
		if *s, err = f.openSource(ctx, r.arch); err != nil {
			return "", err
		}
	}
	p, tree, err := (*s).unpack(ctx, f, known)
	if err != nil || p.Version == known {
		return "", err
	}
	out := (*s).out
	if err := os.MkdirAll(out, 0o755); err != nil {
		return "", err
	}
	// The count of builds is in the kernel's version.
	if err := os.Remove(filepath.Join(out, ".version")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	config := filepath.Join(out, "wanted")
	if err := os.WriteFile(config, []byte(r.config), 0o644); err != nil {
		return "", err
	}
	if err := f.make(ctx, tree, "O="+out, "KCONFIG_ALLCONFIG="+config, "allnoconfig"); err != nil {
		return "", fmt.Errorf("configure the kernel: %w", err)
	}
	result, err := os.ReadFile(filepath.Join(out, ".config"))
	if err != nil {
		return "", err
	}
	if lines := r.ignored(string(result)); len(lines) > 0 {
		return "", fmt.Errorf("configure the kernel: %s did not take %s", p, strings.Join(lines, " "))
	}
	f.say("building %s of %s, which takes some minutes", r.name, p)
	if err := f.make(ctx, tree, append([]string{"O=" + out}, r.compile()...)...); err != nil {
		return "", fmt.Errorf("build the kernel: %w", err)
	}
	btf := filepath.Join(out, "types"+typesSuffix)
	if err := f.tool(ctx, out, "pahole", "--btf_encode_detached="+btf, "vmlinux"); err != nil {
		return "", fmt.Errorf("encode the kernel's types: %w", err)
	}
	release, err := os.ReadFile(filepath.Join(out, "include/config/kernel.release"))
	if err != nil {
		return "", err
	}
	image = imageName(strings.TrimSpace(string(release)), p.Version) + "_" + r.variant()
	for _, file := range []struct{ name, path string }{
		{image + typesSuffix, btf}, {image, filepath.Join(out, "arch/x86/boot/bzImage")},
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

// source is the newest source that the archive has.
type source struct {
	*archive
	tree string // where it is unpacked

	// out is where all recipes are built, one after the other: make knows which files an option
	// is of, and does not compile the others again.
	out string

	is debian.Package // what is unpacked; its zero value: nothing yet
}

func (f *fetcher) openSource(ctx context.Context, arch string) (*source, error) {
	a, err := openArchive(ctx, f.say, arch)
	if err != nil {
		return nil, err
	}
	return &source{archive: a, tree: filepath.Join(a.Dir, "tree"), out: filepath.Join(a.Dir, "out")}, nil
}

// Close removes the source.
func (s *source) Close() {
	if s != nil {
		s.archive.Close()
	}
}

// unpack returns the newest package of the source that the archive still has, and its directory.
// The package is unpacked unless it has the known version.
func (s *source) unpack(ctx context.Context, f *fetcher, known string) (p debian.Package, tree string, err error) {
	if s.is.Version != "" {
		return s.is, s.tree, nil
	}
	for _, suite := range sourceSuites {
		if _, err = s.Update(ctx, suite); err != nil {
			continue // a suite may be gone from the archive
		}
		var packages []debian.Package
		if packages, err = s.Show(ctx, sourcePackage); err != nil {
			continue
		}
		if err = newestFirst(packages); err != nil {
			return p, "", err
		}
		var current bool
		p, current, err = s.first(ctx, packages, func(p debian.Package) bool { return p.Version == known },
			func(_ debian.Package, deb string) error { return f.unpackSource(ctx, deb, s.tree) })
		if err == nil && !current {
			s.is = p
		}
		if err == nil || ctx.Err() != nil {
			return p, s.tree, err
		}
	}
	return p, "", err
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
