package btfhub

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/cilium/ebpf/btf"

	"github.com/quark-linux/quark/internal/kernelversion"
)

// KernelBTF is where the kernel offers its types.
const KernelBTF = "/sys/kernel/btf/vmlinux"

// PathVariable is the environment variable that names a BTF file.
const PathVariable = "QUARK_BTF_PATH"

// Options say where to look. The zero value is right for most.
type Options struct {
	// Path is a file with the running kernel's BTF: raw, an ELF file with a
	// .BTF section, or an archive with this kernel in it. "" means what
	// QUARK_BTF_PATH names, else the kernel's own, else the embedded archive.
	// A file that is named and cannot be used is an error, not a reason to look
	// elsewhere.
	Path string

	// Release and Arch are the kernel looked up in an archive, as uname -r
	// says it and as Go names architectures. "" means the running one. The
	// types of another release are a guess.
	Release, Arch string

	// Whole takes all types that the kernel offers and not just what of them is
	// [Needed], which is made ten times as fast. Set it to look for other types.
	// The embedded archive has no others.
	Whole bool

	// EmbeddedOnly looks nowhere but in the embedded archive. Set it only to
	// test that.
	EmbeddedOnly bool
}

// FilePath returns the file that [Open] reads, "" if none is named.
func (o Options) FilePath() string {
	switch {
	case o.EmbeddedOnly:
		return ""
	case o.Path != "":
		return o.Path
	}
	return os.Getenv(PathVariable)
}

// Kernel is the types of the running kernel.
type Kernel struct {
	// Spec has what is [Needed]. Without [Options.Whole] do not count on more, nor
	// on types having the numbers that the kernel gave them.
	Spec *btf.Spec

	// Origin says where they come from, for people.
	Origin string

	// Exact is false for those of another release. Such types must not be used
	// before a self-test has passed, as that of package backends/internal/selftest.
	Exact bool
}

// Open finds the types of the running kernel. The archive is not touched where
// the kernel offers its own.
func Open(o Options) (*Kernel, error) {
	if o.EmbeddedOnly {
		return o.embedded()
	}
	if path := o.FilePath(); path != "" {
		k, err := o.file(path)
		if err != nil {
			return nil, fmt.Errorf("read BTF file: %w", err)
		}
		return k, nil
	}
	spec, err := kernelSpec(o.Whole)
	if err == nil {
		return &Kernel{spec, KernelBTF, true}, nil
	}
	k, hubErr := o.embedded()
	if hubErr == nil {
		return k, nil
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("kernel has no BTF (%s, CONFIG_DEBUG_INFO_BTF) and %w: name a BTF file with %s", KernelBTF, hubErr, PathVariable)
	}
	return nil, fmt.Errorf("read the kernel's BTF: %w; and %w: name a BTF file with %s", err, hubErr, PathVariable)
}

// kernelSpec takes the types that the kernel offers, without a copy of them
// where it can. Only where it does offer them: btf.LoadKernelSpec would else take
// debug information that lies about, which need not be the running kernel's.
func kernelSpec(whole bool) (*btf.Spec, error) {
	f, err := os.Open(KernelBTF)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if !whole {
		if spec, err := excerptOf(f); err == nil {
			return spec, nil
		}
	}
	return btf.LoadKernelSpec()
}

// file takes the types in a file.
func (o Options) file(path string) (*Kernel, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	start := make([]byte, len(magic))
	if n, _ := f.ReadAt(start, 0); n == len(magic) && string(start) == magic {
		return o.archiveFile(path)
	}
	spec, err := btf.LoadSpecFromReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &Kernel{spec, "file " + path, true}, nil
}

func (o Options) archiveFile(path string) (*Kernel, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	k, err := o.open(data, "file "+path+" ")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return k, nil
}

func (o Options) embedded() (*Kernel, error) { return o.open(archive, "embedded ") }

// open takes the types out of an archive.
func (o Options) open(data []byte, where string) (*Kernel, error) {
	running, err := kernelversion.Running()
	if err != nil {
		return nil, fmt.Errorf("ask for the kernel's release: %w", err)
	}
	release, arch := o.Release, o.Arch
	if release == "" {
		release = running
	}
	if arch == "" {
		arch = runtime.GOARCH
	}
	a, err := ReadArchive(data)
	if err != nil {
		return nil, err
	}
	k, err := a.Open(release, arch)
	if err != nil {
		return nil, err
	}
	if release != running && k.Exact {
		k.Exact = false
		k.Origin = fmt.Sprintf("%s (named for %s)", release, running)
	}
	k.Origin = where + k.Origin
	return k, nil
}
