// Package vmlinuz reads kernel images: x86 bzImages, arm64 Images and EFI zboot images, whole or
// compressed, and ELF files. It finds the kernel's types (BTF) in them and the form that a machine
// can boot. It trusts no image, and runs no other program.
package vmlinuz
