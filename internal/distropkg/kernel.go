package distropkg

import (
	"path"
	"regexp"
	"strings"
)

// Where packages have a kernel's files:
//
//	boot/vmlinuz-RELEASE                             Debian, Ubuntu, RHEL 7, Amazon
//	boot/Image-RELEASE                               SUSE on arm64
//	boot/vmlinux-RELEASE.gz                          SUSE
//	lib/modules/RELEASE/vmlinuz                      RHEL 8 and later
//	usr/lib/modules/RELEASE/vmlinuz                  Fedora, SUSE, Debian from 7.2 on
//	usr/lib/debug/boot/vmlinux-RELEASE               debug information of Debian and Ubuntu
//	usr/lib/debug/lib/modules/RELEASE/vmlinux        of RHEL, Fedora, Amazon
//	usr/lib/debug/.../RELEASE/vmlinux-RELEASE.debug  of SUSE
var (
	kernelName = regexp.MustCompile(`^(?:vmlinu[xz]|Image|bzImage)(?:-(.+?))?(?:\.(?:unsigned|gz|xz|debug))*$`)
	modulesDir = regexp.MustCompile(`(?:^|/)lib/modules/([^/]+)/`)
)

// KernelFile returns the release of the kernel that a file of a package is, "" if its name does not
// have it. ok is false for other files.
func KernelFile(name string) (release string, ok bool) {
	m := kernelName.FindStringSubmatch(path.Base(name))
	if m == nil {
		return "", false
	}
	if release = m[1]; release == "" {
		release = ModulesOf(name)
	}
	return release, true
}

// ModulesOf returns the release that the directory of modules is of which a file is in, "" for
// other files.
func ModulesOf(name string) (release string) {
	if m := modulesDir.FindStringSubmatch(name); m != nil {
		return m[1]
	}
	return ""
}

// IsModule reports whether a file of a package is a module of the kernel.
func IsModule(name string) bool {
	base := path.Base(name)
	return ModulesOf(name) != "" && (strings.HasSuffix(base, ".ko") || strings.Contains(base, ".ko."))
}
