package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"

	"github.com/quark-linux/quark/internal/harness/debian"
	"github.com/quark-linux/quark/internal/vmlinuz"
	"github.com/quark-linux/quark/internal/wholefile"
)

// typesDir has kernels' types in DIR/debian/SERIES/ARCH/RELEASE.btf.zst, the layout of
// btfhub-archive with another compression.
type typesDir struct{ dir string }

func (d *typesDir) path(p debian.Package) string {
	row, _ := rowOf(p) // every surveyed package has one
	return filepath.Join(d.dir, "debian", row.Series, p.Arch, releaseOf(p)+".btf.zst")
}

func (d *typesDir) has(p debian.Package) bool {
	_, err := os.Stat(d.path(p))
	return err == nil
}

// keep stores the types of the kernel in a package.
func (d *typesDir) keep(ctx context.Context, p debian.Package, deb string) error {
	image, err := debian.Find(ctx, deb, imageFile)
	if err != nil {
		return err
	}
	raw, err := vmlinuz.BTF(image)
	if err != nil {
		return fmt.Errorf("%w: no types in its kernel: %w", debian.ErrNoFile, err)
	}
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	path := d.path(p)
	err = os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = wholefile.Write(path, enc.EncodeAll(raw, nil))
	}
	if err != nil {
		return fmt.Errorf("keep types: %w", err)
	}
	return nil
}
