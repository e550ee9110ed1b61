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

// places are the addresses of functions, for kernels that go through all their
// symbols several times for each probe that is defined by a name: with dozens of
// probes that takes longer than all else. Others have none.
type places map[string]uint64

// findPlaces returns the places of the hooks' functions. What is not found, or not
// shown, is left to the kernel.
func findPlaces() places {
	if !slowWithNames() {
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

// slowWithNames reports whether this kernel is older than 6.1, which has an index
// of names in Debian's build (others since 6.2): elsewhere a name is as good.
func slowWithNames() bool {
	release, err := kernelversion.Running()
	if err != nil {
		return false
	}
	old, err := kernelversion.Older(release, "6.1")
	return err == nil && old
}

// readPlaces reads lines "ADDRESS TYPE NAME" as /proc/kallsyms has them, for those
// names that are a function's and there once. Who may not see addresses sees 0.
func readPlaces(r io.Reader, wanted map[string]bool) places {
	found := make(places) // 0 is as good as none
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
