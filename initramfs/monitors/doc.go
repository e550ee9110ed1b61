// Command monitors builds an archive for the guest image with other process monitors: the programs
// of package fidelity/monitor, a shell, and the shared libraries that they need.
//
// The machine's apt (package debian) downloads and checks the Debian packages of the machine's
// release. The user's cache keeps the archive. Without -u the cached archive is used, without
// network. The archive's file /etc/monitor-packages lists the packages.
//
//	go run ./initramfs/monitors -o build/amd64/monitors.cpio.zst
package main
