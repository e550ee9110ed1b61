package hostclock

import (
	"encoding/hex"
	"os"
	"runtime"
	"strings"

	"github.com/quark-linux/quark/engine"
)

// thisHost describes this machine. Unreadable values are unknown.
func thisHost() engine.Host {
	read := func(name string) string {
		b, _ := os.ReadFile(name)
		return strings.TrimSpace(string(b))
	}
	const kernel = "/proc/sys/kernel/"
	name, _ := os.Hostname()
	return engine.Host{
		Name: name, MachineID: machineID(read("/etc/machine-id")), BootID: read(kernel + "random/boot_id"), Kernel: read(kernel + "osrelease"),
		Arch: runtime.GOARCH,
	}
}

// machineID returns the text of /etc/machine-id if it is an id. In images the file is empty or
// "uninitialized" until their first boot.
func machineID(text string) string {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != 16 {
		return ""
	}
	return text
}
