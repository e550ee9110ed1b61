package vmlinuz

import (
	"bytes"
	"encoding/binary"
	"regexp"
	"slices"
)

// Release returns the release of the kernel in an image, as uname -r prints it, or "" if it is
// unknown.
func Release(image []byte) string {
	if release := headerRelease(image); release != "" {
		return release
	}
	kernel, err := Unpack(image, MaxSize)
	if err != nil {
		return ""
	}
	return BannerRelease(kernel)
}

// headerRelease returns the release that the header of a bzImage names.
func headerRelease(image []byte) string {
	if !isBzImage(image) {
		return ""
	}
	at := int(binary.LittleEndian.Uint16(image[kernelVersionAt:]))
	if at == 0 || at+0x200 >= len(image) {
		return ""
	}
	return first(image[at+0x200:])
}

// kernelVersionAt is the offset of kernel_version in a bzImage: the position of its text, minus
// 0x200.
const kernelVersionAt = 0x20e

// banner begins the kernel's linux_banner, as in /proc/version.
var banner = []byte("Linux version ")

// BannerRelease returns the release in the first banner in a part of a kernel, "" if there is none.
func BannerRelease(kernel []byte) string {
	for {
		i := bytes.Index(kernel, banner)
		if i < 0 {
			return ""
		}
		kernel = kernel[i+len(banner):]
		if release := first(kernel); release != "" {
			return release
		}
	}
}

var releaseText = regexp.MustCompile(`^[0-9]+\.[0-9][!-~]*$`)

// maxRelease is the longest release in struct utsname, without its NUL.
const maxRelease = 64

// first returns the first word of a text if it is a release, else "".
func first(text []byte) string {
	text = text[:min(len(text), maxRelease+1)]
	end := slices.IndexFunc(text, func(b byte) bool { return b == ' ' || b == 0 })
	if end < 0 || !releaseText.Match(text[:end]) {
		return ""
	}
	return string(text[:end])
}
