package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/quark-linux/quark/internal/harness/gotest"
	"github.com/quark-linux/quark/internal/harness/matrix"
)

// buildGoImages builds the images of guests that run Go tests. The same sources give the same
// image, so that results can be cached.
func (o *options) buildGoImages(ctx context.Context, guests []matrix.Guest) error {
	built := make(map[string]string)
	for i, g := range guests {
		if g.Part != matrix.PartGo {
			continue
		}
		arch := g.Kernel.Arch
		if built[arch] == "" {
			built[arch] = filepath.Join(o.out, "gotest-"+arch+".img")
			if err := buildGoImage(ctx, built[arch], g.Image, arch, g.Packages); err != nil {
				return fmt.Errorf("build the image with the Go tests: %w", err)
			}
		}
		guests[i].Image = built[arch]
	}
	return nil
}

func buildGoImage(ctx context.Context, path, base, arch string, packages []string) error {
	temp, err := os.MkdirTemp("", "quark-gotest-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	args := append([]string{"test", "-c", "-buildvcs=false", "-trimpath", "-ldflags=-s -w", "-o", temp + "/"}, packages...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	var run gotest.Run
	for _, p := range packages {
		b := gotest.Binary{Dir: p, Package: filepath.Clean(p), Backend: matrix.BackendOf(p)}
		b.Path = filepath.Join(temp, b.Name()+".test")
		run.Binaries = append(run.Binaries, b)
	}
	return writeGoImage(path, base, run)
}
