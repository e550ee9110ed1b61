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

// memoryFile returns a file in memory with the given content.
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

// inheritedPath returns the path by which a child opens ExtraFiles[i] of its exec.Cmd.
func inheritedPath(i int) string { return fmt.Sprintf("/proc/self/fd/%d", 3+i) }

// kernel is an image to boot.
type kernel struct {
	path  string
	arch  string // GOARCH
	image []byte // for qemu to boot
	file  bool   // image is the unchanged content of the file
}

// readKernel reads a kernel image and removes the compressions that qemu does not support.
func readKernel(path string) (*kernel, error) {
	var content []byte
	err := checkFile(path)
	if err == nil {
		content, err = os.ReadFile(path)
	}
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

// unpack unpacks a bzImage if qemu can boot the unpacked kernel, because an emulated processor
// takes seconds to unpack.
func (k *kernel) unpack() {
	if vmlinux := vmlinuz.Vmlinux(k.image); vmlinux != nil {
		k.image, k.file = vmlinux, false
	}
}

// checkFile returns an error unless path is a regular, readable file that is not empty.
func checkFile(path string) error {
	st, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !st.Mode().IsRegular():
		return errors.New("not a regular file")
	case st.Size() == 0:
		return errors.New("the file is empty")
	}
	return unix.Access(path, unix.R_OK)
}

// checkInitramfs checks an initramfs before qemu does, for clearer messages.
func checkInitramfs(path string) error {
	err := checkFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no initramfs %s: 'make initramfs.gz' builds it", path)
	}
	if err != nil {
		return fmt.Errorf("cannot read initramfs %s: %w", path, err)
	}
	return nil
}
