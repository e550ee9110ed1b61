// Command monitors builds an archive of other programs that watch processes, for the guest image:
// the programs of package fidelity/monitor, a shell, and the shared libraries that they need.
//
// They come from the Debian packages of this machine's release, through its own apt (package
// debian). The user's cache keeps the packages and the archive, and a list of what went into it:
// without -u the cached packages are used, with their checksums, without network.
//
//	go run ./initramfs/monitors -o build/amd64/monitors.cpio.zst
package main
