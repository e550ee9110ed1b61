package vmlinuz_test

import (
	"bytes"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/quark-linux/quark/internal/vmlinuz/vmlinuztest"
)

// TestCachedKernels reads the types of the kernels that have been fetched.
func TestCachedKernels(t *testing.T) {
	kernels := vmlinuztest.Types(t, "../../kernel_images")
	if len(kernels) == 0 {
		t.Skip("no kernel images: 'go run ./kernel_images' fetches some")
	}
	for name, raw := range kernels {
		t.Run(name, func(t *testing.T) {
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
