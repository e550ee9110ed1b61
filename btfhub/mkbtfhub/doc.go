// Command mkbtfhub makes the archive of kernels' types in package btfhub.
//
//	go run ./btfhub/mkbtfhub [DIR...]
//
// Each DIR is laid out as btfhub-archive is: distro/version/arch/release.btf, packed as .tar.xz,
// .xz, .zst or .gz or not at all. Kernels that the archive already has and no DIR has stay in it,
// cut down to the members that are read now. So a member that is no longer read leaves the archive
// without any DIR; one that was not read before needs the types of all kernels in a DIR.
//
// It is started from the root of the repository, by 'make btfhub'.
package main
