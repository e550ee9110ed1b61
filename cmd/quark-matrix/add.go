package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/quark-linux/quark/internal/command"
	"github.com/quark-linux/quark/internal/harness/local"
)

// addKernels makes rows of the kernels in images and packages.
func addKernels(_ context.Context, args []string, stdout io.Writer) (int, error) {
	f := command.NewFlags("quark-matrix")
	images := f.String("images", "kernel_images", "directory of the kernels' images, with local/ in it")
	if err := parse(f, "add", args, stdout); err != nil {
		return unusable, err
	}
	if f.NArg() == 0 {
		return unusable, fmt.Errorf("%w: add wants images or packages", errUsage)
	}
	added, err := local.Add(filepath.Join(*images, "local"), f.Args())
	for _, k := range added {
		types := map[string]string{"kernel": "its own types (BTF)", "file": "types in a file", "none": "no types"}[k.BTF]
		fmt.Fprintf(stdout, "%s%s: %s on %s, %s, %d modules, which guests do not have", local.Prefix, k.Name,
			strings.TrimSpace(cmp.Or(k.Distro, "unknown distribution")+" "+k.Flavour), k.Arch, types, k.Modules)
		if len(k.Features) > 0 {
			fmt.Fprintf(stdout, "; promises %s", strings.Join(k.Features, ", "))
		}
		fmt.Fprintln(stdout)
	}
	if err != nil {
		return unusable, err
	}
	return allGood, nil
}
