package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/quark-linux/quark/internal/harness/local"
)

// addVerb returns the verb that adds the kernel of an image as a row.
func addVerb() (*cobra.Command, verb) {
	c := &cobra.Command{Use: "add [--images DIR] VMLINUZ [MODULES]", Short: "add a kernel image as row local/RELEASE", Args: cobra.ArbitraryArgs}
	f := c.Flags()
	images := f.String("images", "kernel_images", "directory of the kernels' images, which contains local/")
	return c, func(_ context.Context, operands []string, stdout io.Writer) (int, error) {
		if len(operands) != 1 && len(operands) != 2 {
			return unusable, fmt.Errorf("%w: add needs an image, optionally followed by the directory of its modules", errUsage)
		}
		dir := filepath.Join(*images, "local")
		k, err := local.Add(dir, operands[0], append(operands, "")[1])
		if err != nil {
			return unusable, err
		}
		fmt.Fprintf(stdout, "%s%s: on %s\n", local.Prefix, k.Name, k.Arch)
		if !k.BTF {
			fmt.Fprintf(stdout, "the kernel has no BTF: make BTF from its debug information: pahole --btf_encode_detached=%s.btf VMLINUX\n",
				filepath.Join(dir, k.Name))
		}
		return allGood, nil
	}
}
