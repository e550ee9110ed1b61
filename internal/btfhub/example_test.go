package btfhub_test

import (
	"fmt"

	"github.com/quark-linux/quark/internal/btfhub"
)

// Where does a kernel keep the pid of a process?
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
