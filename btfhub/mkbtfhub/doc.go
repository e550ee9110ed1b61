// Command mkbtfhub makes the archive of kernels' types in package btfhub.
//
//	go run ./btfhub/mkbtfhub DIR...
//
// Each DIR is laid out as btfhub-archive is: distro/version/arch/release.btf,
// packed as .tar.xz, .xz, .zst or .gz or not at all. It is started from the root
// of the repository, by 'make btfhub'.
package main
