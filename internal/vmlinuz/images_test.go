package vmlinuz

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf/btf"
)

// TestCachedKernels looks at the kernels that have been fetched.
func TestCachedKernels(t *testing.T) {
	images, _ := filepath.Glob("../../kernel_images/*/*")
	images = slices.DeleteFunc(images, func(path string) bool { return strings.HasSuffix(path, ".btf") })
	if len(images) == 0 {
		t.Skip("no kernel images: 'go run ./kernel_images' fetches some")
	}
	for _, path := range images {
		t.Run(filepath.Base(path), func(t *testing.T) {
			image, err := os.ReadFile(path)
			if err != nil {
				t.Skip(err)
			}
			start := time.Now()
			raw, err := BTF(image)
			if errors.Is(err, ErrNoBTF) && strings.HasPrefix(filepath.Base(path), "nobtf") {
				t.Skip("it is built to have none")
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d bytes of BTF in %v", len(raw), time.Since(start))
			spec, err := btf.LoadSpecFromReader(bytes.NewReader(raw))
			if err != nil {
				t.Fatal(err)
			}
			var task *btf.Struct
			if err := spec.TypeByName("task_struct", &task); err != nil {
				t.Error(err)
			}
		})
	}
}
