package btfhub_test

import (
	"fmt"

	"github.com/quark-linux/quark/btfhub"
)

// Print the offset of a process's pid in a kernel.
func Example() {
	archive, err := btfhub.Embedded()
	if err != nil {
		fmt.Println(err)
		return
	}
	kernel, err := archive.Lookup("6.1.0-56-cloud-amd64", "amd64")
	if err != nil {
		fmt.Println(err)
		return
	}
	types, err := archive.Types(kernel)
	if err != nil {
		fmt.Println(err)
		return
	}
	offset, _ := btfhub.Resolve(types).Bytes("task_struct.tgid")
	fmt.Println(offset)
	// Output: 2420
}
