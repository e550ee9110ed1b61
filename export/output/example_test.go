package output_test

import (
	"fmt"
	"os"
	"time"

	"github.com/quark-linux/quark/export/output"
)

// Write lines to a file that is begun anew each midnight or after 100 MiB.
func Example() {
	out, err := output.Open("/var/log/quark.json", output.Options{RotateSize: 100 << 20, RotateEvery: 24 * time.Hour, Keep: 10})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	out.Put(nil, []byte("{\"hello\":\"world\"}\n"))
	if err := out.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	n := out.Counts()
	fmt.Println(n.Taken, "lines,", n.Delivered, "written, dropped:", n.Dropped)
}
