package local

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quark-linux/quark/internal/atomicfile"
	"github.com/quark-linux/quark/internal/vmlinuz"
)

// Added is a kernel that Add has added.
type Added struct {
	Name string // without [Prefix]
	Kernel
}

// Add copies a kernel image to a directory, in place of one of the same name. modules is the
// directory of the kernel's modules, lib/modules/RELEASE, or "". Its name is the release of an
// image that does not name its own; its file config, if there is one, must allow a guest to report
// and names the features that the guest must have.
func Add(dir, image, modules string) (a Added, err error) {
	content, err := readImage(image)
	if err != nil {
		return a, err
	}
	_, arch, err := vmlinuz.Bootable(content)
	if err != nil {
		return a, fmt.Errorf("%s: %w", image, err)
	}
	release := vmlinuz.Release(content)
	if modules != "" {
		named := filepath.Base(modules)
		if release != "" && named != release {
			return a, fmt.Errorf("%s: the modules of %s are wanted, as the image is of that release", modules, release)
		}
		release = cmp.Or(release, named)
	}
	if !plain(release) {
		return a, fmt.Errorf("%s: it does not name its release: give the directory of its modules as well", image)
	}
	a = Added{nameOf(release, arch), Kernel{Release: release, Arch: arch}}
	if modules != "" {
		if a.Features, err = readConfig(filepath.Join(modules, "config"), arch); err != nil {
			return a, err
		}
	}
	if _, err := vmlinuz.BTF(content); err == nil {
		a.BTF = true
		a.Features = append(a.Features, "btf")
	} else if !errors.Is(err, vmlinuz.ErrNoBTF) {
		return a, fmt.Errorf("%s: %w", image, err)
	}
	description, err := json.MarshalIndent(a.Kernel, "", "\t")
	if err != nil {
		return a, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return a, err
	}
	path := filepath.Join(dir, a.Name)
	return a, errors.Join(atomicfile.Write(path+jsonSuffix, append(description, '\n')), atomicfile.Write(path, content))
}

// readImage reads a regular file: reading of some others would not end.
func readImage(path string) ([]byte, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: no regular file", path)
	}
	return os.ReadFile(path)
}

// plain reports whether a release can be the name of a file and a word of a command line.
func plain(release string) bool {
	return release != "" && release[0] != '.' && !strings.ContainsFunc(release, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`/\'"$*?[]`, r)
	})
}

// nameOf returns the release with the architecture, which not every distribution has in it.
func nameOf(release, arch string) string {
	for _, word := range []string{"amd64", "x86_64", "arm64", "aarch64"} {
		if strings.Contains(release, word) {
			return release
		}
	}
	return release + "-" + arch
}

// promises are options of a kernel's configuration and the features of a guest that they make, by
// the names of the hello record.
var promises = []struct{ option, feature string }{
	{"CONFIG_KPROBE_EVENTS", "kprobes"},
	{"CONFIG_UPROBE_EVENTS", "uprobes"},
	{"CONFIG_PERF_EVENTS", "perf_events"},
	{"CONFIG_BPF_SYSCALL", "bpf"},
	{"CONFIG_PROC_EVENTS", "connector"},
}

// serial is the driver of the console and of the port for results, by architecture.
var serial = map[string]string{"amd64": "CONFIG_SERIAL_8250_CONSOLE", "arm64": "CONFIG_SERIAL_AMBA_PL011_CONSOLE"}

const maxConfig = 4 << 20

// readConfig returns the features that a kernel's configuration promises. Guests have no modules,
// so it is an error if an option that a guest needs to report is not built in. Without the file it
// returns nothing.
func readConfig(path, arch string) (features []string, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxConfig))
	if err != nil {
		return nil, err
	}
	lines := strings.Split(string(text), "\n")
	builtIn := func(option string) bool { return slices.Contains(lines, option+"=y") }
	var missing []string
	for _, option := range []string{"CONFIG_BLK_DEV_INITRD", "CONFIG_RD_GZIP", serial[arch]} {
		if !builtIn(option) {
			missing = append(missing, option)
		}
	}
	if missing != nil {
		return nil, fmt.Errorf("%s: a guest cannot boot or cannot report: %s not built in", path, strings.Join(missing, ", "))
	}
	for _, p := range promises {
		if builtIn(p.option) {
			features = append(features, p.feature)
		}
	}
	return features, nil
}
