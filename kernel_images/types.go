package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"

	"github.com/quark-linux/quark/internal/vmlinuz"
	"github.com/quark-linux/quark/internal/wholefile"
)

// typesDir has kernels' types in DIR/debian/SERIES/ARCH/RELEASE.btf.zst, the layout of
// btfhub-archive with another compression.
type typesDir struct{ dir string }

func (d *typesDir) path(p Package) string {
	row, _ := p.row() // every surveyed package has one
	return filepath.Join(d.dir, "debian", row.Series, p.Arch, p.release()+".btf.zst")
}

func (d *typesDir) has(p Package) bool {
	_, err := os.Stat(d.path(p))
	return err == nil
}

// keep stores the types of the kernel in a package.
func (d *typesDir) keep(ctx context.Context, p Package, deb string) error {
	image, err := unpack(ctx, deb, imageFile)
	if err != nil {
		return err
	}
	raw, err := vmlinuz.BTF(image)
	if err != nil {
		return fmt.Errorf("%w that has types: %w", errNoImage, err)
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
