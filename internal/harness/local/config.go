package local

import (
	"fmt"
	"slices"
	"strings"
)

// promises are options of a kernel's configuration and the features of a guest that they make, by
// the names of the hello record.
var promises = []struct{ option, feature string }{
	{"CONFIG_DEBUG_INFO_BTF", "btf"},
	{"CONFIG_KPROBE_EVENTS", "kprobes"},
	{"CONFIG_UPROBE_EVENTS", "uprobes"},
	{"CONFIG_PERF_EVENTS", "perf_events"},
	{"CONFIG_BPF_SYSCALL", "bpf"},
	{"CONFIG_PROC_EVENTS", "connector"},
}

// serial is the driver of the console and of the port for results, by architecture.
var serial = map[string]string{"amd64": "CONFIG_SERIAL_8250_CONSOLE", "arm64": "CONFIG_SERIAL_AMBA_PL011_CONSOLE"}

// config is a kernel's configuration: the options that are built in or modules, y or m.
type config map[string]string

func parseConfig(text string) config {
	c := make(config)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && strings.HasPrefix(name, "CONFIG_") {
			c[name] = value
		}
	}
	return c
}

func (c config) features() (all []string) {
	for _, p := range promises {
		if c[p.option] == "y" {
			all = append(all, p.feature)
		}
	}
	return all
}

// bootable returns an error if a guest with the kernel could not report: it has no modules.
func (c config) bootable(arch string) error {
	var missing []string
	for _, option := range []string{serial[arch], "CONFIG_BLK_DEV_INITRD", "CONFIG_RD_GZIP"} {
		if c[option] != "y" {
			missing = append(missing, option)
		}
	}
	if missing != nil {
		slices.Sort(missing)
		return fmt.Errorf("a guest cannot boot it or not report: it has %s not built in", strings.Join(missing, ", "))
	}
	return nil
}
