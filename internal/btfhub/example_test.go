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
	kernel, err := archive.Open("6.1.0-56-cloud-amd64", "amd64")
	if err != nil {
		fmt.Println(err)
		return
	}
	offset, _ := btfhub.Resolve(kernel.Spec).Bytes("task_struct.tgid")
	fmt.Println(kernel.Origin, offset)
	// Output: 6.1.0-56-cloud-amd64 (exact) 2420
}
