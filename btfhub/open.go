package btfhub

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"

	"github.com/cilium/ebpf/btf"

	"github.com/quark-linux/quark/internal/kernelversion"
)

// archive is written by 'make btfhub'.
//
//go:embed archive.bin
var archive []byte

// Embedded returns the archive that is part of the binary.
func Embedded() (*Archive, error) { return ReadArchive(archive) }

// KernelBTF is the file of the kernel's own types.
const KernelBTF = "/sys/kernel/btf/vmlinux"

// PathVariable is the environment variable with the path of a BTF file.
const PathVariable = "QUARK_BTF_PATH"

// Options select the types. The zero value is right for most callers.
type Options struct {
	// Path is a file with the running kernel's BTF: raw, an ELF file with a .BTF section, or an
	// archive with this kernel. "" means the file of QUARK_BTF_PATH, else the kernel's own BTF,
	// else the embedded archive. Open fails if a named file cannot be used.
	Path string

	// Release (uname -r) and Arch (GOARCH) are looked up in an archive. "" means the running
	// kernel's. The types of another release must pass a self-test.
	Release, Arch string

	// Whole keeps all of the kernel's own types instead of only the [Needed] ones. Set it to
	// look up other types. The embedded archive has only the needed ones.
	Whole bool

	// EmbeddedOnly uses the embedded archive only, for tests of the archive.
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

// Kernel holds the types for the running kernel.
type Kernel struct {
	// Spec has the [Needed] types. Without [Options.Whole] it may lack all other types, and
	// type ids may differ from the kernel's ids.
	Spec *btf.Spec

	// Origin describes the source of the types in text.
	Origin string

	// Exact is false if the types are those of another release. Such types must pass a
	// self-test before use (package backends/internal/selftest).
	Exact bool

	// TaskIterator is the type id of the function bpf_iter_task in the running kernel's own
	// types, 0 if there is none or the types have another origin.
	TaskIterator btf.TypeID

	// Cast is the type id of the function bpf_rdonly_cast (Linux 6.2), or 0 as for
	// TaskIterator. It turns an address into a pointer to a structure. Bytes is the type id of
	// a structure that begins with an array of 65 bytes.
	Cast, Bytes btf.TypeID
}

// Open finds the types of the running kernel. It reads the archive only if the kernel has no BTF.
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
	k, err := kernelSpec(o.Whole)
	if err == nil {
		return k, nil
	}
	k, hubErr := o.embedded()
	if hubErr == nil {
		return k, nil
	}
	if errors.Is(err, os.ErrNotExist) {
		if err := kernelversion.Hidden(); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("kernel has no BTF (%s, CONFIG_DEBUG_INFO_BTF) and %w: name a BTF file with %s", KernelBTF, hubErr, PathVariable)
	}
	return nil, fmt.Errorf("read the kernel's BTF: %w; and %w: name a BTF file with %s", err, hubErr, PathVariable)
}

// kernelSpec returns the kernel's own types, reduced unless whole is set. It fails if the kernel
// has no BTF: btf.LoadKernelSpec would search for debug information in the file system, possibly of
// another kernel.
func kernelSpec(whole bool) (*Kernel, error) {
	if _, err := os.Stat(KernelBTF); err != nil {
		return nil, err
	}
	if whole {
		spec, err := btf.LoadKernelSpec()
		return &Kernel{Spec: spec, Origin: KernelBTF, Exact: true}, err
	}
	k, err := ownTypes()
	if err != nil {
		return nil, err
	}
	k.Spec = k.Spec.Copy() // callers may change the copy
	return &k, nil
}

// ownTypes reads and reduces the kernel's own types once, because that takes about 30 ms.
var ownTypes = sync.OnceValues(func() (k Kernel, err error) {
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return k, err
	}
	raw, err := Reduce(spec, append(Needed(), IteratorMembers...))
	if err != nil {
		return k, err
	}
	k = Kernel{Origin: KernelBTF, Exact: true}
	var function *btf.Func
	if err := spec.TypeByName("bpf_iter_task", &function); err == nil {
		k.TaskIterator, _ = spec.TypeID(function) // spec has the id of each of its types
	}
	var bytes *btf.Struct
	if spec.TypeByName("bpf_rdonly_cast", &function) == nil && spec.TypeByName("new_utsname", &bytes) == nil {
		k.Cast, _ = spec.TypeID(function)
		k.Bytes, _ = spec.TypeID(bytes)
	}
	k.Spec, err = loadRaw(raw)
	return k, err
})

func loadRaw(raw []byte) (*btf.Spec, error) { return btf.LoadSpecFromReader(bytes.NewReader(raw)) }

// file reads the types of a file.
func (o Options) file(path string) (*Kernel, error) {
	// A device may have no end, and a FIFO may block.
	if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file: name a file with kernel types", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	start := make([]byte, len(gzipMagic))
	if n, _ := f.ReadAt(start, 0); n == len(start) && string(start) == gzipMagic {
		return o.archiveFile(path)
	}
	spec, err := btf.LoadSpecFromReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &Kernel{Spec: spec, Origin: "file " + path, Exact: true}, nil
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

// open looks the kernel up in an archive.
func (o Options) open(data []byte, where string) (*Kernel, error) {
	running, err := kernelversion.Running()
	if err != nil {
		return nil, fmt.Errorf("read the kernel's release: %w", err)
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
	e, err := a.Lookup(release, arch)
	if err != nil {
		return nil, err
	}
	spec, err := a.Types(e)
	if err != nil {
		return nil, err
	}
	k := &Kernel{Spec: spec, Origin: where + release, Exact: release == running}
	if !k.Exact {
		k.Origin += fmt.Sprintf(" (named for %s)", running)
	}
	return k, nil
}
