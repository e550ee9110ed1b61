package machine

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/vmlinuz"
)

// memoryFile returns a file that is in memory only, with the given content.
func memoryFile(name string, content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a file in memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err := f.Write(content); err != nil {
		f.Close()
		return nil, fmt.Errorf("write a file in memory: %w", err)
	}
	return f, nil
}

// inheritedPath is the path by which a child opens the ith of its exec.Cmd's ExtraFiles.
func inheritedPath(i int) string { return fmt.Sprintf("/proc/self/fd/%d", 3+i) }

// kernel is an image to boot.
type kernel struct {
	path  string
	arch  string // GOARCH
	image []byte // what qemu is to boot
	file  bool   // image is the file's content
}

// readKernel reads a kernel image and takes off the compression that qemu does not know.
func readKernel(path string) (*kernel, error) {
	content, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no kernel image %s: 'go run ./kernel_images' fetches some", path)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read kernel image %s: %w", path, err)
	}
	image, arch, err := vmlinuz.Bootable(content)
	switch {
	case errors.Is(err, vmlinuz.ErrNoImage), errors.Is(err, vmlinuz.ErrNotBootable):
		return nil, fmt.Errorf("%s is %w", path, err)
	case err != nil:
		return nil, fmt.Errorf("kernel image %s: cannot %w", path, err)
	}
	return &kernel{path, arch, image, bytes.HasPrefix(content, image)}, nil
}

// unpack has the host unpack what would take an emulated processor seconds, if qemu can boot that.
func (k *kernel) unpack() {
	if vmlinux := vmlinuz.Vmlinux(k.image); vmlinux != nil {
		k.image, k.file = vmlinux, false
	}
}

// readFile reads a regular file.
func readFile(path string) ([]byte, error) {
	if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() {
		if err == nil {
			err = errors.New("it is no regular file")
		}
		return nil, err
	}
	return os.ReadFile(path)
}

// checkInitramfs looks at an initramfs before qemu does, whose words say less.
func checkInitramfs(path string) error {
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("no initramfs %s: 'make initramfs.gz' builds it", path)
	case err != nil:
	case !st.Mode().IsRegular():
		err = errors.New("it is no regular file")
	case st.Size() == 0:
		err = errors.New("it is empty")
	default:
		err = unix.Access(path, unix.R_OK)
	}
	if err != nil {
		return fmt.Errorf("cannot read initramfs %s: %w", path, err)
	}
	return nil
}
