// Package vmlinuztest provides fetched kernels to tests.
package vmlinuztest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quark-linux/quark/internal/vmlinuz"
)

// Types returns the raw BTF of the kernel images below a directory, by ARCH/NAME. It skips local
// images without types, files beside local images, and links to images that were removed from the
// cache.
func Types(t testing.TB, dir string) map[string][]byte {
	types := make(map[string][]byte)
	paths, _ := filepath.Glob(filepath.Join(dir, "*/*"))
	for _, path := range paths {
		image, err := os.ReadFile(path)
		if err != nil || filepath.Ext(path) == ".json" || filepath.Ext(path) == ".btf" {
			continue
		}
		name, _ := filepath.Rel(dir, path)
		raw, err := vmlinuz.BTF(image)
		if errors.Is(err, vmlinuz.ErrNoBTF) && strings.HasPrefix(name, "local") {
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		types[name] = raw
	}
	return types
}
