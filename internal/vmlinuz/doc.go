// Package vmlinuz takes a kernel's types out of its image: x86 bzImages, arm64
// Images and EFI zboot images, whole or compressed, and ELF files. All is done
// in memory and in Go; images are hostile until proven otherwise.
package vmlinuz
