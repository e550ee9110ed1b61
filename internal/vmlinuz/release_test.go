package vmlinuz

import (
	"encoding/binary"
	"strings"
	"testing"
)

func TestRelease(t *testing.T) {
	bz := bzImage(gzipped(arm64Image([]byte("xLinux version 9.9.9 (a@b)"))))
	named := append([]byte{}, bz...)
	binary.LittleEndian.PutUint16(named[kernelVersionAt:], uint16(len(named)-0x200))
	named = append(named, "6.1.0-56-cloud-amd64 (debian-kernel@lists) #1 SMP\x00"...)
	for _, tt := range []struct {
		name  string
		image []byte
		want  string
	}{
		{"in a bzImage's header", named, "6.1.0-56-cloud-amd64"},
		{"in its kernel", bz, "9.9.9"},
		{"Image", arm64Image([]byte("Linux version %s (%s)\nLinux version 4.18.0-80.el8.aarch64 (x)")), "4.18.0-80.el8.aarch64"},
		{"zboot", zboot(zstded(arm64Image([]byte("Linux version 6.12.1-arm64 \x00")))), "6.12.1-arm64"},
		{"none", arm64Image(nil), ""},
		{"not ended", arm64Image([]byte("Linux version 1.2" + strings.Repeat("3", 80))), ""},
		{"no image", []byte("text"), ""},
	} {
		if got := Release(tt.image); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
