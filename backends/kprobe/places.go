package kprobe

import (
	"bufio"
	"bytes"
	"io"
	"maps"
	"os"
	"strconv"

	"github.com/quark-linux/quark/internal/kernelversion"
)

// places maps functions to their addresses. Before 6.1 the kernel searches all its symbols several
// times for each probe that is defined by a name, which for dozens of probes takes longer than all
// other work. The map is nil on later kernels.
type places map[string]uint64

// findPlaces returns the addresses of the hooks' functions. For functions that are missing in the
// map, or hidden from this process, the kernel searches itself. Debian's kernels have an index of
// symbol names since 6.1, others since 6.2.
func findPlaces() places {
	if kernelversion.AtLeast("6.1") {
		return nil
	}
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return nil
	}
	defer f.Close()
	wanted := make(map[string]bool)
	for _, f := range families {
		for _, h := range f.hooks {
			wanted[h.symbol] = true
		}
	}
	return readPlaces(f, wanted)
}

// readPlaces reads the lines "ADDRESS TYPE NAME" of /proc/kallsyms for the wanted functions. It
// leaves out names that occur more than once, and addresses that are 0, which are hidden from this
// process.
func readPlaces(r io.Reader, wanted map[string]bool) places {
	found := make(places)
	for s := bufio.NewScanner(r); s.Scan(); {
		address, rest, _ := bytes.Cut(s.Bytes(), []byte(" "))
		kind, name, ok := bytes.Cut(rest, []byte(" "))
		if !ok || !wanted[string(name)] || string(kind) != "T" && string(kind) != "t" {
			continue
		}
		n, err := strconv.ParseUint(string(address), 16, 64)
		if _, again := found[string(name)]; err != nil || again {
			n = 0
		}
		found[string(name)] = n
	}
	maps.DeleteFunc(found, func(_ string, at uint64) bool { return at == 0 })
	return found
}
