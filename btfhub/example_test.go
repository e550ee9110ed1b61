package btfhub_test

import (
	"fmt"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/btfhub"
)

// The kernel has no types of its own: they come from a file.
func ExampleOptions() {
	options := quark.Options{BTF: btfhub.Options{Path: "/usr/lib/debug/types.btf"}}
	fmt.Println(options.BTF.FilePath())
	// Output: /usr/lib/debug/types.btf
}
