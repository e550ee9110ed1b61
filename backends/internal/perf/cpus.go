package perf

import (
	"fmt"
	"strconv"
	"strings"
)

// maxCPU bounds the numbers of CPUs (CONFIG_NR_CPUS is at most 8192).
const maxCPU = 1 << 16

// ParseCPUs parses a list of CPUs in the form of sysfs, such as "0-3,8", with or without a newline,
// and appends the numbers to dst.
func ParseCPUs(dst []int, list string) ([]int, error) {
	list = strings.TrimSpace(list)
	if list == "" {
		return dst, nil
	}
	for part := range strings.SplitSeq(list, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		a, errA := strconv.ParseUint(from, 10, 32)
		b, errB := strconv.ParseUint(to, 10, 32)
		if errA != nil || errB != nil || a > b || b >= maxCPU {
			return dst, fmt.Errorf("parse list of CPUs: %q", part)
		}
		for n := a; n <= b; n++ {
			dst = append(dst, int(n))
		}
	}
	return dst, nil
}
