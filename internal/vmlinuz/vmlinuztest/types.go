// Package vmlinuztest gives tests the kernels that have been fetched.
package vmlinuztest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quark-linux/quark/internal/vmlinuz"
)

// Types returns the raw types in the kernel images below a directory, by ARCH/NAME,
// without those that are built to have none or gone from the cache.
func Types(t testing.TB, dir string) map[string][]byte {
	types := make(map[string][]byte)
	paths, _ := filepath.Glob(filepath.Join(dir, "*/*"))
	for _, path := range paths {
		image, err := os.ReadFile(path)
		if err != nil || strings.HasPrefix(filepath.Base(path), "nobtf") {
			continue
		}
		name, _ := filepath.Rel(dir, path)
		if types[name], err = vmlinuz.BTF(image); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	return types
}
