package ingest

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"github.com/quark-linux/quark/internal/distropkg"
)

// errNoKernel says that nothing in a package could have types.
var errNoKernel = errors.New("no kernel in it: a package with vmlinuz or with vmlinux is wanted")

// readPackage returns the types of the first kernel in a package that has some.
func readPackage(name string, members []string) (Found, error) {
	p, err := distropkg.Open(name)
	if err != nil {
		return Found{}, err
	}
	defer p.Close()
	var last error
	for {
		f, err := p.Next()
		if errors.Is(err, io.EOF) {
			return Found{}, cmp.Or(last, errNoKernel)
		}
		if err != nil {
			return Found{}, err
		}
		release, ok := distropkg.KernelFile(f.Name)
		if !ok || f.Link != "" {
			continue
		}
		found, err := readFromPackage(p, path.Base(f.Name), members)
		if err != nil {
			last = fmt.Errorf("%s: %w", f.Name, err)
			continue
		}
		found.Release, found.Arch = cmp.Or(release, found.Release), cmp.Or(found.Arch, p.Arch)
		return found, nil
	}
}

// readFromPackage reads a kernel, which needs a file of its own for that.
func readFromPackage(r io.Reader, name string, members []string) (Found, error) {
	temp, err := os.CreateTemp("", "quark-kernel-")
	if err != nil {
		return Found{}, err
	}
	defer os.Remove(temp.Name())
	defer temp.Close()
	if _, err := io.Copy(temp, r); err != nil {
		return Found{}, fmt.Errorf("unpack to %s (TMPDIR names another place): %w", temp.Name(), err)
	}
	if _, err := temp.Seek(0, io.SeekStart); err != nil {
		return Found{}, err
	}
	return read(temp, name, members)
}
