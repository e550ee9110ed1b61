package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/quark-linux/quark/internal/command"
	"github.com/quark-linux/quark/internal/harness/local"
)

// addKernel makes a row of the kernel in an image.
func addKernel(_ context.Context, args []string, stdout io.Writer) (int, error) {
	f := command.NewFlags("quark-matrix")
	images := f.String("images", "kernel_images", "directory of the kernels' images, with local/ in it")
	if err := parse(f, "add", args, stdout); err != nil {
		return unusable, err
	}
	if f.NArg() != 1 && f.NArg() != 2 {
		return unusable, fmt.Errorf("%w: add wants an image, and may have the directory of its modules after it", errUsage)
	}
	dir := filepath.Join(*images, "local")
	k, err := local.Add(dir, f.Arg(0), f.Arg(1))
	if err != nil {
		return unusable, err
	}
	fmt.Fprintf(stdout, "%s%s: on %s", local.Prefix, k.Name, k.Arch)
	if len(k.Features) > 0 {
		fmt.Fprintf(stdout, "; promises %s", strings.Join(k.Features, ", "))
	}
	fmt.Fprintln(stdout)
	if !k.BTF {
		fmt.Fprintf(stdout, "it has no types (BTF): make them from its debug information: pahole --btf_encode_detached=%s.btf VMLINUX\n",
			filepath.Join(dir, k.Name))
	}
	return allGood, nil
}
