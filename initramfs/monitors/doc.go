// Command monitors builds an archive of other programs that watch processes, for the guest image:
// the programs of package fidelity/monitor, a shell, and the shared libraries that they need.
//
// They come from the Debian packages of this machine's release, through its own apt (package
// debian), which checks them. The user's cache keeps the archive: without -u it is used, without
// network. Its file /etc/monitor-packages lists the packages.
//
//	go run ./initramfs/monitors -o build/amd64/monitors.cpio.zst
package main
