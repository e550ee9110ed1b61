package main

import (
	"bytes"
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
	var image bytes.Buffer
	if err := extractImage(ctx, deb, &image); err != nil {
		return err
	}
	raw, err := vmlinuz.BTF(image.Bytes())
	if err != nil {
		return err
	}
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	path := d.path(p)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("keep types: %w", err)
	}
	if err := wholefile.Write(path, enc.EncodeAll(raw, nil)); err != nil {
		return fmt.Errorf("keep types: %w", err)
	}
	return nil
}
