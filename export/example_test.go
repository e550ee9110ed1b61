package export_test

import (
	"fmt"

	"github.com/quark-linux/quark/export"
)

// Each event passed to an exporter is delivered, queued or dropped.
func ExampleCounts() {
	n := export.Counts{Taken: 10, Delivered: 6, Queued: 1, Dropped: map[string]uint64{"queue_full": 3, "rejected": 0}}
	fmt.Println(n.Taken == n.Delivered+n.Queued+n.Lost(), n.Causes())
	// Output: true [queue_full rejected]
}
