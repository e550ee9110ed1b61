package selftest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"

	"github.com/quark-linux/quark/btfhub"
	"github.com/quark-linux/quark/internal/kernelversion"
)

// safeReads is the first Linux release that checks on x86-64 whether an address is canonical before
// a probe or BPF program reads it. Wrong types can cause a read at a non-canonical address.
// Releases from 4.20 to 5.7, and older ones with a backport, then print a warning.
const safeReads = "5.8"

// ReadsWarn reports whether this kernel may print a warning if a probe or a program reads at a
// non-canonical address. The warning can be fatal. A test of types risks such reads.
func ReadsWarn() bool { return runtime.GOARCH == "amd64" && !kernelversion.AtLeast(safeReads) }

// warnSettings are files whose number is not 0 if warnings are fatal: the first warning, or as many
// warnings as the number (since Linux 6.2).
var warnSettings = []struct {
	path     string
	optional bool
}{
	{"sys/kernel/panic_on_warn", false},
	{"sys/kernel/warn_limit", true},
}

// machine has the properties that decide whether wrong types can do harm.
type machine struct {
	arch, release string
	proc          fs.FS // /proc
}

// thisMachine returns the machine that this program runs on. Tests replace it.
var thisMachine = func() (machine, error) {
	release, err := kernelversion.Running()
	return machine{runtime.GOARCH, release, os.DirFS("/proc")}, err
}

// errHarm is the cause of errors for types that Open does not try.
var errHarm = fmt.Errorf("types of another release can do harm on this kernel and are not tried: name a BTF file with %s (%w)",
	btfhub.PathVariable, errors.ErrUnsupported)

// admits returns nil if types that may be wrong can be tried without harm to the kernel.
func (m machine) admits() error {
	if m.arch == "amd64" {
		old, err := kernelversion.Older(m.release, safeReads)
		if err != nil {
			return err
		}
		if old {
			return fmt.Errorf("%w: before Linux %s the kernel warns of reads at wrong addresses", errHarm, safeReads)
		}
	}
	for _, s := range warnSettings {
		b, err := fs.ReadFile(m.proc, s.path)
		if s.optional && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%w: it is unknown whether a warning is fatal: %w", errHarm, err)
		}
		if value := strings.TrimSpace(string(b)); value != "0" {
			return fmt.Errorf("%w: %s is %s, so a warning can be fatal", errHarm, s.path, value)
		}
	}
	return nil
}
